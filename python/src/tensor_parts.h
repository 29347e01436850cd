// The parts of the Tensor type that are written in units of their own.
#pragma once

#include <vector>

#include "python/src/binding.h"

namespace flambeau::python {

extern PyGetSetDef tensor_attributes[];
// Arithmetic, comparison and conversion to Python's numbers.
std::vector<PyType_Slot> number_slots();
PyObject* tensor_complex(PyObject* self, PyObject*);  // __complex__

}  // namespace flambeau::python
