// The table of functions that extension modules of programs take from this one.
#include "python/extension/tensor_api.h"

#include "python/src/binding.h"

namespace flambeau::python {
namespace {

template <class E>
bool enum_from(PyTypeObject* type, PyObject* object, E& value) {
  if (Py_TYPE(object) != type) return false;
  value = static_cast<E>(reinterpret_cast<EnumObject*>(object)->value);
  return true;
}

const TensorApi api{
    .wrap = [](const Tensor& tensor) { return python::wrap(tensor); },
    .is_tensor = is_tensor,
    .tensor_of = tensor_of,
    .wrap_dtype = wrap_dtype,
    .wrap_device = [](const Device& device) { return python::wrap_device(device); },
    .wrap_layout = wrap_layout,
    .wrap_memory_format = wrap_memory_format,
    .wrap_scalar = [](const Scalar& scalar) { return python::wrap_scalar(scalar); },
    .wrap_generator = wrap_generator,
    // Only the types themselves: to a C++ function "cpu" is no device, and float no dtype.
    .dtype_from = [](PyObject* object,
                     DType& dtype) { return enum_from(dtype_type, object, dtype); },
    .device_from =
        [](PyObject* object, Device& device) {
          return Py_TYPE(object) == device_type && device_from(object, device);
        },
    .layout_from = [](PyObject* object,
                      Layout& layout) { return enum_from(layout_type, object, layout); },
    .memory_format_from =
        [](PyObject* object, MemoryFormat& format) {
          return enum_from(memory_format_type, object, format);
        },
    .scalar_from = scalar_from,
    .int_from = int_from,
    .generator_from = generator_from,
    .set_python_error = set_python_error,
};

}  // namespace

bool add_tensor_api(PyObject* module) {
  const Object capsule(PyCapsule_New(const_cast<TensorApi*>(&api), TensorApi::capsule, nullptr));
  return capsule && PyModule_AddObjectRef(module, "_tensor_api", capsule.get()) == 0;
}

}  // namespace flambeau::python
