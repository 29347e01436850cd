// Tensors in modules of pybind11.
#pragma once

#include <torch/torch.h>

#include "flambeau/python/casters.h"  // IWYU pragma: export

namespace py = pybind11;
