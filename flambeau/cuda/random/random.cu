// CUDA kernels of the random slots. The elements are dealt out to threads as PyTorch deals them:
// a block of four words makes four samples (two in double precision), which lie one grid apart.
#include "flambeau/kernels/random.h"

#include <cmath>
#include <limits>

#include "flambeau/cuda/elementwise/loops.cuh"
#include "flambeau/cuda/random/philox.cuh"
#include "flambeau/cuda/runtime/generator.h"

namespace flambeau::cuda {
namespace {

// Samples of a distribution that one block of words makes, in C: 4 of float, 2 of double.
template <class C>
constexpr int samples = sizeof(C) <= 4 ? 4 : 2;

// Numbers in (0, 1] from a block of words.
template <class C>
__device__ void uniforms(uint4 words, C (&out)[samples<C>]) {
  if constexpr (samples<C> == 4) {
    out[0] = uniform_float(words.x), out[1] = uniform_float(words.y);
    out[2] = uniform_float(words.z), out[3] = uniform_float(words.w);
  } else {
    out[0] = uniform_double(words.x, words.y), out[1] = uniform_double(words.z, words.w);
  }
}

template <class C>
__device__ void normals(uint4 words, C (&out)[samples<C>]) {
  if constexpr (samples<C> == 4) {
    const float2 first = normal_pair(words.x, words.y), second = normal_pair(words.z, words.w);
    out[0] = first.x, out[1] = first.y, out[2] = second.x, out[3] = second.y;
  } else {
    const double2 pair = normal_pair(words);
    out[0] = pair.x, out[1] = pair.y;
  }
}

// A distribution D: using Word, the type samples are counted by; draw(words, Word (&)[n]) fills n
// of them; finish<T>(Word) makes an element.
template <class T, class D>
__global__ void __launch_bounds__(block_size)
    draw_kernel(const __grid_constant__ Strided<1> s, PhiloxState state, D distribution) {
  using Word = typename D::Word;
  constexpr int n = samples<Word>;
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * block_size + threadIdx.x;
  const uint64_t threads = static_cast<uint64_t>(gridDim.x) * block_size;
  uint64_t block = 0;
  for (uint64_t i = thread; i < s.numel; i += threads * n, ++block) {
    Word drawn[n];
    distribution.draw(philox(state, thread, block), drawn);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const uint64_t element = i + threads * j;
      if (element < s.numel) {
        char* at[1];
        s.place(static_cast<uint32_t>(element), at);
        *reinterpret_cast<T*>(at[0]) = distribution.template finish<T>(drawn[j]);
      }
    }
  }
}

unsigned grid_for(int64_t numel, int device) {
  const int64_t resident = int64_t{multiprocessors(device)} * (2048 / block_size);
  return static_cast<unsigned>(std::min<int64_t>(blocks_for(numel, block_size), resident));
}

// Claims what drawing `numel` samples, n from a block of words, takes from every thread's stream.
PhiloxState claim(Generator& generator, int64_t numel, unsigned grid, int n) {
  auto& philox = static_cast<PhiloxGenerator&>(generator);
  const int64_t round = int64_t{grid} * block_size * n;
  return philox.claim(4 * static_cast<uint64_t>((numel + round - 1) / round));
}

template <class T, class D>
void draw(const char* op, const Tensor& out, Generator& generator, const D& distribution) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const DeviceGuard guard(device);
  Tensor target = out;
  const DType dtype = out.dtype();
  TensorIter iter;
  iter.build({op, false, false}, &target, &dtype, 1, nullptr, 0, dtype);
  for_each_chunk(iter, [&](const TensorIter& chunk) {
    const unsigned grid = grid_for(chunk.numel, device);
    launch(op, draw_kernel<T, D>, grid, block_size, Strided<1>(chunk),
           claim(generator, chunk.numel, grid, samples<typename D::Word>), distribution);
  });
}

template <class C>
struct FromUniform {
  using Word = C;
  __device__ void draw(uint4 words, C (&out)[samples<C>]) const { uniforms(words, out); }
};
template <class C>
struct FromNormal {
  using Word = C;
  __device__ void draw(uint4 words, C (&out)[samples<C>]) const { normals(words, out); }
};

template <class C>
struct Uniform : FromUniform<C> {
  C from, to;
  template <class T>
  __device__ T finish(C u) const {
    const T value = static_cast<T>(u * (to - from) + from);
    // The interval is open above and closed below.
    return static_cast<C>(value) == static_cast<C>(static_cast<T>(to)) ? static_cast<T>(from)
                                                                       : value;
  }
};

void uniform_kernel(const Tensor& out, double from, double to, Generator& generator) {
  dispatch<dtypes::Floating>("uniform_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    draw<T>("uniform_", out, generator, Uniform<C>{{}, static_cast<C>(from), static_cast<C>(to)});
  });
}
KERNEL_FOR(uniform, uniform_kernel)

