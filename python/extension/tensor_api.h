// What flambeau._C offers to extension modules of programs: a table of functions in its capsule
// _tensor_api. So the library below knows no Python, and extensions link nothing of the module.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "flambeau/tensor/device.h"
#include "flambeau/tensor/generator.h"
#include "flambeau/tensor/scalar.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::python {

struct TensorApi {
  static constexpr const char* capsule = "flambeau._C._tensor_api";
  static constexpr int current = 1;  // grows with every change of this table

  int version = current;
  // The one object of a tensor, a new reference; None for an undefined tensor.
  PyObject* (*wrap)(const Tensor& tensor);
  bool (*is_tensor)(PyObject* object);
  const Tensor& (*tensor_of)(PyObject* object);
  // Of small values: a new reference each; the conversions back say whether it was one.
  PyObject* (*wrap_dtype)(DType dtype);
  PyObject* (*wrap_device)(const Device& device);
  PyObject* (*wrap_layout)(Layout layout);
  PyObject* (*wrap_memory_format)(MemoryFormat format);
  PyObject* (*wrap_scalar)(const Scalar& scalar);
  PyObject* (*wrap_generator)(Generator* generator);
  bool (*dtype_from)(PyObject* object, DType& dtype);
  bool (*device_from)(PyObject* object, Device& device);
  bool (*layout_from)(PyObject* object, Layout& layout);
  bool (*memory_format_from)(PyObject* object, MemoryFormat& format);
  bool (*scalar_from)(PyObject* object, Scalar& scalar);
  bool (*int_from)(PyObject* object, int64_t& value);
  Generator* (*generator_from)(PyObject* object);  // null if it is none
  // Turns the C++ exception being handled into the current Python one.
  void (*set_python_error)();
};

// The table, or null with a Python exception set.
inline const TensorApi* import_tensor_api() {
  PyObject* module = PyImport_ImportModule("flambeau._C");
  if (!module) return nullptr;
  Py_DECREF(module);
  auto* api = static_cast<const TensorApi*>(PyCapsule_Import(TensorApi::capsule, 0));
  if (api && api->version != TensorApi::current) {
    PyErr_Format(
        PyExc_ImportError,
        "this extension was built for version %d of Flambeau's table of functions, and the "
        "installed one has version %d: build it again",
        TensorApi::current, api->version);
    return nullptr;
  }
  return api;
}

}  // namespace flambeau::python
