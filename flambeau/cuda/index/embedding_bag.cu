// Sums, means and maxima of bags of embeddings on CUDA: a block takes a bag, its threads columns.
// An index outside the table is reported (see fault.h) and its row left out.
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/sequences.h"

namespace flambeau::cuda {
namespace {

template <class T>
struct Bags {
  const T *table, *factors;
  const int64_t *indices, *bounds;
  int64_t count, rows, width, padding;  // count: of indices
  BagMode mode;
  FaultPlace fault;

  // Bounds may come from anybody: only indices that are there are followed.
  __device__ int64_t bound(int64_t bag) const {
    const int64_t at = bounds[bag];
    return at < 0 ? 0 : at > count ? count : at;
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    bag_kernel(Bags<T> bags, T* out, int64_t* bag_of, int64_t* bag_size, int64_t* chosen) {
  using C = ComputeType<T>;
  const int64_t bag = blockIdx.x, first = bags.bound(bag), last = bags.bound(bag + 1);
  for (int64_t i = first + threadIdx.x; i < last; i += block_size) bag_of[i] = bag;
  const bool most = bags.mode == BagMode::max;
  for (int64_t j = threadIdx.x; j < max(bags.width, int64_t{1}); j += block_size) {
    C value(0);
    int64_t used = 0, best = -1;
    for (int64_t i = first; i < last; ++i) {
      const int64_t index = bags.indices[i];
      if (index < 0 || index >= bags.rows) {
        report(bags.fault, FaultKind::index, index, 0, bags.rows);
        continue;
      }
      if (index == bags.padding) continue;
      ++used;
      if (j >= bags.width) continue;
      const C x = static_cast<C>(bags.table[index * bags.width + j]);
      if (most) {
        if (used == 1 || x > value) value = x, best = index;
      } else {
        value += x * (bags.factors ? static_cast<C>(bags.factors[i]) : C(1));
      }
    }
    if (j == 0) bag_size[bag] = used;
    if (j >= bags.width) continue;
    if (bags.mode == BagMode::mean && used > 0) value = value / static_cast<C>(used);
    out[bag * bags.width + j] = static_cast<T>(value);
    if (most) chosen[bag * bags.width + j] = best;
  }
}

void embedding_bag_kernel(const Tensor& weight, const Tensor& indices, const Tensor& bounds,
                          const Tensor& sample_weights, BagMode mode, int64_t padding_idx,
                          const Tensor& out, const Tensor& bag_of, const Tensor& bag_size,
                          const Tensor& chosen) {
  const int device = weight.device().index;
  const DeviceGuard guard(device);
  dispatch<dtypes::Floating>("embedding_bag", weight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Bags<T> bags{weight.data<T>(),
                       sample_weights.defined() ? sample_weights.data<T>() : nullptr,
                       indices.data<int64_t>(),
                       bounds.data<int64_t>(),
                       indices.numel(),
                       weight.sizes()[0],
                       weight.sizes()[1],
                       padding_idx,
                       mode,
                       fault_of(device)};
    launch("embedding_bag", bag_kernel<T>, blocks_for(bounds.numel() - 1, 1), block_size, bags,
           out.data<T>(), bag_of.data<int64_t>(), bag_size.data<int64_t>(),
           chosen.defined() ? chosen.data<int64_t>() : nullptr);
  });
}
KERNEL_FOR(embedding_bag, embedding_bag_kernel)

}  // namespace
}  // namespace flambeau::cuda
