// CUDA kernels that draw indices by weight. A uniform number finds the first running sum that
// reaches it, and which that is depends on how the sums were rounded: they are added in the order
// in which PyTorch adds them, every step rounded to the type of the weights.
#include <algorithm>
#include <bit>

#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/random/random.cuh"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/random.h"

namespace flambeau::cuda {
namespace {

constexpr unsigned all_lanes = 0xffffffffu;

// Reports (see fault.h) what of a row cannot be drawn by. A block has a row.
template <class T>
__global__ void __launch_bounds__(block_size)
    check_row(const T* weights, int64_t size, FaultPlace fault) {
  using C = ComputeType<T>;
  weights += blockIdx.x * size;
  bool any = false;
  for (int64_t i = threadIdx.x; i < size; i += block_size) {
    const C weight = static_cast<C>(weights[i]);
    if (!(weight >= 0 && isfinite(weight))) report(fault, FaultKind::weight, i, blockIdx.x, size);
    any |= weight != 0;
  }
  if (!__syncthreads_or(any) && threadIdx.x == 0)
    report(fault, FaultKind::weights, 0, blockIdx.x, size);
}

void check_weights_kernel(const Tensor& weights) {
  const int device = weights.device().index;
  const DeviceGuard guard(device);
  const int64_t size = weights.sizes().back();
  dispatch<dtypes::Floating>("multinomial", weights.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("multinomial", check_row<T>, blocks_for(weights.numel(), size), block_size,
           weights.data<T>(), size, fault_of(device));
  });
}
KERNEL_FOR(check_weights, check_weights_kernel)

template <class T>
__device__ ComputeType<T> add(ComputeType<T> a, ComputeType<T> b) {
  return static_cast<ComputeType<T>>(static_cast<T>(a + b));
}

// The sum of the first `count` lanes, in lane 0: neighbours first, or the far half first.
template <class T, bool NeighboursFirst>
__device__ ComputeType<T> sum_of_lanes(ComputeType<T> value, int count = 32) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    const int step = NeighboursFirst ? 1 << i : 16 >> i;
    const auto other = __shfl_down_sync(all_lanes, value, step);
    if (lane + step < count) value = add<T>(value, other);
  }
  return value;
}

// Weights over the sum of their row. A block has a row, a lane of threads every so manieth weight.
template <class T>
__global__ void __launch_bounds__(1024) shares_of_rows(const T* weights, T* shares, int64_t size) {
  using C = ComputeType<T>;
  __shared__ C of_warps[32];
  weights += blockIdx.x * size;
  shares += blockIdx.x * size;
  C sum = 0;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    sum = add<T>(sum, static_cast<C>(weights[i]));
  sum = sum_of_lanes<T, false>(sum);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = sum_of_lanes<T, false>(threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : C(0));
    if (threadIdx.x == 0) of_warps[0] = sum;
  }
  __syncthreads();
  const C total = of_warps[0];
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    shares[i] = static_cast<T>(static_cast<C>(weights[i]) / total);
}

// The running sums of several rows. A block has a row and takes chunks of it, twice as long as it
// has threads, through Sklansky's network; the sum so far joins the first element of a chunk.
template <class T>
__global__ void __launch_bounds__(512) sums_of_rows(const T* shares, T* sums, int64_t size) {
  using C = ComputeType<T>;
  __shared__ C chunk[1024];
  shares += blockIdx.x * size;
  sums += blockIdx.x * size;
  const unsigned length = 2 * blockDim.x;
  C before = 0;
  for (int64_t begin = 0; begin < size; begin += length) {
    for (unsigned j = threadIdx.x; j < length; j += blockDim.x) {
      chunk[j] = begin + j < size ? static_cast<C>(shares[begin + j]) : C(0);
      if (j == 0) chunk[j] = add<T>(chunk[j], before);
    }
    for (unsigned step = 1; step <= blockDim.x; step *= 2) {
      __syncthreads();
      const unsigned right = threadIdx.x / step * 2 * step + step;
      const unsigned j = right + threadIdx.x % step;
      chunk[j] = add<T>(chunk[j], chunk[right - 1]);
    }
    __syncthreads();
    before = chunk[length - 1];
    for (unsigned j = threadIdx.x; j < length && begin + j < size; j += blockDim.x)
      sums[begin + j] = static_cast<T>(chunk[j]);
    __syncthreads();
  }
}

// The running sums of a single row, in one block. Tile by tile a thread adds up its neighbours, the
// threads of a warp scan their sums, warps follow each other, and what lies before a tile is the
// tree of the totals of up to 32 earlier ones. (PyTorch's tiles look back at what others have
// finished: from about the tenth tile on, its own rounding depends on their timing.)
constexpr int tile_threads = 128;

