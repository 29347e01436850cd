// CUDA kernels of counting, ordering by rows, and distances between points.
#include "flambeau/kernels/statistics.h"

#include <cmath>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/index/radix_sort.h"
#include "flambeau/cuda/index/sort_keys.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/deterministic.h"

namespace flambeau::cuda {
namespace {

constexpr DTypeSet wide_types = DTypeSet(DType::int64) | DType::float32 | DType::float64;

__device__ inline int64_t my_index() {
  return static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
}

// Comparisons are written so that NaN counts as larger than all numbers.
template <class T>
__global__ void __launch_bounds__(block_size)
    search_kernel(const T* boundaries, const T* values, const int64_t* sorter, int64_t* out,
                  int64_t numel, int64_t count, int64_t row, bool right) {
  const int64_t i = my_index();
  if (i >= numel) return;
  const int64_t start = i / row * count;
  const T value = values[i];
  int64_t first = 0, last = count;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    const T here = boundaries[start + (sorter ? sorter[start + middle] : middle)];
    if (right ? !(here > value) : !(here >= value)) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  out[i] = first;
}

void searchsorted_kernel(const Tensor& boundaries, const Tensor& values, const Tensor& sorter,
                         const Tensor& out, bool right) {
  const int64_t numel = values.numel();
  if (numel == 0) return;
  const DeviceGuard guard(values.device().index);
  const int64_t count = boundaries.dim() > 0 ? boundaries.sizes().back() : 0;
  const bool one_row = boundaries.dim() == 1 || values.dim() == 0;
  dispatch<wide_types>("searchsorted_out_cuda", values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("searchsorted", search_kernel<T>, blocks_for(numel, block_size), block_size,
           boundaries.data<T>(), values.data<T>(),
           sorter.defined() ? sorter.data<int64_t>() : nullptr, out.data<int64_t>(), numel, count,
           one_row ? numel : values.sizes().back(), right);
  });
}
KERNEL_FOR(searchsorted, searchsorted_kernel)

template <class T>
__global__ void __launch_bounds__(block_size)
    count_kernel(const int64_t* positions, const T* weights, T* counts, int64_t numel) {
  const int64_t i = my_index();
  if (i >= numel) return;
  const T weight = weights ? weights[i] : T(1);
  if constexpr (std::is_same_v<T, int64_t>) {
    atomicAdd(reinterpret_cast<unsigned long long*>(counts + positions[i]),
              static_cast<unsigned long long>(weight));
  } else {
    atomicAdd(counts + positions[i], weight);
  }
}

void bincount_kernel(const Tensor& positions, const Tensor& weights, const Tensor& counts) {
  if (weights.defined()) alert_not_deterministic("_bincount_cuda");
  const int64_t numel = positions.numel();
  if (numel == 0) return;
  const DeviceGuard guard(positions.device().index);
  dispatch<wide_types>("bincount_cuda", counts.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("bincount", count_kernel<T>, blocks_for(numel, block_size), block_size,
           positions.data<int64_t>(), weights.defined() ? weights.data<T>() : nullptr,
           counts.data<T>(), numel);
  });
}
KERNEL_FOR(bincount, bincount_kernel)

// --- Rows in order -------------------------------------------------------------------------------

__global__ void __launch_bounds__(block_size) number_kernel(uint32_t* order, int64_t n) {
  const int64_t i = my_index();
  if (i < n) order[i] = static_cast<uint32_t>(i);
}
template <class T>
__global__ void __launch_bounds__(block_size)
    column_keys(const T* rows, const uint32_t* order, SortKey<T>* keys, int64_t n, int64_t width,
                int64_t column) {
  const int64_t i = my_index();
  if (i < n) keys[i] = ascending_key(rows[order[i] * width + column]);
}
__global__ void __launch_bounds__(block_size)
    widen_kernel(const uint32_t* order, int64_t* out, int64_t n) {
  const int64_t i = my_index();
  if (i < n) out[i] = order[i];
}

