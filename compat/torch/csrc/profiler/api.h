#pragma once

#include <torch/torch.h>  // IWYU pragma: export

#include "flambeau/api/profiler.h"