template <class C, bool Log>
struct Normal : FromNormal<C> {
  C mean, std;
  template <class T>
  __device__ T finish(C z) const {
    const C value = z * std + mean;
    return static_cast<T>(Log ? sample_exp(value) : value);
  }
};

template <bool Log>
void normal_kernel(const Tensor& out, double mean, double std, Generator& generator) {
  dispatch<dtypes::Floating>(Log ? "log_normal_" : "normal_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    draw<T>("normal_", out, generator,
            Normal<C, Log>{{}, static_cast<C>(mean), static_cast<C>(std)});
  });
}
KERNEL_FOR(normal, normal_kernel<false>)
KERNEL_FOR(log_normal, normal_kernel<true>)

template <class C>
struct Exponential : FromUniform<C> {
  C rate;
  template <class T>
  __device__ T finish(C u) const {
    // A draw of one would give zero, which the distribution never does.
    constexpr C half_step = std::numeric_limits<C>::epsilon() / 2;
    const C log = u >= C(1) - half_step ? -half_step : sample_log(u);
    return static_cast<T>(-log / rate);
  }
};

void exponential_kernel(const Tensor& out, double rate, Generator& generator) {
  dispatch<dtypes::Floating>("exponential_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    draw<T>("exponential_", out, generator, Exponential<C>{{}, static_cast<C>(rate)});
  });
}
KERNEL_FOR(exponential, exponential_kernel)

template <class C>
struct Cauchy : FromUniform<C> {
  C median, sigma;
  template <class T>
  __device__ T finish(C u) const {
    return static_cast<T>(median + sigma * sample_tan(C(3.14159265358979323846) * (u - C(0.5))));
  }
};

void cauchy_kernel(const Tensor& out, double median, double sigma, Generator& generator) {
  dispatch<dtypes::Floating>("cauchy_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    draw<T>("cauchy_", out, generator,
            Cauchy<C>{{}, static_cast<C>(median), static_cast<C>(sigma)});
  });
}
KERNEL_FOR(cauchy, cauchy_kernel)

// The number of trials up to the first success.
template <class C>
struct Geometric : FromUniform<C> {
  C log_failure;
  template <class T>
  __device__ T finish(C u) const {
    return static_cast<T>(static_cast<ComputeType<T>>(::ceil(sample_log(u) / log_failure)));
  }
};

void geometric_kernel(const Tensor& out, double p, Generator& generator) {
  constexpr DTypeSet set = dtypes::Signed | DType::uint8 | dtypes::Floating;
  dispatch<set>("geometric_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    draw<T>("geometric_", out, generator,
            Geometric<C>{{}, static_cast<C>(std::log1p(-static_cast<double>(static_cast<C>(p))))});
  });
}
KERNEL_FOR(geometric, geometric_kernel)

template <class C>
struct Bernoulli : FromUniform<C> {
  C p, hit;
  template <class T>
  __device__ T finish(C u) const {
    return static_cast<T>(static_cast<ComputeType<T>>(u <= p ? hit : C(0)));
  }
};

constexpr DTypeSet integers = dtypes::Signed | DType::uint8;
constexpr DTypeSet drawable = integers | dtypes::Floating | DType::bool_;

void bernoulli_kernel(const Tensor& out, double p, double hit, Generator& generator) {
  dispatch<drawable>("bernoulli_scalar_cuda_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    draw<T>("bernoulli_", out, generator, Bernoulli<C>{{}, static_cast<C>(p), static_cast<C>(hit)});
  });
}
KERNEL_FOR(bernoulli, bernoulli_kernel)

// Integers of [base, base + range), from words wide enough for the range.
template <class W>
struct Integers {
  using Word = W;
  W range;  // 0 stands for all
  int64_t base;
  __device__ void draw(uint4 words, W (&out)[samples<W>]) const {
    if constexpr (samples<W> == 4) {
      out[0] = words.x, out[1] = words.y, out[2] = words.z, out[3] = words.w;
    } else {
      out[0] = static_cast<W>(words.x) << 32 | words.y;
      out[1] = static_cast<W>(words.z) << 32 | words.w;
    }
  }
  template <class T>
  __device__ T finish(W word) const {
    const auto value = static_cast<int64_t>(static_cast<uint64_t>(range ? word % range : word) +
                                            static_cast<uint64_t>(base));
    return static_cast<T>(static_cast<ComputeType<T>>(value));
  }
};

void random_integers_kernel(const Tensor& out, IntegerRange of, Generator& generator) {
  dispatch<drawable | dtypes::Unsigned>("random_", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (of.wide || of.range >> 32) {
      draw<T>("random_", out, generator, Integers<uint64_t>{of.range, of.base});
    } else {
      draw<T>("random_", out, generator,
              Integers<uint32_t>{static_cast<uint32_t>(of.range), of.base});
    }
  });
}
KERNEL_FOR(random_integers, random_integers_kernel)

}  // namespace
}  // namespace flambeau::cuda
