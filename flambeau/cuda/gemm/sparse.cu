// CUDA kernels of sparse matrices in compressed rows. Indices are checked as they are followed;
// what is wrong is reported and raised when the device is next waited for.
#include "flambeau/kernels/sparse.h"

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/cuda/types.cuh"
#include "flambeau/kernels/sort.h"

namespace flambeau::cuda {
namespace {

__device__ inline int64_t my_index() {
  return static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
}

// The first place in `sorted` whose value is at least (or above) `value`.
template <bool Above>
__device__ int64_t first_place(const int64_t* sorted, int64_t count, int64_t value) {
  int64_t low = 0;
  while (count > 0) {
    const int64_t half = count / 2, here = sorted[low + half];
    if (Above ? here <= value : here < value) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

// Where row r begins and ends; nothing where that is outside of the elements.
struct Span {
  int64_t from, to;
};
__device__ inline Span row_span(const int64_t* starts, int64_t r, int64_t count, FaultPlace fault) {
  const int64_t from = starts[r], to = starts[r + 1];
  if (from >= 0 && from <= to && to <= count) return {from, to};
  report(fault, FaultKind::index, to, 0, count);
  return {0, 0};
}

// A thread for each element of the result: neighbours read neighbours.
template <class T, class C>
__global__ void __launch_bounds__(block_size)
    multiply_kernel(const int64_t* starts, const int64_t* columns, const T* values, const T* dense,
                    T* out, int64_t total, int64_t width, int64_t count, int64_t rows_of_dense,
                    FaultPlace fault) {
  const int64_t i = my_index();
  if (i >= total) return;
  const int64_t r = i / width, j = i - r * width;
  const Span span = row_span(starts, r, count, fault);
  C sum(0);
  for (int64_t e = span.from; e < span.to; ++e) {
    const int64_t column = columns[e];
    if (column < 0 || column >= rows_of_dense) {
      report(fault, FaultKind::index, column, 1, rows_of_dense);
      continue;
    }
    sum += static_cast<C>(values[e]) * static_cast<C>(dense[column * width + j]);
  }
  out[i] = static_cast<T>(sum);
}

void csr_mm(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense,
            const Tensor& out) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const DeviceGuard guard(device);
  dispatch<dtypes::Numeric>("sparse.mm", values.dtype(), [&](auto tag) {
    using H = typename decltype(tag)::type;
    using T = Stored<H>;
    using C = Stored<ComputeType<H>>;
    launch("sparse.mm", multiply_kernel<T, C>, blocks_for(out.numel(), block_size), block_size,
           crow.data<int64_t>(), col.data<int64_t>(), static_cast<const T*>(values.raw()),
           static_cast<const T*>(dense.raw()), static_cast<T*>(out.raw()), out.numel(),
           dense.size(1), col.numel(), dense.size(0), fault_of(device));
  });
}
KERNEL_FOR(csr_mm, csr_mm)

constexpr int lanes = 32;

// A warp for each stored element: its lanes share the columns of both rows.
template <class T, class C>
__global__ void __launch_bounds__(block_size)
    sampled_dot_kernel(const int64_t* starts, const int64_t* columns, const T* a, const T* b,
                       T* out, int64_t count, int64_t width, int64_t rows, int64_t rows_of_b,
                       FaultPlace fault) {
  __shared__ alignas(16) unsigned char scratch[block_size * sizeof(C)];
  C* const partial = reinterpret_cast<C*>(scratch);
  const int64_t e = my_index() / lanes;
  const int lane = threadIdx.x % lanes;
  const int64_t r = e < count ? first_place<true>(starts, rows + 1, e) - 1 : 0;
  const int64_t column = e < count ? columns[e] : 0;
  const bool inside = e < count && r >= 0 && r < rows && column >= 0 && column < rows_of_b;
  if (e < count && !inside) report(fault, FaultKind::index, column, 1, rows_of_b);
  C sum(0);
  if (inside) {
    for (int64_t j = lane; j < width; j += lanes) {
      sum += static_cast<C>(a[r * width + j]) * static_cast<C>(b[column * width + j]);
    }
  }
  partial[threadIdx.x] = sum;
  for (int step = lanes / 2; step > 0; step /= 2) {
    __syncwarp();
    if (lane < step) partial[threadIdx.x] += partial[threadIdx.x + step];
  }
  if (lane == 0 && e < count) out[e] = static_cast<T>(partial[threadIdx.x]);
}

void csr_sampled_dot(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b,
                     const Tensor& out) {
  const int64_t count = out.numel();
  if (count == 0) return;
  const int device = out.device().index;
  const DeviceGuard guard(device);
  dispatch<dtypes::FloatingComplex>("sparse.mm", a.dtype(), [&](auto tag) {
    using H = typename decltype(tag)::type;
    using T = Stored<H>;
    using C = Stored<ComputeType<H>>;
    launch("sparse.mm", sampled_dot_kernel<T, C>, blocks_for(count * lanes, block_size), block_size,
           crow.data<int64_t>(), col.data<int64_t>(), static_cast<const T*>(a.raw()),
           static_cast<const T*>(b.raw()), static_cast<T*>(out.raw()), count, a.size(1),
           crow.numel() - 1, b.size(0), fault_of(device));
  });
}
KERNEL_FOR(csr_sampled_dot, csr_sampled_dot)

__global__ void __launch_bounds__(block_size)
    rows_kernel(const int64_t* starts, int64_t* rows, int64_t n_rows, int64_t count,
                FaultPlace fault) {
  const int64_t i = my_index();
  // The threads that have a row see to it that rows follow each other.
  if (i < n_rows) {
    const Span span = row_span(starts, i, count, fault);
    if ((i == 0 && starts[0] != 0) || (i == n_rows - 1 && span.to != count)) {
      report(fault, FaultKind::index, span.to, 0, count);
    }
  }
  if (i < count) rows[i] = first_place<true>(starts, n_rows + 1, i) - 1;
}

void csr_rows(const Tensor& crow, const Tensor& rows) {
  const int64_t count = rows.numel(), n_rows = crow.numel() - 1;
  const int64_t threads = count > n_rows ? count : n_rows;
  if (threads == 0) return;
  const int device = crow.device().index;
  const DeviceGuard guard(device);
  launch("csr_rows", rows_kernel, blocks_for(threads, block_size), block_size, crow.data<int64_t>(),
         rows.data<int64_t>(), n_rows, count, fault_of(device));
}
KERNEL_FOR(csr_rows, csr_rows)

__global__ void __launch_bounds__(block_size)
    starts_kernel(const int64_t* sorted, int64_t* starts, int64_t count, int64_t groups,
                  FaultPlace fault) {
  const int64_t g = my_index();
  if (g > groups) return;
  if (g == 0 && count > 0 && (sorted[0] < 0 || sorted[count - 1] >= groups)) {
    report(fault, FaultKind::index, sorted[0] < 0 ? sorted[0] : sorted[count - 1], 0, groups);
  }
  starts[g] = g == 0 ? 0 : g == groups ? count : first_place<false>(sorted, count, g);
}

// The order is that of a sort, which keeps equal elements in theirs.
void group_by_index(const Tensor& index, const Tensor& starts, const Tensor& order) {
  const int device = index.device().index;
  const DeviceGuard guard(device);
  const int64_t count = index.numel(), groups = starts.numel() - 1;
  const Tensor sorted = make_tensor({count}, DType::int64, index.device());
  const Tensor positions =
      order.defined() ? order : make_tensor({count}, DType::int64, index.device());
  if (count > 0) kernels::sort(DeviceType::cuda, index, sorted, positions, 0, false);
  launch("group_by_index", starts_kernel, blocks_for(groups + 1, block_size), block_size,
         sorted.data<int64_t>(), starts.data<int64_t>(), count, groups, fault_of(device));
}
KERNEL_FOR(group_by_index, group_by_index)

}  // namespace
}  // namespace flambeau::cuda
