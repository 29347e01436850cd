// The profiler's functions of the extension module.
#pragma once

#include "python/src/binding.h"

namespace flambeau::python {

bool add_profiler(PyObject* module);

}  // namespace flambeau::python
