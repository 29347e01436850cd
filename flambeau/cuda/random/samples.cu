// CUDA kernels of random draws that depend on an input or on one another: coins of given bias,
// dropout, permutations. Words of the generator are dealt out to elements as PyTorch deals them.
#include <cmath>

#include "flambeau/cuda/index/radix_sort.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/random/random.cuh"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/kernels/random.h"

namespace flambeau::cuda {
namespace {

constexpr DTypeSet drawable = dtypes::Signed | DType::uint8 | dtypes::Floating | DType::bool_;

// --- Coins ---------------------------------------------------------------------------------------

// Four neighbours share a block of words.
template <class T, class P>
__global__ void __launch_bounds__(block_size)
    coins_kernel(const __grid_constant__ Strided<2> s, PhiloxState state) {
  const uint32_t i = blockIdx.x * block_size + threadIdx.x;
  if (i >= s.numel) return;
  char* at[2];
  s.place(i, at);
  const float u = uniform_float(word_of(philox(state, i / 4, 0), i % 4));
  const auto p = static_cast<ComputeType<P>>(*reinterpret_cast<const P*>(at[1]));
  *reinterpret_cast<T*>(at[0]) = static_cast<T>(static_cast<ComputeType<T>>(u <= p ? 1 : 0));
}

void bernoulli_each_kernel(const Tensor& out, const Tensor& p, Generator& generator) {
  dispatch<drawable>("bernoulli_tensor_cuda_self_", out.dtype(), [&](auto out_tag) {
    using T = typename decltype(out_tag)::type;
    dispatch<dtypes::Floating>("bernoulli_tensor_cuda_p_", p.dtype(), [&](auto p_tag) {
      using P = typename decltype(p_tag)::type;
      for_pairs("bernoulli_", out, p, [&](const TensorIter& chunk) {
        launch("bernoulli_", coins_kernel<T, P>, blocks_for(chunk.numel, block_size), block_size,
               Strided<2>(chunk), claim_words(generator, 10));
      });
    });
  });
}
KERNEL_FOR(bernoulli_each, bernoulli_each_kernel)

// --- Dropout -------------------------------------------------------------------------------------

// A thread draws for Width neighbours at a time, all of them one grid of vectors apart: from one
// block of words for four of them or two, from two blocks for eight.
template <class T, int Width>
__global__ void __launch_bounds__(block_size)
    dropout_vectors(const T* x, T* out, bool* mask, int64_t numel, float keep, float scale,
                    PhiloxState state) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_size;
  uint64_t block = 0;
  for (int64_t i = thread * Width; i < numel; i += threads * Width) {
    float uniforms[Width];
#pragma unroll
    for (int j = 0; j < Width; j += 4, ++block) {
      const uint4 words = philox(state, thread, block);
#pragma unroll
      for (int k = 0; k < 4 && j + k < Width; ++k)
        uniforms[j + k] = uniform_float(word_of(words, k));
    }
    const auto values = *reinterpret_cast<const Vector<T, Width>*>(x + i);
    Vector<T, Width> results;
    Vector<bool, Width> kept;
#pragma unroll
    for (int j = 0; j < Width; ++j) {
      kept.values[j] = uniforms[j] < keep;
      using C = ComputeType<T>;
      results.values[j] = static_cast<T>(static_cast<C>(values.values[j]) *
                                         static_cast<C>(kept.values[j]) * static_cast<C>(scale));
    }
    *reinterpret_cast<Vector<T, Width>*>(out + i) = results;
    *reinterpret_cast<Vector<bool, Width>*>(mask + i) = kept;
  }
}

// Elements one by one: the words of a block go to elements that lie one grid apart.
template <class T>
__global__ void __launch_bounds__(block_size)
    dropout_elements(const T* x, T* out, bool* mask, int64_t numel, float keep, float scale,
                     PhiloxState state) {
  using C = ComputeType<T>;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_size;
  uint64_t block = 0;
  for (int64_t base = thread; base < numel; base += threads * 4, ++block) {
    const uint4 words = philox(state, thread, block);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t i = base + threads * j;
      if (i >= numel) break;
      const bool kept = uniform_float(word_of(words, j)) < keep;
      out[i] = static_cast<T>(static_cast<C>(x[i]) * static_cast<C>(kept) * static_cast<C>(scale));
      mask[i] = kept;
    }
  }
}

