// Sorting along a dimension. What is sorted are keys with the indices of their elements; values are
// then taken by index, so they come out as they went in. Short slices are sorted by counting, for
// each element, those that come before it; others by radix.
#include "flambeau/kernels/sort.h"

#include "flambeau/cuda/dense.h"
#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/index/radix_sort.h"
#include "flambeau/cuda/index/sort_keys.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/slices.h"

namespace flambeau::cuda {
namespace {

constexpr int64_t short_slice = 512;

// The first `k` of each sorted slice. A block takes several slices at a time.
template <class T>
__global__ void __launch_bounds__(block_size)
    rank_kernel(const T* x, T* values, int64_t* indices, int64_t slices, int size, int k,
                bool descending) {
  __shared__ SortKey<T> keys[short_slice];
  const int together = max(1, block_size / size), rounds = (size + block_size - 1) / block_size;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * together;
  const int here = static_cast<int>(min(static_cast<int64_t>(together), slices - first));
  for (int i = threadIdx.x; i < here * size; i += block_size) {
    keys[i] = sort_key(x[first * size + i], descending);
  }
  __syncthreads();
  for (int r = 0; r < rounds; ++r) {
    const int i = r * block_size + threadIdx.x;
    if (i >= here * size) return;
    const int slice = i / size, mine = i % size;
    const SortKey<T>* others = keys + slice * size;
    const SortKey<T> key = others[mine];
    int rank = 0;
    for (int j = 0; j < size; ++j) rank += others[j] < key || (others[j] == key && j < mine);
    if (rank < k) {
      const int64_t at = (first + slice) * k + rank;
      values[at] = x[(first + slice) * size + mine];
      indices[at] = mine;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(block_size)
    keys_kernel(const T* x, SortKey<T>* keys, uint32_t* positions, int64_t count, int64_t size,
                bool descending) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  keys[i] = sort_key(x[i], descending);
  positions[i] = static_cast<uint32_t>(i % size);
}

// The first `k` of each slice, by the positions that sorting gave.
template <class T>
__global__ void __launch_bounds__(block_size)
    take_kernel(const T* x, const uint32_t* positions, T* values, int64_t* indices, int64_t count,
                int64_t size, int64_t k) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  const int64_t slice = i / k, place = positions[slice * size + i % k];
  values[i] = x[slice * size + place];
  indices[i] = place;
}

template <class T>
void sort_slices(const char* op, const Tensor& x, T* values, int64_t* indices, int64_t size,
                 int64_t k, bool descending) {
  const int device = x.device().index;
  const int64_t count = x.numel(), slices = count / size;
  const T* data = x.data<T>();
  if (size <= short_slice) {
    launch(op, rank_kernel<T>, blocks_for(slices, std::max<int64_t>(1, block_size / size)),
           block_size, data, values, indices, slices, static_cast<int>(size), static_cast<int>(k),
           descending);
    return;
  }
  using Key = SortKey<T>;
  const Workspace keys(count * sizeof(Key), device), sorted_keys(count * sizeof(Key), device);
  const Workspace positions(count * sizeof(uint32_t), device);
  const Workspace sorted(count * sizeof(uint32_t), device);
  launch(op, keys_kernel<T>, blocks_for(count, block_size), block_size, data, keys.get<Key>(),
         positions.get<uint32_t>(), count, size, descending);
  sort_pairs(op, device, keys.get<const Key>(), sorted_keys.get<Key>(),
             positions.get<const uint32_t>(), sorted.get<uint32_t>(), slices, size, key_bits<T>);
  launch(op, take_kernel<T>, blocks_for(slices * k, block_size), block_size, data,
         sorted.get<const uint32_t>(), values, indices, slices * k, size, k);
}

void check_size(const char* op, int64_t size) {
  CHECK(size <= INT32_MAX, RuntimeError, "{}: {} elements along a dimension are too many for CUDA",
        op, size);
}

void sort_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                 bool descending) {
  if (input.numel() == 0) return;
  const DeviceGuard guard(input.device().index);
  const Tensor x = dense("sort", dim_last(input, dim));
  const int64_t size = x.dim() ? x.sizes().back() : 1;
  check_size("sort", size);
  const DenseResult found(dim_last(values, dim)), where(dim_last(indices, dim));
  dispatch<dtypes::RealBool>("sort", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    sort_slices<T>("sort", x, found.work().data<T>(), where.work().data<int64_t>(), size, size,
                   descending);
  });
  found.finish("sort");
  where.finish("sort");
}
KERNEL_FOR(sort, sort_kernel)

// --- Selection by radix --------------------------------------------------------------------------

// Exclusive running sums of two flags over a block, and their totals.
struct FlagSums {
  int less, equal, all_less, all_equal;
};
__device__ FlagSums sum_flags(bool less, bool equal) {
  constexpr int warps = block_size / 32;
  __shared__ int counts[2][warps];
  const unsigned of_less = __ballot_sync(0xffffffffu, less);
  const unsigned of_equal = __ballot_sync(0xffffffffu, equal);
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32;
  __syncthreads();  // an earlier round may still be read
  if (lane == 0) counts[0][mine] = __popc(of_less), counts[1][mine] = __popc(of_equal);
  __syncthreads();
  const unsigned before = (1u << lane) - 1;
  FlagSums sums{__popc(of_less & before), __popc(of_equal & before), 0, 0};
  for (int w = 0; w < warps; ++w) {
    if (w < mine) sums.less += counts[0][w], sums.equal += counts[1][w];
    sums.all_less += counts[0][w], sums.all_equal += counts[1][w];
  }
  return sums;
}

// The k-th smallest key of a slice, k counting from 1; `below` are the keys that are smaller.
template <class T>
__device__ SortKey<T> find_key(const T* x, int64_t size, int64_t k, bool descending,
                               int64_t& below) {
  using Key = SortKey<T>;
  constexpr int digit_bits = 8, digits = 1 << digit_bits;
  __shared__ unsigned counts[digits];
  __shared__ int chosen;
  __shared__ long long passed;
  Key prefix = 0, known = 0;
  below = 0;
  constexpr int top = (key_bits<T> + digit_bits - 1) / digit_bits * digit_bits - digit_bits;
  for (int shift = top; shift >= 0; shift -= digit_bits) {
    __syncthreads();
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < size; i += block_size) {
      const Key key = sort_key(x[i], descending);
      if ((key & known) == prefix) atomicAdd(&counts[key >> shift & (digits - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      long long seen = below;
      int digit = 0;
      while (digit < digits - 1 && seen + counts[digit] < k) seen += counts[digit++];
      chosen = digit, passed = seen;
    }
    __syncthreads();
    prefix |= static_cast<Key>(chosen) << shift;
    known |= static_cast<Key>(digits - 1) << shift;
    below = passed;
  }
  return prefix;
}
static_assert(block_size == 256, "find_key gives every thread a digit");

// Calls body(i, place) for the elements of the k first of a slice: those with smaller keys, then as
// many with the key itself as are missing, each in the order of their indices.
template <class T, class Body>
__device__ void for_first(const T* x, int64_t size, SortKey<T> key, bool descending, int64_t below,
                          int64_t k, const Body& body) {
  int64_t less_seen = 0, equal_seen = 0;
  for (int64_t base = 0; base < size; base += block_size) {
    const int64_t i = base + threadIdx.x;
    const SortKey<T> mine = i < size ? sort_key(x[i], descending) : key;
    const bool less = i < size && mine < key, equal = i < size && mine == key;
    const FlagSums sums = sum_flags(less, equal);
    if (less) body(i, less_seen + sums.less);
    if (equal && below + equal_seen + sums.equal < k) body(i, below + equal_seen + sums.equal);
    less_seen += sums.all_less;
    equal_seen += sums.all_equal;
    if (less_seen == below && below + equal_seen >= k) return;
  }
}

// The k first of each slice, not yet in order.
template <class T>
__global__ void __launch_bounds__(block_size)
    select_kernel(const T* x, T* values, uint32_t* positions, int64_t size, int64_t k,
                  bool descending) {
  const int64_t slice = blockIdx.x;
  x += slice * size;
  int64_t below = 0;
  const SortKey<T> key = find_key(x, size, k, descending, below);
  for_first(x, size, key, descending, below, k, [&](int64_t i, int64_t place) {
    values[slice * k + place] = x[i];
    positions[slice * k + place] = static_cast<uint32_t>(i);
  });
}

// Puts the indices of what was selected where its order says.
__global__ void __launch_bounds__(block_size)
    reorder_kernel(const uint32_t* positions, int64_t* indices, int64_t count, int64_t k) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < count) indices[i] = positions[i / k * k + indices[i]];
}

template <class T>
void select_slices(const Tensor& x, T* values, int64_t* indices, int64_t size, int64_t k,
                   bool descending) {
  const int device = x.device().index;
  const int64_t slices = x.numel() / size;
  const Workspace positions(slices * k * sizeof(uint32_t), device);
  const Tensor chosen = make_tensor({slices, k}, x.dtype(), x.device());
  launch("topk", select_kernel<T>, blocks_for(slices, 1), block_size, x.data<T>(), chosen.data<T>(),
         positions.get<uint32_t>(), size, k, descending);
  sort_slices<T>("topk", chosen, values, indices, k, k, descending);
  launch("topk", reorder_kernel, blocks_for(slices * k, block_size), block_size,
         positions.get<const uint32_t>(), indices, slices * k, k);
}

void topk_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                 int64_t dim, bool largest) {
  if (input.numel() == 0 || values.numel() == 0) return;
  const DeviceGuard guard(input.device().index);
  const Tensor x = dense("topk", dim_last(input, dim));
  const int64_t size = x.dim() ? x.sizes().back() : 1, slices = x.numel() / size;
  check_size("topk", size);
  const DenseResult found(dim_last(values, dim)), where(dim_last(indices, dim));
  // A block selects from a slice; where few slices are long, sorting them keeps the device busier.
  const bool sort_all = size <= short_slice || (slices < 32 && size > 1 << 17) || k > size / 2;
  dispatch<dtypes::Real>("topk", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = found.work().data<T>();
    int64_t* at = where.work().data<int64_t>();
    if (sort_all) {
      sort_slices<T>("topk", x, to, at, size, k, largest);
    } else {
      select_slices<T>(x, to, at, size, k, largest);
    }
  });
  found.finish("topk");
  where.finish("topk");
}
KERNEL_FOR(topk, topk_kernel)

