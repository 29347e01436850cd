// CUDA kernels of cumulative functions. A block walks along a slice, its threads scanning some
// elements each; long slices are cut into chunks whose totals are scanned first; and where
// neighbouring slices are many, each has a thread and neighbours read neighbours. How work is cut
// depends on the shape alone, so results do not change from run to run.
//
// A scan (Op) says:
//   using Acc                            what is carried along
//   Acc start() const                    the neutral value
//   Acc read(int64_t at, int64_t i) const    the element of index i, which lies at `at`
//   Acc merge(Acc a, Acc b) const        a before b
//   void write(int64_t at, Acc) const
#include "flambeau/kernels/scan.h"

#include <limits>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/slices.h"

namespace flambeau::cuda {
namespace {

struct Lines {
  int64_t slices, size, inner;
  int64_t chunk, chunks;  // elements of a slice that a block takes, and how many blocks that is
  bool reverse;

  __device__ int64_t first(int64_t slice) const {
    return slice / inner * inner * size + slice % inner;
  }
  __device__ int64_t place(int64_t first_at, int64_t i) const {
    return first_at + (reverse ? size - 1 - i : i) * inner;
  }
};

template <class V>
__device__ V shuffled_up(const V& value, int step) {
  static_assert(sizeof(V) % 4 == 0);
  uint32_t words[sizeof(V) / 4];
  memcpy(words, &value, sizeof value);
#pragma unroll
  for (uint32_t& word : words) word = __shfl_up_sync(0xffffffffu, word, step);
  V result = value;
  memcpy(&result, words, sizeof result);
  return result;
}

// What the threads before this one have gathered; `total` is what all have.
template <class Op>
__device__ typename Op::Acc prefix_of_block(const Op& op, typename Op::Acc value,
                                            typename Op::Acc& total) {
  using Acc = typename Op::Acc;
  constexpr int warps = block_size / 32;
  __shared__ alignas(16) char memory[warps * sizeof(Acc)];
  Acc* of_warp = reinterpret_cast<Acc*>(memory);
  const int lane = threadIdx.x % 32, mine = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Acc left = shuffled_up(value, step);
    if (lane >= step) value = op.merge(left, value);
  }
  __syncthreads();  // an earlier round may still be read
  if (lane == 31) of_warp[mine] = value;
  __syncthreads();
  Acc before = op.start();
  total = op.start();
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    if (w == mine) before = total;
    total = op.merge(total, of_warp[w]);
  }
  const Acc left = shuffled_up(value, 1);
  return lane == 0 ? before : op.merge(before, left);
}

template <class Op>
constexpr int scan_items = sizeof(typename Op::Acc) <= 8 ? 8 : 4;

// Elements of [begin, end) of a slice that this thread has in the round that starts at `base`.
template <class Op, class Body>
__device__ void for_items(int64_t base, int64_t end, const Body& body) {
#pragma unroll
  for (int j = 0; j < scan_items<Op>; ++j) {
    const int64_t i = base + threadIdx.x * scan_items<Op> + j;
    if (i < end) body(i, j);
  }
}

