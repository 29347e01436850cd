// Memory shared with other libraries.
#pragma once

#include "flambeau/tensor/shape.h"
#include "python/src/binding.h"

namespace flambeau::python {

// A tensor over the memory of an array (an object with __array_interface__), which it keeps alive;
// undefined if the object is no array.
Tensor tensor_over_array(PyObject* object);

PyObject* from_dlpack_object(PyObject* object);  // a new reference

// Gives the Tensor type further methods.
bool add_methods(PyMethodDef* methods);

bool add_interop(PyObject* module);
bool add_dlpack(PyObject* module);

}  // namespace flambeau::python
