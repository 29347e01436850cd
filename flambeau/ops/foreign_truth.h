// Note [Foreign truth values]
// Kernels take it that a bool is 0 or 1, as the compiler does. Bytes that others wrote (NumPy, a
// buffer, a file, a tensor of another dtype over the same memory) may hold anything, so a bool
// tensor over them is marked like one with a pending sign: see Note [Pending conjugation]. What
// resolves the mark looks at the bytes each time, since others may write there again, and copies
// them only where one is neither 0 nor 1.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

constexpr uint8_t foreign_truth = 8;  // a bit of TensorImpl::pending, beside those of Pending

inline Tensor over_foreign(Tensor tensor) {
  if (tensor.dtype() == DType::bool_) tensor->pending |= foreign_truth;
  return tensor;
}

}  // namespace flambeau
