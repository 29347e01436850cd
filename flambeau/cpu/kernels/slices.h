// Work along one dimension of a contiguous tensor: rows where it is the last one, blocks of
// neighbouring columns where it is not.
#pragma once

#include <algorithm>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/kernels/elementwise/loops.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// The tensor as outer x size x inner around the dimension.
struct SliceShape {
  int64_t outer = 1, size = 1, inner = 1;
  SliceShape(const Tensor& tensor, int64_t dim) {
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      (d < dim ? outer : d == dim ? size : inner) *= tensor->sizes[d];
    }
  }
};

constexpr int64_t column_block = 512;

// Calls rows(offset, n) for n rows where inner is one, else columns(offset, n) for n neighbouring
// columns, at most `width`, over the whole tensor and in parallel. `cost` says how many plain adds
// an element is worth.
template <class Rows, class Columns>
void for_each_slice(const SliceShape& s, int cost, const Rows& rows, const Columns& columns,
                    int64_t width = column_block) {
  if (s.outer == 0 || s.size == 0 || s.inner == 0) return;
  const int64_t grain = std::max<int64_t>(1, default_grain / cost / s.size);
  if (s.inner == 1) {
    parallel_for(0, s.outer, grain,
                 [&](int64_t first, int64_t last) { rows(first * s.size, last - first); });
    return;
  }
  const int64_t blocks = (s.inner + width - 1) / width;
  const int64_t block_grain = std::max<int64_t>(1, grain / std::min(width, s.inner));
  parallel_for(0, s.outer * blocks, block_grain, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t column = task % blocks * width;
      columns(task / blocks * s.size * s.inner + column, std::min(width, s.inner - column));
    }
  });
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
