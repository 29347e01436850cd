// Quantized tensors, of which the core sees only integers (flambeau/_quantized): what must not take
// them for these asks here first.
#include "python/src/binding.h"

namespace flambeau::python {

bool is_quantized(PyObject* object) {
  if (Py_TYPE(object) == tensor_type || Py_TYPE(object) == parameter_type || !is_tensor(object))
    return false;
  const Object answer(PyObject_GetAttrString(object, "is_quantized"));
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

double quantized_value(PyObject* object) {
  return PyFloat_AsDouble(check(PyNumber_Float(object)).get());
}

PyObject* of_quantized(PyObject* data, std::optional<DType> dtype, std::optional<Device> device,
                       bool copy) {
  if (!is_quantized(data)) return nullptr;
  Object made = Object::borrow(data);
  if (dtype) {
    const Object wanted = check(wrap_dtype(*dtype));
    made = check(PyObject_CallMethod(made.get(), "to", "O", wanted.get()));
  }
  if (device) {
    const Object place = check(wrap_device(*device));
    made = check(PyObject_CallMethod(made.get(), "to", "O", place.get()));
  }
  if (copy && made.get() == data) made = check(PyObject_CallMethod(data, "clone", nullptr));
  return made.release();
}

}  // namespace flambeau::python