template <class T>
__global__ void __launch_bounds__(tile_threads)
    sums_of_one_row(const T* shares, T* sums, int64_t size) {
  using C = ComputeType<T>;
  constexpr int each = 60 / sizeof(T), warps = tile_threads / 32;
  __shared__ C of_warps[warps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  C earlier = 0;  // the total of the tile as many tiles before as the lane says; the last: of more
  int tiles = 0;
  for (int64_t tile = 0; tile < size; tile += tile_threads * each, tiles = min(tiles + 1, 32)) {
    const int64_t begin = min(tile + threadIdx.x * each, size), end = min(begin + each, size);
    C sum = 0;
    for (int64_t i = begin; i < end; ++i) sum = add<T>(sum, static_cast<C>(shares[i]));
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const C left = __shfl_up_sync(all_lanes, sum, step);
      if (lane >= step) sum = add<T>(left, sum);
    }
    if (lane == 31) of_warps[warp] = sum;
    C running = __shfl_up_sync(all_lanes, sum, 1);
    if (lane == 0) running = 0;
    __syncthreads();
    C before = 0, total = 0;
    for (int w = 0; w < warps; ++w) {
      if (w == warp) before = total;
      total = add<T>(total, of_warps[w]);
    }
    const C tiles_before = __shfl_sync(all_lanes, sum_of_lanes<T, true>(earlier, tiles), 0);
    running = add<T>(tiles_before, add<T>(before, running));
    for (int64_t i = begin; i < end; ++i) {
      running = add<T>(running, static_cast<C>(shares[i]));
      sums[i] = static_cast<T>(running);
    }
    const C newer = __shfl_up_sync(all_lanes, earlier, 1);
    earlier = lane == 0 ? total : lane == 31 ? add<T>(earlier, newer) : newer;
    __syncthreads();
  }
}

// As many threads to a row as PyTorch gives it: more to long rows, fewer to many of them.
unsigned threads_of_rows(int64_t rows, int64_t size) {
  const auto bits = [](int64_t n) { return int(std::bit_width(static_cast<uint64_t>(n) - 1)); };
  return 1u << std::clamp((9 + bits(size) - bits(rows)) / 2, 4, 9);
}

template <class T>
void add_up(const T* shares, T* sums, int64_t rows, int64_t size) {
  if (rows == 1)
    return launch("multinomial", sums_of_one_row<T>, 1, tile_threads, shares, sums, size);
  launch("multinomial", sums_of_rows<T>, blocks_for(rows, 1), threads_of_rows(rows, size), shares,
         sums, size);
}

template <class T>
__global__ void __launch_bounds__(block_size)
    weighted_indices(const T* shares, const T* sums, int64_t* out, int64_t rows, int64_t size,
                     int64_t samples, PhiloxState state) {
  using C = ComputeType<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= rows * samples) return;
  const int64_t row = i / samples;
  // The samples of a row have whole blocks of threads.
  constexpr int64_t unit = 128;
  const int64_t thread = row * ((samples + unit - 1) / unit * unit) + i % samples;
  const C u = static_cast<C>(static_cast<T>(uniform_float(philox(state, thread, 0).x)));
  shares += row * size;
  sums += row * size;
  int64_t low = 0, high = size;
  while (low < high) {  // the first sum that reaches u
    const int64_t middle = (low + high) / 2;
    if (static_cast<C>(sums[middle]) < u) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  // Rounding may leave u beyond the last sum: never an index whose weight is zero.
  low = min(low, size - 1);
  while (low > 0 && static_cast<C>(shares[low]) == 0) --low;
  out[i] = low;
}

void multinomial_kernel(const Tensor& out, const Tensor& weights, Generator& generator) {
  const int device = out.device().index;
  const DeviceGuard guard(device);
  const int64_t size = weights.sizes().back(), rows = weights.numel() / std::max<int64_t>(size, 1);
  const int64_t samples = out.sizes().back();
  if (out.numel() == 0) return;
  check_weights_kernel(weights);
  dispatch<dtypes::Floating>("multinomial", weights.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Workspace shares(weights.numel() * sizeof(T), device);
    const Workspace sums(weights.numel() * sizeof(T), device);
    const auto threads = static_cast<unsigned>(std::min<int64_t>(1024, (size + 31) / 32 * 32));
    launch("multinomial", shares_of_rows<T>, blocks_for(rows, 1), threads, weights.data<T>(),
           shares.get<T>(), size);
    add_up(shares.get<const T>(), sums.get<T>(), rows, size);
    launch("multinomial", weighted_indices<T>, blocks_for(out.numel(), block_size), block_size,
           shares.get<const T>(), sums.get<const T>(), out.data<int64_t>(), rows, size, samples,
           claim_words(generator, 4));
  });
}
KERNEL_FOR(multinomial, multinomial_kernel)

}  // namespace
}  // namespace flambeau::cuda
