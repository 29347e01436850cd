#pragma once

#include <torch/python.h>  // IWYU pragma: export
