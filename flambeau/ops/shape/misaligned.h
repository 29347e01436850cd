// Note [Misaligned elements]
// Kernels take it that elements lie at multiples of their size, as the compiler does. Memory of
// others (a buffer from some byte on, a NumPy array, DLPack) need not begin so, and nor do tensors
// of a wider dtype over it. Such a tensor is marked like one with a pending sign: see Note [Pending
// conjugation]. What resolves the mark copies bytes.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

constexpr uint8_t misaligned = 8;  // a bit of TensorImpl::pending, beside those of Pending

// The tensor, marked as its memory demands.
inline Tensor marked_if_misaligned(Tensor tensor) {
  const bool is_misaligned = reinterpret_cast<uintptr_t>(tensor.raw()) % tensor.item_size() != 0;
  tensor->pending =
      static_cast<uint8_t>((tensor->pending & ~misaligned) | (is_misaligned ? misaligned : 0));
  return tensor;
}

}  // namespace flambeau