template <class Op>
__global__ void __launch_bounds__(block_size)
    chunk_totals(Op op, Lines lines, typename Op::Acc* totals) {
  using Acc = typename Op::Acc;
  const int64_t slice = blockIdx.x / lines.chunks, chunk = blockIdx.x % lines.chunks;
  const int64_t first = lines.first(slice), begin = chunk * lines.chunk;
  const int64_t end = min(begin + lines.chunk, lines.size);
  Acc carried = op.start();
  for (int64_t base = begin; base < end; base += block_size * scan_items<Op>) {
    Acc mine = op.start(), total;
    for_items<Op>(base, end, [&](int64_t i, int) {
      const int64_t at = lines.place(first, i);
      mine = op.merge(mine, op.read(at, lines.reverse ? lines.size - 1 - i : i));
    });
    prefix_of_block(op, mine, total);
    carried = op.merge(carried, total);
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = carried;
}

// Replaces the totals of a slice's chunks by what comes before each. One block a slice.
template <class Op>
__global__ void __launch_bounds__(block_size)
    scan_totals(Op op, int64_t chunks, typename Op::Acc* totals) {
  using Acc = typename Op::Acc;
  totals += blockIdx.x * chunks;
  Acc carried = op.start();
  for (int64_t base = 0; base < chunks; base += block_size) {
    const int64_t i = base + threadIdx.x;
    const Acc mine = i < chunks ? totals[i] : op.start();
    Acc total;
    const Acc before = prefix_of_block(op, mine, total);
    if (i < chunks) totals[i] = op.merge(carried, before);
    carried = op.merge(carried, total);
  }
}

template <class Op>
__global__ void __launch_bounds__(block_size)
    scan_chunks(Op op, Lines lines, const typename Op::Acc* prefixes) {
  using Acc = typename Op::Acc;
  const int64_t slice = blockIdx.x / lines.chunks, chunk = blockIdx.x % lines.chunks;
  const int64_t first = lines.first(slice), begin = chunk * lines.chunk;
  const int64_t end = min(begin + lines.chunk, lines.size);
  Acc carried = prefixes ? prefixes[blockIdx.x] : op.start();
  for (int64_t base = begin; base < end; base += block_size * scan_items<Op>) {
    Acc items[scan_items<Op>], mine = op.start(), total;
    for_items<Op>(base, end, [&](int64_t i, int j) {
      const int64_t at = lines.place(first, i);
      items[j] = op.read(at, lines.reverse ? lines.size - 1 - i : i);
      mine = op.merge(mine, items[j]);
    });
    Acc running = op.merge(carried, prefix_of_block(op, mine, total));
    for_items<Op>(base, end, [&](int64_t i, int j) {
      running = op.merge(running, items[j]);
      op.write(lines.place(first, i), running);
    });
    carried = op.merge(carried, total);
  }
}

template <class Op>
__global__ void __launch_bounds__(block_size) scan_columns(Op op, Lines lines) {
  const int64_t slice = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (slice >= lines.slices) return;
  const int64_t first = lines.first(slice);
  typename Op::Acc carried = op.start();
#pragma unroll 4
  for (int64_t i = 0; i < lines.size; ++i) {
    const int64_t at = lines.place(first, i);
    carried = op.merge(carried, op.read(at, lines.reverse ? lines.size - 1 - i : i));
    op.write(at, carried);
  }
}

template <class Op>
void scan(const char* name, const Tensor& input, int64_t dim, bool reverse, const Op& op) {
  using Acc = typename Op::Acc;
  if (input.numel() == 0) return;
  const int device = input.device().index;
  const DeviceGuard guard(device);
  const Slices s(input, dim);
  Lines lines{s.outer * s.inner, s.size, s.inner, s.size, 1, reverse};
  const int64_t resident = int64_t{multiprocessors(device)} * 8;
  if ((s.inner > 1 && lines.slices >= resident * 32) || s.size <= 32) {
    launch(name, scan_columns<Op>, blocks_for(lines.slices, block_size), block_size, op, lines);
    return;
  }
  constexpr int64_t round = block_size * scan_items<Op>;
  const int64_t wanted = std::max<int64_t>(2 * resident / lines.slices, 1);
  const int64_t rounds = (s.size + round - 1) / round;
  lines.chunks = std::min(wanted, std::max<int64_t>(rounds / 2, 1));
  lines.chunk = (rounds + lines.chunks - 1) / lines.chunks * round;
  lines.chunks = (s.size + lines.chunk - 1) / lines.chunk;
  const unsigned blocks = blocks_for(lines.slices * lines.chunks, 1);
  if (lines.chunks == 1) {
    launch(name, scan_chunks<Op>, blocks, block_size, op, lines, nullptr);
    return;
  }
  const Workspace totals(blocks * sizeof(Acc), device);
  launch(name, chunk_totals<Op>, blocks, block_size, op, lines, totals.get<Acc>());
  launch(name, scan_totals<Op>, blocks_for(lines.slices, 1), block_size, op, lines.chunks,
         totals.get<Acc>());
  launch(name, scan_chunks<Op>, blocks, block_size, op, lines, totals.get<const Acc>());
}

// --- Sums, products, sums of exponentials --------------------------------------------------------

template <class T>
struct Running {
  using C = ComputeType<T>;
  using Acc = C;
  const T* x;
  T* y;
  __device__ Acc read(int64_t at, int64_t) const { return static_cast<C>(x[at]); }
  __device__ void write(int64_t at, Acc value) const { y[at] = static_cast<T>(value); }
};
template <class T>
struct RunningSum : Running<T> {
  using Acc = ComputeType<T>;
  __device__ Acc start() const { return Acc(0); }
  __device__ Acc merge(Acc a, Acc b) const { return math::plus(a, b); }
};
template <class T>
struct RunningProduct : Running<T> {
  using Acc = ComputeType<T>;
  __device__ Acc start() const { return Acc(1); }
  __device__ Acc merge(Acc a, Acc b) const { return math::times(a, b); }
};
template <class T>
struct RunningLogSum : Running<T> {
  using Acc = ComputeType<T>;
  __device__ Acc start() const { return -std::numeric_limits<Acc>::infinity(); }
  __device__ Acc merge(Acc a, Acc b) const {
    const Acc high = math::maximum(a, b), low = math::minimum(a, b);
    if (high != high || math::isinf(high)) return high;
    return high + math::log1p(math::exp(low - high));
  }
};

constexpr DTypeSet scanned = dtypes::FloatingComplex | DType::int64;

template <template <class> class Op, DTypeSet Set>
void running_kernel(const char* name, const Tensor& input, const Tensor& out, int64_t dim,
                    bool reverse) {
  dispatch<Set>(name, input.dtype(), [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    Op<T> op;
    op.x = static_cast<const T*>(input.raw());
    op.y = static_cast<T*>(out.raw());
    scan(name, input, dim, reverse, op);
  });
}
KERNEL_FOR(cumsum, [](const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  running_kernel<RunningSum, scanned>("cumsum", input, out, dim, reverse);
})
KERNEL_FOR(cumprod, [](const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  running_kernel<RunningProduct, scanned>("cumprod", input, out, dim, reverse);
})
KERNEL_FOR(logcumsumexp, [](const Tensor& input, const Tensor& out, int64_t dim, bool reverse) {
  running_kernel<RunningLogSum, dtypes::Floating>("logcumsumexp", input, out, dim, reverse);
})

// --- The gradient of logcumsumexp ----------------------------------------------------------------

// grad_k = exp(x_k - y_k) r_k, where r_k = g_k + exp(y_k - y_{k+1}) r_{k+1}: no exponent is
// positive. What is carried, from the last element to the first, is the map r -> g + fade * r.
template <class T>
struct LogSumGradient {
  using C = ComputeType<T>;
  struct Acc {
    C fade, value;
  };
  const T *g, *x, *y;
  T* out;
  int64_t size, step;
  __device__ Acc start() const { return {C(1), C(0)}; }
  __device__ Acc read(int64_t at, int64_t i) const {
    const C here = static_cast<C>(y[at]);
    const C fade = i + 1 < size ? math::exp(here - static_cast<C>(y[at + step])) : C(0);
    // Before the first element that counts, both logarithms are minus infinity.
    return {fade != fade ? C(0) : fade, static_cast<C>(g[at])};
  }
  __device__ Acc merge(Acc a, Acc b) const {
    return {a.fade * b.fade, b.value + (a.value == C(0) ? C(0) : b.fade * a.value)};
  }
  __device__ void write(int64_t at, Acc a) const {
    const C here = static_cast<C>(x[at]);
    const bool nothing = here == -std::numeric_limits<C>::infinity();
    out[at] = static_cast<T>(nothing ? C(0) : math::exp(here - static_cast<C>(y[at])) * a.value);
  }
};

void logcumsumexp_backward_kernel(const Tensor& grad, const Tensor& input, const Tensor& output,
                                  const Tensor& out, int64_t dim) {
  dispatch<dtypes::Floating>("logcumsumexp_backward", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Slices s(input, dim);
    scan("logcumsumexp_backward", input, dim, true,
         LogSumGradient<T>{grad.data<T>(), input.data<T>(), output.data<T>(), out.data<T>(), s.size,
                           s.inner});
  });
}
KERNEL_FOR(logcumsumexp_backward, logcumsumexp_backward_kernel)

