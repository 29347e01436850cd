// CUDA kernels of softmax and log_softmax and their gradients. Along the last dimension a warp or a
// block takes a row; along another one, a thread takes a column and neighbours read neighbours.
#include "flambeau/kernels/softmax.h"

#include <limits>

#include "flambeau/cuda/reduce/rows_of.cuh"
#include "flambeau/cuda/slices.h"

namespace flambeau::cuda {
namespace {

template <bool Log, class C>
struct Normalize {
  C most, sum;  // the largest, and the logarithm of the sum or one over it
  __device__ explicit Normalize(const ExpSum<C>& s)
      : most(s.most), sum(Log ? math::log(s.sum) : C(1) / s.sum) {}
  // Large numbers lose nothing: the largest is taken off before the rest.
  __device__ C operator()(C x) const { return Log ? x - most - sum : math::exp(x - most) * sum; }
};

// The column of this thread: every inner-th element from where it starts.
struct Column {
  int64_t number, start, size, inner;
  __device__ Column(int64_t size_, int64_t inner_)
      : number(static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x),
        start(number / inner_ * inner_ * size_ + number % inner_),
        size(size_),
        inner(inner_) {}
  template <class Body>
  __device__ void for_each(const Body& body) const {
    for (int64_t i = 0; i < size; ++i) body(start + i * inner);
  }
};

template <class T>
__device__ auto exp_sum_of_column(const T* x, const Column& column) {
  using C = ComputeType<T>;
  ExpSum<C> all = no_exp_sum<C>();
  column.for_each([&](int64_t at) { all.add(static_cast<C>(x[at])); });
  return all;
}

// Writes N neighbours.
template <int N, class T, class C>
__device__ void write(T* at, const C (&values)[N]) {
  Vector<T, N> words;
#pragma unroll
  for (int j = 0; j < N; ++j) words.values[j] = static_cast<T>(values[j]);
  *reinterpret_cast<Vector<T, N>*>(at) = words;
}

template <class T, bool Log, int Lanes, int N>
__global__ void __launch_bounds__(row_threads<Lanes>)
    softmax_rows(const T* x, T* y, int64_t rows, int64_t size) {
  using C = ComputeType<T>;
  const int64_t row = my_row();
  if (row >= rows) return;
  x += row * size;
  y += row * size;
  const Normalize<Log, C> normalize(exp_sum_of_row<Lanes, N>(x, size));
  for_row<Lanes, N>(x, size, [&](const C(&values)[N], int64_t i) {
    C results[N];
#pragma unroll
    for (int j = 0; j < N; ++j) results[j] = normalize(values[j]);
    write(y + i, results);
  });
}

// Threads for long rows that are kept in registers: a multiprocessor holds two such blocks,
// and one reads while the other writes.
constexpr int half_block = large_block / 2;

// The same for rows of at most Lanes * N * K elements, which are kept in registers: memory is read
// once.
template <class T, bool Log, int Lanes, int N, int K>
__global__ void __launch_bounds__(row_threads<Lanes>, Lanes == half_block && sizeof(T) < 8 ? 2 : 1)
    softmax_held_rows(const T* x, T* y, int64_t rows, int size) {
  using C = ComputeType<T>;
  const int64_t row = my_row();
  if (row >= rows) return;
  x += row * size;
  y += row * size;
  Vector<T, N> held[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = (k * Lanes + static_cast<int>(threadIdx.x)) * N;
    if (i < size) held[k] = *reinterpret_cast<const Vector<T, N>*>(x + i);
  }
  ExpSum<C> mine = no_exp_sum<C>();
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if ((k * Lanes + static_cast<int>(threadIdx.x)) * N >= size) continue;
    C values[N];
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] = static_cast<C>(held[k].values[j]);
    mine.add(values);
  }
  const Normalize<Log, C> normalize(fold_row<Lanes>(mine, MergeExpSums<C>()));
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int i = (k * Lanes + static_cast<int>(threadIdx.x)) * N;
    if (i >= size) continue;
    C results[N];
#pragma unroll
    for (int j = 0; j < N; ++j) results[j] = normalize(static_cast<C>(held[k].values[j]));
    write(y + i, results);
  }
}