// Four neighbours to a thread, whose words follow each other in one stream. What is drawn is which
// are dropped, not which are kept.
template <class T>
__global__ void __launch_bounds__(block_size)
    dropout_sequence(const T* x, T* out, bool* mask, int64_t numel, float keep, float scale,
                     PhiloxState state) {
  using C = ComputeType<T>;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  const uint4 words = philox(state, 0, group);
  const float drop = 1.0f - keep;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int64_t i = group * 4 + j;
    if (i >= numel) return;
    const bool kept = uniform_float(word_of(words, j)) > drop;
    out[i] = static_cast<T>(static_cast<C>(x[i]) * static_cast<C>(kept) * static_cast<C>(scale));
    mask[i] = kept;
  }
}

// All tensors are dense and lie alike.
void dropout_kernel(const Tensor& x, double keep, const Tensor& out, const Tensor& mask,
                    DropOrder order, Generator& generator) {
  const int64_t numel = x.numel();
  const int device = x.device().index;
  const DeviceGuard guard(device);
  const int64_t resident = int64_t{multiprocessors(device)} * (2048 / block_size);
  const auto grid =
      static_cast<unsigned>(std::min<int64_t>(blocks_for(numel, block_size), resident));
  const int64_t round = int64_t{grid} * block_size * 4;
  const bool in_sequence = order == DropOrder::sequence;
  const PhiloxState state =
      claim_words(generator, in_sequence ? numel : ((numel - 1) / round + 1) * 4);
  const float probability = static_cast<float>(keep), scale = 1.0f / probability;
  dispatch<dtypes::Floating>("fused_dropout", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto alignment =
        reinterpret_cast<uintptr_t>(x.raw()) | reinterpret_cast<uintptr_t>(out.raw()) | 16;
    int64_t width = order == DropOrder::one_by_one
                        ? 1
                        : std::min<int64_t>(8, 16 / static_cast<int64_t>(sizeof(T)));
    while (width > 1 && (numel % width || alignment % (width * sizeof(T)) ||
                         reinterpret_cast<uintptr_t>(mask.raw()) % width))
      width /= 2;
    const auto run = [&](auto kernel) {
      launch("dropout", kernel, in_sequence ? blocks_for(numel, block_size * 4) : grid, block_size,
             x.data<T>(), out.data<T>(), mask.data<bool>(), numel, probability, scale, state);
    };
    if (in_sequence) return run(dropout_sequence<T>);
    if (width == 8) return run(dropout_vectors<T, 8>);
    if (width == 4) return run(dropout_vectors<T, 4>);
    if (width == 2) return run(dropout_vectors<T, 2>);
    run(dropout_elements<T>);
  });
}
KERNEL_FOR(dropout, dropout_kernel)

template <class C>
struct DropGradient {
  C scale;
  __device__ C operator()(C g, bool kept) const { return g * static_cast<C>(kept) * scale; }
};

void dropout_backward_kernel(const TensorIter& iter, double scale) {
  dispatch<dtypes::Floating>("masked_scale", iter.dtypes[0], [&](auto tag) {
    using T = Stored<typename decltype(tag)::type>;
    using C = ComputeType<T>;
    elementwise<T, T, bool>("dropout_backward", iter, DropGradient<C>{static_cast<C>(scale)});
  });
}
KERNEL_FOR(dropout_backward, dropout_backward_kernel)

// --- Probabilities -------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(block_size)
    check_each(const T* probabilities, int64_t count, FaultPlace fault) {
  using C = ComputeType<T>;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i >= count) return;
  const C p = static_cast<C>(probabilities[i]);
  if (!(p >= 0 && p <= 1)) report(fault, FaultKind::probability, i, 0, count);
}

void check_probabilities_kernel(const Tensor& probabilities) {
  const int device = probabilities.device().index;
  const DeviceGuard guard(device);
  dispatch<dtypes::Floating>("binary_cross_entropy", probabilities.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("binary_cross_entropy", check_each<T>, blocks_for(probabilities.numel(), block_size),
           block_size, probabilities.data<T>(), probabilities.numel(), fault_of(device));
  });
}
KERNEL_FOR(check_probabilities, check_probabilities_kernel)

// --- Permutations --------------------------------------------------------------------------------

// Keys enough bits wide that two of n are equal with a probability of a tenth at most.
int permutation_bits(int64_t n) {
  const double size = static_cast<double>(n);
  const double bits = std::ceil(std::log2(size - (6 * size * size + 1) / (12 * std::log(0.9))));
  return std::min(64, static_cast<int>(bits));
}