// --- Running extremes ----------------------------------------------------------------------------

// The last of equal elements counts; NaN, once seen, stays, and the last NaN counts.
template <class T, bool Max>
struct RunningExtreme {
  using C = ComputeType<T>;
  using Wide = std::conditional_t<(sizeof(C) < 4), int32_t, C>;  // shuffles move whole words
  struct Acc {
    Wide value;
    int index;  // -1: nothing yet
  };
  const T* x;
  T* values;
  int64_t* indices;
  __device__ Acc start() const { return {Wide(0), -1}; }
  __device__ Acc read(int64_t at, int64_t i) const {
    return {static_cast<Wide>(static_cast<C>(x[at])), static_cast<int>(i)};
  }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool better = Max ? b.value >= a.value : b.value <= a.value;
    return b.value != b.value || (a.value == a.value && better) ? b : a;
  }
  __device__ void write(int64_t at, Acc a) const {
    values[at] = static_cast<T>(static_cast<C>(a.value));
    indices[at] = a.index;
  }
};

template <bool Max>
void extreme_kernel(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim) {
  const char* name = Max ? "cummax" : "cummin";
  CHECK(input.dim() == 0 || input.sizes()[dim] <= INT32_MAX, RuntimeError,
        "{}: dimension {} of size {} is too large for CUDA", name, dim, input.sizes()[dim]);
  dispatch<dtypes::RealBool>(name, input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    scan(name, input, dim, false,
         RunningExtreme<T, Max>{input.data<T>(), values.data<T>(), indices.data<int64_t>()});
  });
}
KERNEL_FOR(cummax, extreme_kernel<true>)
KERNEL_FOR(cummin, extreme_kernel<false>)

}  // namespace
}  // namespace flambeau::cuda
