// Two sums a channel over a tensor (N, C, plane) or (rows, C), of terms that an Op makes:
//   using Stored, Stat                          types of elements and of sums
//   void terms<V, Last>(at, row, c, a, b) const adds V terms of each kind: elements at `at` and
//                                               after, of channel c, or, with Last, of channels c,
//                                               c + 1, ...; `row` counts rows of channels
//   void finish(c, double a, double b) const    takes the sums of channel c
// Blocks take chunks of a channel; a second kernel adds these up in double precision. How work is
// cut depends on the shape alone, so results do not change from run to run.
#pragma once

#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/reduce/rows_of.cuh"
#include "flambeau/tensor/tensor.h"

namespace flambeau::cuda {

// (N, C, spatial...), contiguous or channels last.
struct ChannelLayout {
  int64_t samples, channels, plane = 1;
  bool last;  // channels innermost
  explicit ChannelLayout(const Tensor& x) : samples(x.sizes()[0]), channels(x.sizes()[1]) {
    for (int64_t d = 2; d < x.dim(); ++d) plane *= x.sizes()[d];
    last = plane == 1 || (!x.is_contiguous() && x.strides()[1] == 1);
  }
  ChannelLayout(int64_t rows, int64_t columns) : samples(rows), channels(columns), last(true) {}
  [[nodiscard]] int64_t count() const { return samples * plane; }  // of a channel
};

template <class T>
constexpr int channel_width = 16 / static_cast<int>(sizeof(T));

template <class S>
struct PairSum {
  S a, b;
  __device__ PairSum shuffled(int step) const {
    return {__shfl_xor_sync(0xffffffffu, a, step), __shfl_xor_sync(0xffffffffu, b, step)};
  }
};
template <class S>
struct AddPairs {
  __device__ PairSum<S> operator()(PairSum<S> x, PairSum<S> y) const {
    return {x.a + y.a, x.b + y.b};
  }
};

// A block for a chunk of a channel whose planes lie apart. Indices count vectors of V elements.
template <class Op, int V>
__global__ void __launch_bounds__(block_size)
    plane_sums(Op op, Divider per_plane, int64_t channels, int64_t vectors, int64_t chunk,
               double2* partial) {
  using S = typename Op::Stat;
  const int64_t c = blockIdx.x;
  const int64_t begin = blockIdx.y * chunk, end = min(begin + chunk, vectors);
  S a[V] = {}, b[V] = {};
#pragma unroll 4
  for (int64_t j = begin + threadIdx.x; j < end; j += block_size) {
    const uint32_t n = per_plane.divide(static_cast<uint32_t>(j));
    const uint32_t p = static_cast<uint32_t>(j) - n * per_plane.divisor;
    op.template terms<V, false>(((n * channels + c) * per_plane.divisor + p) * V, 0, c, a, b);
  }
  PairSum<S> mine{a[0], b[0]};
#pragma unroll
  for (int j = 1; j < V; ++j) mine.a += a[j], mine.b += b[j];
  mine = fold_row<block_size>(mine, AddPairs<S>());
  if (threadIdx.x == 0) {
    partial[blockIdx.y * channels + c] = {static_cast<double>(mine.a), static_cast<double>(mine.b)};
  }
}

// Threads along x take V channels each, threads along y share the rows of the chunk.
constexpr int sum_lanes = 8;
template <class Op, int V>
__global__ void __launch_bounds__(block_size)
    row_sums(Op op, int64_t channels, int64_t rows, int64_t chunk, double2* partial) {
  using S = typename Op::Stat;
  __shared__ PairSum<S> shared[sum_lanes][V][32];
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x) * V;
  const int64_t begin = blockIdx.y * chunk, end = min(begin + chunk, rows);
  S a[V] = {}, b[V] = {};
  if (c < channels) {
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end; row += sum_lanes) {
      op.template terms<V, true>(row * channels + c, row, c, a, b);
    }
  }
