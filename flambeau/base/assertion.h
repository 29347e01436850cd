// The error of Python's assert statement, which functions of nn raise where PyTorch does.
#pragma once

#include "flambeau/base/check.h"

namespace flambeau {

struct AssertionError : Error {
  using Error::Error;
};

}  // namespace flambeau
