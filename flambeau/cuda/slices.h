// A contiguous tensor seen as (outer, size, inner), where `size` is the dimension a kernel works
// along.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau::cuda {

struct Slices {
  int64_t outer = 1, size = 1, inner = 1;
  Slices(const Tensor& x, int64_t dim) {
    if (x.dim() == 0) return;
    for (int64_t d = 0; d < dim; ++d) outer *= x.sizes()[d];
    size = x.sizes()[dim];
    for (int64_t d = dim + 1; d < x.dim(); ++d) inner *= x.sizes()[d];
  }
};

}  // namespace flambeau::cuda