#pragma unroll
  for (int j = 0; j < V; ++j) shared[threadIdx.y][j][threadIdx.x] = {a[j], b[j]};
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
#pragma unroll
  for (int j = 0; j < V; ++j) {
    double sum_a = 0, sum_b = 0;
    for (int lane = 0; lane < sum_lanes; ++lane) {
      sum_a += static_cast<double>(shared[lane][j][threadIdx.x].a);
      sum_b += static_cast<double>(shared[lane][j][threadIdx.x].b);
    }
    partial[blockIdx.y * channels + c + j] = {sum_a, sum_b};
  }
}

// A warp for each channel.
template <class Op>
__global__ void __launch_bounds__(block_size)
    finish_sums(Op op, const double2* partial, int64_t channels, int chunks) {
  const int64_t c = my_row();
  if (c >= channels) return;
  PairSum<double> mine{0, 0};
  for (int chunk = threadIdx.x; chunk < chunks; chunk += warp) {
    const double2 one = partial[chunk * channels + c];
    mine.a += one.x, mine.b += one.y;
  }
  mine = fold_row<warp>(mine, AddPairs<double>());
  if (threadIdx.x == 0) op.finish(c, mine.a, mine.b);
}

// `aligned`: whether vectors may be read at multiples of their size from the tensors' starts.
template <class Op>
void sum_channels(const char* name, const ChannelLayout& x, bool aligned, int device,
                  const Op& op) {
  constexpr int wide = channel_width<typename Op::Stored>;
  const bool vectors = aligned && (x.last ? x.channels : x.plane) % wide == 0;
  const int64_t width = vectors ? wide : 1;
  const int64_t steps = x.last ? x.count() : x.count() / width;
  const int64_t blocks = x.last ? (x.channels + 32 * width - 1) / (32 * width) : x.channels;
  const int64_t per_round = x.last ? sum_lanes * 4 : block_size * 2;
  const int64_t wanted = (int64_t{16} * multiprocessors(device) + blocks - 1) / blocks;
  const int64_t most = std::max<int64_t>(steps / per_round, 1);
  // 32-bit indices within a channel: chunks of more elements than that are beyond any device.
  CHECK(x.last || steps <= INT32_MAX, RuntimeError, "{}: a channel of {} elements is too large",
        name, x.count());
  int64_t chunks = std::min<int64_t>({wanted, most, 512});
  const int64_t chunk = (steps + chunks - 1) / chunks;
  chunks = (steps + chunk - 1) / chunk;
  const Workspace partial(x.channels * chunks * sizeof(double2), device);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(chunks));
  if (x.last) {
    launch(name, vectors ? row_sums<Op, wide> : row_sums<Op, 1>, grid, dim3(32, sum_lanes), op,
           x.channels, steps, chunk, partial.get<double2>());
  } else {
    launch(name, vectors ? plane_sums<Op, wide> : plane_sums<Op, 1>, grid, block_size, op,
           Divider(static_cast<uint32_t>(x.plane / width)), x.channels, steps, chunk,
           partial.get<double2>());
  }
  launch(name, finish_sums<Op>, row_grid<warp>(x.channels), row_block<warp>(), op,
         partial.get<const double2>(), x.channels, static_cast<int>(chunks));
}

// V elements as numbers to compute with.
template <int V, class T>
__device__ inline void read_vector(const T* at, ComputeType<T> (&values)[V]) {
  const auto words = *reinterpret_cast<const Vector<T, V>*>(at);
#pragma unroll
  for (int j = 0; j < V; ++j) values[j] = static_cast<ComputeType<T>>(words.values[j]);
}

inline bool all_aligned(std::initializer_list<const void*> tensors) {
  for (const void* data : tensors) {
    if (reinterpret_cast<uintptr_t>(data) % 16) return false;
  }
  return true;
}

}  // namespace flambeau::cuda
