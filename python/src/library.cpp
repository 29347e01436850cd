// Operators that programs register in C++ (flambeau/api/operators.h), for flambeau.ops.
#include "flambeau/api/operators.h"

#include "python/src/binding.h"
#include "python/src/files.h"

namespace flambeau::python {
namespace {

using torch::Registration;
constexpr const char* capsule_name = "flambeau.Registration";

IValue value_of(PyObject* object, const Registration& kernel) {
  if (object == Py_None) return {};
  if (is_tensor(object)) return tensor_of(object);
  if (PyUnicode_Check(object)) return text_of(object);
  if (PyList_Check(object) || PyTuple_Check(object)) {
    const Object items = check(PySequence_Fast(object, ""));
    std::vector<IValue> values;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
      values.push_back(value_of(PySequence_Fast_GET_ITEM(items.get(), i), kernel));
    return values;
  }
  if (PyDict_Check(object)) {
    IValue dict = IValue::dict();
    Py_ssize_t at = 0;
    PyObject *key = nullptr, *item = nullptr;
    while (PyDict_Next(object, &at, &key, &item))
      dict.pairs().set(value_of(key, kernel), value_of(item, kernel));
    return dict;
  }
  Scalar scalar;
  if (scalar_from(object, scalar)) return scalar;
  PyErr_Clear();
  if (Py_TYPE(object) == dtype_type) return dtype_of_object(object);
  const auto code = [&] { return reinterpret_cast<EnumObject*>(object)->value; };
  if (Py_TYPE(object) == layout_type) return static_cast<Layout>(code());
  if (Py_TYPE(object) == memory_format_type) return static_cast<MemoryFormat>(code());
  Device device;
  if (Py_TYPE(object) == device_type && device_from(object, device)) return device;
  fail<TypeError>("{}(): an operator of C++ takes no argument of type {}", kernel.name,
                  Py_TYPE(object)->tp_name);
}

// Arguments come in the order of the schema, keywords as well.
PyObject* call_kernel(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    const auto& kernel =
        *static_cast<const Registration*>(PyCapsule_GetPointer(self, capsule_name));
    const Py_ssize_t count = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    torch::Stack stack;
    for (Py_ssize_t i = 0; i < count; ++i) stack.push_back(value_of(args[i], kernel));
    {
      const GilRelease released(true);
      torch::detail::call_kernel(kernel, stack);
    }
    FromValues objects({});
    if (stack.empty()) Py_RETURN_NONE;
    if (stack.size() == 1) return objects(stack[0]).release();
    Object tuple = check(PyTuple_New(static_cast<Py_ssize_t>(stack.size())));
    for (size_t i = 0; i < stack.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), objects(stack[i]).release());
    return tuple.release();
  });
}

PyMethodDef kernel_method = {
    "kernel", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_kernel)),
    METH_FASTCALL | METH_KEYWORDS, "A kernel of an operator that was registered in C++."};

Object kernel_object(const Registration& kernel) {
  if (!kernel.kernel) return Object::borrow(Py_None);
  const Object capsule = check(PyCapsule_New(new Registration(kernel), capsule_name, nullptr));
  return check(PyCFunction_New(&kernel_method, capsule.get()));
}

// _library_registrations(start): (name, schema, key, kernel) of each from number `start` on.
PyObject* registrations(PyObject*, PyObject* start) {
  return guarded([&]() -> PyObject* {
    Object list = check(PyList_New(0));
    for (const Registration& each : torch::detail::registrations(PyLong_AsSize_t(start))) {
      const Object kernel = kernel_object(each);
      const Object item = check(Py_BuildValue("sssO", each.name.c_str(), each.schema.c_str(),
                                              each.key.c_str(), kernel.get()));
      if (PyList_Append(list.get(), item.get()) < 0) throw PythonError();
    }
    return list.release();
  });
}

PyMethodDef functions[] = {{"_library_registrations", registrations, METH_O, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_library(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace flambeau::python