// A key is a draw of 64 bits, or what of it is left over a range of 32.
template <class Key>
__global__ void __launch_bounds__(block_size)
    permutation_keys(Key* keys, uint32_t* positions, int64_t n, PhiloxState state) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * block_size;
  uint64_t block = 0;
  for (int64_t base = thread; base < n; base += threads * 2, ++block) {
    const uint4 words = philox(state, thread, block);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int64_t i = base + threads * j;
      if (i >= n) break;
      positions[i] = static_cast<uint32_t>(i);
      const uint64_t drawn = j == 0 ? static_cast<uint64_t>(words.x) << 32 | words.y
                                    : static_cast<uint64_t>(words.z) << 32 | words.w;
      keys[i] = static_cast<Key>(sizeof(Key) == 8 ? drawn : drawn % 0xffffffffu);
    }
  }
}

// Shuffles the runs of equal keys, which sorting left in order: the thread at the start of one has
// it all. Runs are short and rare.
template <class Key>
__global__ void __launch_bounds__(block_size)
    shuffle_equal(const Key* keys, uint32_t* positions, int64_t n, Key mask, PhiloxState state) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i + 1 >= n || (keys[i] & mask) != (keys[i + 1] & mask)) return;
  if (i > 0 && (keys[i] & mask) == (keys[i - 1] & mask)) return;
  int64_t count = 2;
  while (i + count < n && (keys[i + count] & mask) == (keys[i] & mask)) ++count;
  uint64_t drawn = 0;
  for (int64_t j = count - 1; j > 0; --j, ++drawn) {
    const uint32_t word = word_of(philox(state, i, drawn / 4), drawn % 4);
    const int64_t k = word % static_cast<uint32_t>(j + 1);
    const uint32_t there = positions[i + j];
    positions[i + j] = positions[i + k];
    positions[i + k] = there;
  }
}

template <class T>
__global__ void __launch_bounds__(block_size)
    write_permutation(const uint32_t* positions, T* out, int64_t n, int64_t stride) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < n) out[i * stride] = static_cast<T>(static_cast<ComputeType<T>>(positions[i]));
}

template <class Key>
void sort_random_keys(uint32_t* sorted, int64_t n, int bits, int device, Generator& generator) {
  const Workspace keys(n * sizeof(Key), device), sorted_keys(n * sizeof(Key), device);
  const Workspace positions(n * sizeof(uint32_t), device);
  const int64_t resident = int64_t{multiprocessors(device)} * (2048 / block_size);
  const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks_for(n, block_size), resident));
  const int64_t round = int64_t{grid} * block_size * 2;
  launch("randperm", permutation_keys<Key>, grid, block_size, keys.get<Key>(),
         positions.get<uint32_t>(), n, claim_words(generator, ((n + round - 1) / round) * 4));
  sort_pairs("randperm", device, keys.get<const Key>(), sorted_keys.get<Key>(),
             positions.get<const uint32_t>(), sorted, 1, n, bits);
  const Key mask = static_cast<Key>(~uint64_t{0} >> (64 - bits));
  launch("randperm", shuffle_equal<Key>, blocks_for(n, block_size), block_size,
         sorted_keys.get<const Key>(), sorted, n, mask, claim_words(generator, n));
}

void permutation_kernel(const Tensor& out, Generator& generator) {
  const int64_t n = out.numel();
  if (n == 0) return;
  CHECK(n < INT32_MAX, RuntimeError, "randperm: n = {} is too large for CUDA", n);
  const int device = out.device().index;
  const DeviceGuard guard(device);
  const int bits = permutation_bits(n);
  const Workspace sorted(n * sizeof(uint32_t), device);
  if (bits <= 32) {
    sort_random_keys<uint32_t>(sorted.get<uint32_t>(), n, bits, device, generator);
  } else {
    sort_random_keys<uint64_t>(sorted.get<uint32_t>(), n, bits, device, generator);
  }
  dispatch<dtypes::Signed | DType::uint8 | dtypes::Floating>(
      "randperm", out.dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        launch("randperm", write_permutation<T>, blocks_for(n, block_size), block_size,
               sorted.get<const uint32_t>(), out.data<T>(), n, out.stride(0));
      });
}
KERNEL_FOR(permutation, permutation_kernel)

}  // namespace
}  // namespace flambeau::cuda