// Which element of a sorted slice is wanted.
struct Wanted {
  int64_t k;  // counting from 1, or 0 for the median
  bool ignore_nan;
  __device__ int64_t place(int64_t size, int64_t nans) const {
    if (k) return k;
    if (nans && !ignore_nan) return size - nans + 1;
    return max((size - nans + 1) / 2, int64_t{1});
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    kth_kernel(const T* x, T* values, int64_t* indices, int64_t size, Wanted wanted) {
  const int64_t slice = blockIdx.x;
  x += slice * size;
  int64_t nans = 0;
  if constexpr (is_floating_type<T>) {
    if (wanted.k == 0) {
      for (int64_t base = 0; base < size; base += block_size) {
        const int64_t i = base + threadIdx.x;
        nans += __syncthreads_count(i < size && ascending_key(x[i]) == key_mask<T>);
      }
    }
  }
  const int64_t k = wanted.place(size, nans);
  int64_t below = 0;
  const SortKey<T> key = find_key(x, size, k, false, below);
  for_first(x, size, key, false, below, k, [&](int64_t i, int64_t place) {
    if (place == k - 1) values[slice] = x[i], indices[slice] = i;
  });
}

void select_one(const char* op, const Tensor& input, const Tensor& values, const Tensor& indices,
                int64_t dim, Wanted wanted) {
  if (input.numel() == 0) return;
  const DeviceGuard guard(input.device().index);
  const Tensor x = dense(op, dim_last(input, dim));
  const int64_t size = x.dim() ? x.sizes().back() : 1;
  check_size(op, size);
  const DenseResult found(dim_last(values, dim)), where(dim_last(indices, dim));
  dispatch<dtypes::RealBool>(op, input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(op, kth_kernel<T>, blocks_for(x.numel() / size, 1), block_size, x.data<T>(),
           found.work().data<T>(), where.work().data<int64_t>(), size, wanted);
  });
  found.finish(op);
  where.finish(op);
}
KERNEL_FOR(kthvalue, [](const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                        int64_t dim) {
  select_one("kthvalue", input, values, indices, dim, {k, false});
})
KERNEL_FOR(median, [](const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                      bool ignore_nan) {
  select_one(ignore_nan ? "nanmedian" : "median", input, values, indices, dim, {0, ignore_nan});
})

}  // namespace
}  // namespace flambeau::cuda
