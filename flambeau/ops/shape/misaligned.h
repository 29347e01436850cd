// Note [Elements askew]
// Kernels take it that elements lie at multiples of their size, as the compiler does. Memory of
// others (a buffer from some byte on, a NumPy array, DLPack) need not begin so, and nor do tensors
// of a wider dtype over it. Such a tensor is marked like one with a pending sign: see Note [Pending
// conjugation]. What resolves the mark copies bytes.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

constexpr uint8_t askew = 8;  // a bit of TensorImpl::pending, beside those of Pending

// The tensor, marked as its memory demands.
inline Tensor marked_if_askew(Tensor tensor) {
  const bool lies_askew = reinterpret_cast<uintptr_t>(tensor.raw()) % tensor.item_size() != 0;
  tensor->pending = static_cast<uint8_t>((tensor->pending & ~askew) | (lies_askew ? askew : 0));
  return tensor;
}

}  // namespace flambeau
