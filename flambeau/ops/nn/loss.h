// What losses share. Reductions are numbers as PyTorch has them: 0 none, 1 mean, 2 sum.
#pragma once

#include "flambeau/kernels/nn.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

Reduction check_reduction(int64_t reduction);
// A loss of one value an element, reduced.
Tensor reduced(const Tensor& loss, Reduction reduction);
inline Tensor reduced(const Tensor& loss, int64_t reduction) {
  return reduced(loss, check_reduction(reduction));
}
Tensor at_least_zero(const Tensor& x);

}  // namespace flambeau
