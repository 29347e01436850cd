// What extension modules include.
#pragma once

#include <torch/python.h>  // IWYU pragma: export
#include <torch/torch.h>   // IWYU pragma: export
