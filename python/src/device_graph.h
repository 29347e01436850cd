// Captured graphs, memory pools and pictures of the allocator, as functions of the module.
#pragma once

#include "python/src/binding.h"

namespace flambeau::python {

bool add_device_graph(PyObject* module);

}  // namespace flambeau::python