template <class T, bool Log>
__global__ void __launch_bounds__(block_size)
    softmax_columns(const T* x, T* y, int64_t columns, int64_t size, int64_t inner) {
  using C = ComputeType<T>;
  const Column column(size, inner);
  if (column.number >= columns) return;
  const Normalize<Log, C> normalize(exp_sum_of_column(x, column));
  column.for_each([&](int64_t at) { y[at] = static_cast<T>(normalize(static_cast<C>(x[at]))); });
}

template <class T, bool Log, int N, int Lanes>
void launch_rows(const char* op, const T* x, T* y, const Slices& s) {
  launch(op, softmax_rows<T, Log, Lanes, N>, row_grid<Lanes>(s.outer), row_block<Lanes>(), x, y,
         s.outer, s.size);
}

template <class T, bool Log, int N>
void launch_rows(const char* op, const T* x, T* y, const Slices& s) {
  if (s.size <= short_row) return launch_rows<T, Log, N, warp>(op, x, y, s);
  if (s.size <= long_row) return launch_rows<T, Log, N, block_size>(op, x, y, s);
  launch_rows<T, Log, N, large_block>(op, x, y, s);
}

// Rows whose elements fit the registers of their threads; false for longer ones.
template <class T, bool Log, int N>
bool launch_held_rows(const char* op, const T* x, T* y, const Slices& s) {
  const auto with = [&](auto lanes, auto chunks) {
    launch(op, softmax_held_rows<T, Log, lanes(), N, chunks()>, row_grid<lanes()>(s.outer),
           row_block<lanes()>(), x, y, s.outer, static_cast<int>(s.size));
    return true;
  };
  const auto fits = [&](int lanes, int chunks) { return s.size <= int64_t{lanes} * N * chunks; };
  constexpr std::integral_constant<int, 1> once;
  constexpr std::integral_constant<int, 2> twice;
  constexpr std::integral_constant<int, 4> four_times;
  constexpr std::integral_constant<int, warp> few;
  constexpr std::integral_constant<int, block_size> some;
  constexpr std::integral_constant<int, half_block> many;
  if (fits(warp, 1)) return with(few, once);
  if (fits(warp, 2)) return with(few, twice);
  if (fits(block_size, 1)) return with(some, once);
  if (fits(block_size, 2)) return with(some, twice);
  if (fits(half_block, 2)) return with(many, twice);
  return fits(half_block, 4) && with(many, four_times);
}

template <bool Log>
void softmax_kernel(const Tensor& input, const Tensor& out, int64_t dim) {
  const char* op = Log ? "log_softmax" : "softmax";
  if (input.numel() == 0) return;
  const DeviceGuard guard(input.device().index);
  const Slices s(input, dim);
  dispatch<dtypes::Floating>(op, input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = input.data<T>();
    T* y = out.data<T>();
    if (s.inner > 1) {
      const int64_t columns = s.outer * s.inner;
      launch(op, softmax_columns<T, Log>, blocks_for(columns, block_size), block_size, x, y,
             columns, s.size, s.inner);
    } else if (rows_are_aligned<T>(s.size, {x, y})) {
      if (!launch_held_rows<T, Log, row_width<T>>(op, x, y, s)) {
        launch_rows<T, Log, row_width<T>>(op, x, y, s);
      }
    } else {
      launch_rows<T, Log, 1>(op, x, y, s);
    }
  });
}
KERNEL_FOR(softmax, softmax_kernel<false>)
KERNEL_FOR(log_softmax, softmax_kernel<true>)

// --- The logarithms of sums of exponentials --------------------------------------------------

template <class T, int Lanes>
__global__ void __launch_bounds__(row_threads<Lanes>)
    log_sum_rows(const T* x, T* out, int64_t rows, int64_t size) {
  using C = ComputeType<T>;
  const int64_t row = my_row();
  if (row >= rows) return;
  const ExpSum<C> all = exp_sum_of_row<Lanes, 1>(x + row * size, size);
  if (threadIdx.x == 0) out[row] = static_cast<T>(all.log_sum());
}

template <class T>
__global__ void __launch_bounds__(block_size)
    log_sum_columns(const T* x, T* out, int64_t columns, int64_t size, int64_t inner) {
  const Column column(size, inner);
  if (column.number >= columns) return;
  out[column.number] = static_cast<T>(exp_sum_of_column(x, column).log_sum());
}

