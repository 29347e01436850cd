// Memory shared with other libraries.
#pragma once

#include "binding.h"

namespace flambeau::python {

// A tensor over the memory of an array (an object with __array_interface__), which it keeps alive;
// undefined if the object is no array.
Tensor tensor_over_array(PyObject* object);

bool add_interop(PyObject* module);

}  // namespace flambeau::python
