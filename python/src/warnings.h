// Warnings of the library as Python's.
#pragma once

#include "python/src/binding.h"

namespace flambeau::python {

bool add_warnings(PyObject* module);

}  // namespace flambeau::python
