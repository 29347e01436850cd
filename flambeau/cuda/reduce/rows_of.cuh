// What kernels that work on whole rows share: a few threads, or a block, walk along a row and fold
// what each has gathered.
#pragma once

#include <limits>

#include "flambeau/cuda/elementwise/loops.cuh"

namespace flambeau::cuda {

// Threads to a row: a warp for short rows, so that a block has several of them; for long rows as
// many as a block can have, so that the rows at work together fit the cache and are read once.
constexpr int warp = 32, large_block = 1024;
constexpr int64_t short_row = 1024, long_row = 4096;

template <int Lanes>
constexpr int row_threads = Lanes == warp ? block_size : Lanes;

// Folds `value` over the Lanes threads of a row; all of them get the result.
template <int Lanes, class V, class Merge>
__device__ V fold_row(V value, const Merge& merge) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) value = merge(value, value.shuffled(step));
  if constexpr (Lanes > warp) {
    __shared__ alignas(16) char memory[Lanes / warp * sizeof(V)];
    V* shared = reinterpret_cast<V*>(memory);
    __syncthreads();  // an earlier fold may still be read
    if (threadIdx.x % warp == 0) shared[threadIdx.x / warp] = value;
    __syncthreads();
    // Every warp folds what all warps have: as many lanes as there are warps, over and over.
    constexpr int warps = Lanes / warp;
    static_assert(warps <= warp && (warps & (warps - 1)) == 0);
    value = shared[threadIdx.x % warps];
#pragma unroll
    for (int step = warps / 2; step > 0; step /= 2) value = merge(value, value.shuffled(step));
  }
  return value;
}

// A single number to fold.
template <class C>
struct Single {
  C value;
  __device__ Single shuffled(int step) const { return {__shfl_xor_sync(0xffffffffu, value, step)}; }
};

template <class C>
struct AddSingles {
  __device__ Single<C> operator()(Single<C> a, Single<C> b) const { return {a.value + b.value}; }
};

// The largest of some numbers and the sum of exp(x - largest) over them.
template <class C>
struct ExpSum {
  C most, sum;
  __device__ ExpSum shuffled(int step) const {
    return {__shfl_xor_sync(0xffffffffu, most, step), __shfl_xor_sync(0xffffffffu, sum, step)};
  }
  // Takes several numbers at once: one comparison and one rescaling for all of them.
  template <int N>
  __device__ void add(const C (&x)[N]) {
    C top = most;
#pragma unroll
    for (int j = 0; j < N; ++j) top = math::maximum(top, x[j]);
    if (top == -std::numeric_limits<C>::infinity()) return;  // adds nothing; the formulas give NaN
    if (top != most) sum = sum == C(0) ? C(0) : sum * math::exp(most - top);
    most = top;
#pragma unroll
    for (int j = 0; j < N; ++j) sum += math::exp(x[j] - top);
  }
  __device__ void add(C x) {
    const C one[1] = {x};
    add(one);
  }
  // The logarithm of the sum of exp(x), less a number close to the largest: that is taken off
  // first, so that large numbers lose nothing.
  __device__ C log_sum(C less = 0) const {
    return most == std::numeric_limits<C>::infinity() || most == -std::numeric_limits<C>::infinity()
               ? most - less
               : most - less + math::log(sum);
  }
};

template <class C>
struct MergeExpSums {
  __device__ ExpSum<C> operator()(ExpSum<C> a, ExpSum<C> b) const {
    const bool a_leads = a.most >= b.most || a.most != a.most;
    const C most = a_leads ? a.most : b.most, other = a_leads ? b.most : a.most;
    const C large = a_leads ? a.sum : b.sum, small = a_leads ? b.sum : a.sum;
    // Where nothing was gathered the sum is zero, and the difference of infinities not a number.
    return {most, small == C(0) ? large : large + small * math::exp(other - most)};
  }
};

template <class C>
__device__ inline ExpSum<C> no_exp_sum() {
  return {-std::numeric_limits<C>::infinity(), C(0)};
}

// Calls body(values, i) for this lane's part of a row, N neighbours at a time. The size must be a
// multiple of N, and the row start where vectors may.
template <int Lanes, int N, class T, class Body>
__device__ void for_row(const T* x, int64_t size, const Body& body) {
  using C = ComputeType<T>;
  for (int64_t i = threadIdx.x * N; i < size; i += Lanes * N) {
    const auto words = *reinterpret_cast<const Vector<T, N>*>(x + i);
    C values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = static_cast<C>(words.values[j]);
    body(values, i);
  }
}

// The same for the elements from begin to end of a row that starts and ends anywhere: what lies
// before the first and behind the last whole vector is taken one by one.
template <int Lanes, int N, class T, class Body>
__device__ void for_ragged_row(const T* x, int64_t begin, int64_t end, const Body& body) {
  static_assert(N <= Lanes);
  using C = ComputeType<T>;
  constexpr uintptr_t bytes = sizeof(T) * N;
  const uintptr_t over = reinterpret_cast<uintptr_t>(x + begin) % bytes;
  const int64_t head = static_cast<int64_t>((bytes - over) % bytes / sizeof(T));
  const int64_t first = min(begin + head, end), last = first + (end - first) / N * N;
  const auto take_one = [&](int64_t i) {
    const C one[1] = {static_cast<C>(x[i])};
    body(one, i);
  };
  if (begin + threadIdx.x < first) take_one(begin + threadIdx.x);
  for (int64_t i = first + threadIdx.x * N; i < last; i += Lanes * N) {
    const auto words = *reinterpret_cast<const Vector<T, N>*>(x + i);
    C values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = static_cast<C>(words.values[j]);
    body(values, i);
  }
  if (last + threadIdx.x < end) take_one(last + threadIdx.x);
}

// The sum of exponentials of a row, folded over its lanes.
template <int Lanes, int N, class T>
__device__ ExpSum<ComputeType<T>> exp_sum_of_row(const T* x, int64_t size) {
  using C = ComputeType<T>;
  ExpSum<C> mine = no_exp_sum<C>();
  for_row<Lanes, N>(x, size, [&](const auto& values, int64_t) { mine.add(values); });
  return fold_row<Lanes>(mine, MergeExpSums<C>());
}

// Neighbours that a lane takes at once, if all rows of these tensors start where vectors may.
template <class T>
constexpr int row_width = 32 / static_cast<int>(sizeof(T));
template <class T>
bool rows_are_aligned(int64_t size, std::initializer_list<const void*> tensors) {
  for (const void* data : tensors) {
    if (reinterpret_cast<uintptr_t>(data) % 32) return false;
  }
  return size % row_width<T> == 0;
}

// Lanes threads along x for each row.
template <int Lanes>
dim3 row_block() {
  return Lanes == warp ? dim3(warp, block_size / warp) : dim3(Lanes, 1);
}
template <int Lanes>
unsigned row_grid(int64_t rows) {
  return blocks_for(rows, Lanes == warp ? block_size / warp : 1);
}
__device__ inline int64_t my_row() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

}  // namespace flambeau::cuda