// By the last column first: each further sort leaves equals as the earlier ones put them.
void row_order_kernel(const Tensor& rows, const Tensor& order) {
  const char* op = "unique_dim";
  const int64_t n = rows.size(0), width = rows.size(1);
  if (n == 0) return;
  CHECK(n < INT32_MAX, RuntimeError, "{}: {} rows are too many for CUDA", op, n);
  const int device = rows.device().index;
  const DeviceGuard guard(device);
  const Workspace one(n * sizeof(uint32_t), device), other(n * sizeof(uint32_t), device);
  uint32_t *now = one.get<uint32_t>(), *next = other.get<uint32_t>();
  const unsigned blocks = blocks_for(n, block_size);
  launch(op, number_kernel, blocks, block_size, now, n);
  constexpr DTypeSet stored = DTypeSet(DType::int64) | DType::float64;
  dispatch<stored>(op, rows.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Key = SortKey<T>;
    const Workspace keys(n * sizeof(Key), device), sorted(n * sizeof(Key), device);
    for (int64_t column = width; column-- > 0;) {
      launch(op, column_keys<T>, blocks, block_size, rows.data<T>(), now, keys.get<Key>(), n, width,
             column);
      sort_pairs(op, device, keys.get<const Key>(), sorted.get<Key>(),
                 static_cast<const uint32_t*>(now), next, 1, n, key_bits<T>);
      std::swap(now, next);
    }
  });
  launch(op, widen_kernel, blocks, block_size, now, order.data<int64_t>(), n);
}
KERNEL_FOR(row_order, row_order_kernel)

// --- Fractions and exponents ---------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size) frexp_elements(const __grid_constant__ Strided<3> s) {
  using C = ComputeType<T>;
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= s.numel) return;
  char* at[3];
  s.place(i, at);
  const C x = static_cast<C>(*reinterpret_cast<const T*>(at[2]));
  int exponent = 0;
  const C fraction = ::frexp(x, &exponent);
  *reinterpret_cast<T*>(at[0]) = static_cast<T>(fraction);
  *reinterpret_cast<int32_t*>(at[1]) = math::isfinite(x) ? exponent : 0;
}

void frexp_kernel(const TensorIter& iter) {
  if (iter.numel == 0) return;
  const DeviceGuard guard(iter.device.index);
  dispatch<dtypes::Floating>("frexp", iter.dtypes[2], [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_chunk(iter, [&](const TensorIter& chunk) {
      launch("frexp", frexp_elements<T>, blocks_for(chunk.numel, block_size), block_size,
             Strided<3>(chunk));
    });
  });
}
KERNEL_FOR(frexp, frexp_kernel)

// --- Distances -----------------------------------------------------------------------------------

enum class Power { zero, one, two, largest, any };

template <class T, Power kind>
__global__ void __launch_bounds__(block_size)
    distance_kernel(const T* x1, const T* x2, T* out, int64_t numel, int64_t rows, int64_t width,
                    int64_t count, T p) {
  const int64_t i = my_index();
  if (i >= numel) return;
  const int64_t row = i / count, j = i - row * count;
  const T* x = x1 + row * width;
  const T* points = x2 + row / rows * width * count + j;
  T total = 0;
  for (int64_t m = 0; m < width; ++m) {
    const T d = math::abs(x[m] - points[m * count]);
    if constexpr (kind == Power::zero) total += d != T(0) ? T(1) : T(0);
    if constexpr (kind == Power::one) total += d;
    if constexpr (kind == Power::two) total += d * d;
    if constexpr (kind == Power::largest) total = d > total || d != d ? d : total;
    if constexpr (kind == Power::any) total += math::pow(d, p);
  }
  if constexpr (kind == Power::two) total = ::sqrt(total);
  if constexpr (kind == Power::any) total = math::pow(total, T(1) / p);
  out[i] = total;
}

void cdist_kernel(const Tensor& x1, const Tensor& x2, const Tensor& out, double p) {
  const int64_t rows = x1.size(-2), width = x1.size(-1), count = out.size(-1);
  if (out.numel() == 0) return;
  const DeviceGuard guard(out.device().index);
  constexpr DTypeSet set = DTypeSet(DType::float32) | DType::float64;
  dispatch<set>("cdist", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto kernel) {
      launch("cdist", kernel, blocks_for(out.numel(), block_size), block_size, x1.data<T>(),
             x2.data<T>(), out.data<T>(), out.numel(), rows, width, count, static_cast<T>(p));
    };
    if (p == 0) return run(distance_kernel<T, Power::zero>);
    if (p == 1) return run(distance_kernel<T, Power::one>);
    if (p == 2) return run(distance_kernel<T, Power::two>);
    if (std::isinf(p)) return run(distance_kernel<T, Power::largest>);
    run(distance_kernel<T, Power::any>);
  });
}
KERNEL_FOR(cdist, cdist_kernel)

}  // namespace
}  // namespace flambeau::cuda