void logsumexp_kernel(const Tensor& input, const Tensor& out, int64_t dim) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(input.device().index);
  const Slices s(input, dim);
  dispatch<dtypes::Floating>("logsumexp", input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = input.data<T>();
    T* y = out.data<T>();
    if (s.inner > 1) {
      const int64_t columns = s.outer * s.inner;
      launch("logsumexp", log_sum_columns<T>, blocks_for(columns, block_size), block_size, x, y,
             columns, s.size, s.inner);
    } else if (s.size <= short_row) {
      launch("logsumexp", log_sum_rows<T, warp>, row_grid<warp>(s.outer), row_block<warp>(), x, y,
             s.outer, s.size);
    } else {
      launch("logsumexp", log_sum_rows<T, block_size>, row_grid<block_size>(s.outer),
             row_block<block_size>(), x, y, s.outer, s.size);
    }
  });
}
KERNEL_FOR(logsumexp, logsumexp_kernel)

// The gradient of an element: y * (g - sum(g * y)), or g - exp(y) * sum(g).
template <bool Log, class C>
__device__ C summand(C g, C y) {
  return Log ? g : g * y;
}
template <bool Log, class C>
__device__ C gradient(C g, C y, C sum) {
  return Log ? g - math::exp(y) * sum : y * (g - sum);
}

template <class T, bool Log, int Lanes>
__global__ void __launch_bounds__(block_size)
    backward_rows(const T* g, const T* y, T* out, int64_t rows, int64_t size) {
  using C = ComputeType<T>;
  const int64_t row = my_row();
  if (row >= rows) return;
  g += row * size;
  y += row * size;
  out += row * size;
  Single<C> mine{C(0)};
  for (int64_t i = threadIdx.x; i < size; i += Lanes) {
    mine.value += summand<Log>(static_cast<C>(g[i]), static_cast<C>(y[i]));
  }
  const C sum = fold_row<Lanes>(mine, AddSingles<C>()).value;
  for (int64_t i = threadIdx.x; i < size; i += Lanes) {
    out[i] = static_cast<T>(gradient<Log>(static_cast<C>(g[i]), static_cast<C>(y[i]), sum));
  }
}

template <class T, bool Log>
__global__ void __launch_bounds__(block_size)
    backward_columns(const T* g, const T* y, T* out, int64_t columns, int64_t size, int64_t inner) {
  using C = ComputeType<T>;
  const Column column(size, inner);
  if (column.number >= columns) return;
  C sum = 0;
  column.for_each(
      [&](int64_t at) { sum += summand<Log>(static_cast<C>(g[at]), static_cast<C>(y[at])); });
  column.for_each([&](int64_t at) {
    out[at] = static_cast<T>(gradient<Log>(static_cast<C>(g[at]), static_cast<C>(y[at]), sum));
  });
}

template <bool Log>
void backward_kernel(const Tensor& grad, const Tensor& output, const Tensor& out, int64_t dim) {
  const char* op = Log ? "log_softmax_backward" : "softmax_backward";
  if (output.numel() == 0) return;
  const DeviceGuard guard(output.device().index);
  const Slices s(output, dim);
  dispatch<dtypes::Floating>(op, output.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *g = grad.data<T>(), *y = output.data<T>();
    T* to = out.data<T>();
    if (s.inner > 1) {
      const int64_t columns = s.outer * s.inner;
      launch(op, backward_columns<T, Log>, blocks_for(columns, block_size), block_size, g, y, to,
             columns, s.size, s.inner);
    } else if (s.size <= short_row) {
      launch(op, backward_rows<T, Log, warp>, row_grid<warp>(s.outer), row_block<warp>(), g, y, to,
             s.outer, s.size);
    } else {
      launch(op, backward_rows<T, Log, block_size>, row_grid<block_size>(s.outer),
             row_block<block_size>(), g, y, to, s.outer, s.size);
    }
  });
}
KERNEL_FOR(softmax_backward, backward_kernel<false>)
KERNEL_FOR(log_softmax_backward, backward_kernel<true>)

}  // namespace
}  // namespace flambeau::cuda
