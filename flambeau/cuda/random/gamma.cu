// CUDA kernels of gamma, Dirichlet and binomial samples, whose parameters are tensors, of the
// derivatives of the first two, and of Sobol sequences. The numbers are PyTorch's: of a gamma
// sample those of a stream of its own, of binomial ones those of a stream that eight share.
#include <cmath>

#include "flambeau/cuda/random/random.cuh"
#include "flambeau/cuda/reduce/rows_of.cuh"
#include "flambeau/kernels/implicit_gradients.h"
#include "flambeau/kernels/random.h"
#include "flambeau/kernels/sampling.h"

namespace flambeau::cuda {
namespace {

// Single precision numbers, whatever the samples are computed in: two normal ones are made at once.
template <class C>
struct GammaSource {
  using Real = C;
  WordStream words;
  float spare = 0;
  bool has_spare = false;
  __device__ C uniform() { return uniform_float(words()); }
  __device__ C normal() {
    has_spare = !has_spare;
    if (!has_spare) return spare;
    const uint32_t first = words();
    const float2 pair = normal_pair(first, words());
    spare = pair.y;
    return pair.x;
  }
};

// Calls body(i) for i < numel, a thread each.
template <class Body>
__global__ void __launch_bounds__(block_size) each_element(int64_t numel, const Body body) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_size + threadIdx.x;
  if (i < numel) body(i);
}
template <class Body>
void for_each_element(const char* op, const Tensor& out, const Body& body) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(out.device().index);
  launch(op, each_element<Body>, blocks_for(out.numel(), block_size), block_size, out.numel(),
         body);
}

// --- Gamma and Dirichlet samples -----------------------------------------------------------------

template <class T>
struct GammaBody {
  T* out;
  const T* shapes;
  PhiloxState state;
  __device__ void operator()(int64_t i) const {
    GammaSource<ComputeType<T>> source{{state, static_cast<uint64_t>(i)}};
    out[i] = sampling::at_least_tiny<T>(sampling::gamma(source, shapes[i]));
  }
};

template <class T>
void draw_gamma(const char* op, const Tensor& out, const Tensor& shape, Generator& generator) {
  for_each_element(op, out,
                   GammaBody<T>{out.data<T>(), shape.data<T>(), claim_words(generator, 10)});
}

void standard_gamma_kernel(const Tensor& out, const Tensor& shape, Generator& generator) {
  dispatch<dtypes::Floating>("gamma_cuda", out.dtype(), [&](auto tag) {
    draw_gamma<typename decltype(tag)::type>("_standard_gamma", out, shape, generator);
  });
}
KERNEL_FOR(standard_gamma, standard_gamma_kernel)

// Divides rows by their sums. None is zero: no sample is.
template <class T>
__global__ void __launch_bounds__(block_size) share_rows(T* out, int64_t rows, int64_t size) {
  const int64_t row = my_row();
  if (row >= rows) return;
  out += row * size;
  Single<double> mine{0};
  for (int64_t i = threadIdx.x; i < size; i += warp) mine.value += static_cast<double>(out[i]);
  const T sum = static_cast<T>(fold_row<warp>(mine, AddSingles<double>()).value);
  for (int64_t i = threadIdx.x; i < size; i += warp) out[i] = sampling::share_of<T>(out[i], sum);
}

void dirichlet_kernel(const Tensor& out, const Tensor& concentration, Generator& generator) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(out.device().index);
  const int64_t size = out.dim() == 0 ? 1 : out.size(-1), rows = out.numel() / size;
  dispatch<dtypes::Floating>("dirichlet", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    draw_gamma<T>("_sample_dirichlet", out, concentration, generator);
    launch("_sample_dirichlet", share_rows<T>, row_grid<warp>(rows), row_block<warp>(),
           out.data<T>(), rows, size);
  });
}
KERNEL_FOR(dirichlet, dirichlet_kernel)

template <class T>
struct GammaGradient {
  T* out;
  const T *shapes, *samples;
  __device__ void operator()(int64_t i) const {
    out[i] = static_cast<T>(math::gamma_sample_gradient(static_cast<double>(shapes[i]),
                                                        static_cast<double>(samples[i])));
  }
};

void standard_gamma_grad_kernel(const Tensor& out, const Tensor& shape, const Tensor& sample) {
  dispatch<dtypes::Floating>("_standard_gamma_grad_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element("_standard_gamma_grad", out,
                     GammaGradient<T>{out.data<T>(), shape.data<T>(), sample.data<T>()});
  });
}
KERNEL_FOR(standard_gamma_grad, standard_gamma_grad_kernel)

template <class T>
struct DirichletGradient {
  T* out;
  const T *xs, *alphas, *totals;
  __device__ void operator()(int64_t i) const {
    out[i] = static_cast<T>(math::dirichlet_sample_gradient(static_cast<double>(xs[i]),
                                                            static_cast<double>(alphas[i]),
                                                            static_cast<double>(totals[i])));
  }
};

void dirichlet_grad_kernel(const Tensor& out, const Tensor& x, const Tensor& alpha,
                           const Tensor& total) {
  dispatch<dtypes::Floating>("_dirichlet_grad_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element(
        "_dirichlet_grad", out,
        DirichletGradient<T>{out.data<T>(), x.data<T>(), alpha.data<T>(), total.data<T>()});
  });
}
KERNEL_FOR(dirichlet_grad, dirichlet_grad_kernel)

// --- Binomial samples ----------------------------------------------------------------------------

// The lowest 24 bits of a word are a number of [0, 1).
template <class C>
struct BinomialSource {
  using Real = C;
  WordStream words;
  __device__ C uniform() { return static_cast<float>(words() & 0xffffffu) * 0x1p-24f; }
};

// A thread draws for eight elements, one block of threads apart, from one stream.
constexpr int binomial_threads = 128, binomial_each = 8;

template <class T>
__global__ void __launch_bounds__(binomial_threads)
    binomial_samples(T* out, const T* counts, const T* probs, int64_t numel, PhiloxState state) {
  BinomialSource<ComputeType<T>> source{
      {state, static_cast<uint64_t>(blockIdx.x) * binomial_threads + threadIdx.x}};
  int64_t i = static_cast<int64_t>(blockIdx.x) * binomial_threads * binomial_each + threadIdx.x;
  for (int j = 0; j < binomial_each && i < numel; ++j, i += binomial_threads) {
    out[i] = static_cast<T>(sampling::binomial(source, counts[i], probs[i]));
  }
}

void binomial_kernel(const Tensor& out, const Tensor& count, const Tensor& prob,
                     Generator& generator) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(out.device().index);
  dispatch<dtypes::Floating>("binomial_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("binomial", binomial_samples<T>,
           blocks_for(out.numel(), binomial_threads * binomial_each), binomial_threads,
           out.data<T>(), count.data<T>(), prob.data<T>(), out.numel(), claim_words(generator, 42));
  });
}
KERNEL_FOR(binomial, binomial_kernel)

// --- Sobol sequences -----------------------------------------------------------------------------

// A step n changes a point by the direction of the lowest zero bit of n (Antonov and Saleev), so
// that direction j has been taken as often as there are such steps: its parity alone counts.
__device__ inline int64_t sobol_change(const int64_t* directions, int bits, int64_t from,
                                       int64_t to) {
  int64_t change = 0;
  for (int j = 0; j < bits; ++j) {
    // Of the steps 0 .. n - 1, those that end in a zero and j ones.
    const auto taken = [j](int64_t n) { return (n + (int64_t{1} << j)) >> (j + 1); };
    if ((taken(to) - taken(from)) & 1) change ^= directions[j];
  }
  return change;
}

template <class T>
struct SobolBody {
  T* out;
  const int64_t *state, *directions;
  int64_t dimensions, done;
  int bits;
  __device__ void operator()(int64_t e) const {
    using Real = ComputeType<T>;
    const int64_t point = e / dimensions, d = e % dimensions;
    const int64_t at = state[d] ^ sobol_change(directions + d * bits, bits, done, done + point + 1);
    out[e] = static_cast<T>(static_cast<Real>(at) * Real(0x1p-30));
  }
};

struct SobolState {
  int64_t* state;
  const int64_t* directions;
  int64_t points, done;
  int bits;
  __device__ void operator()(int64_t d) const {
    state[d] ^= sobol_change(directions + d * bits, bits, done, done + points);
  }
};

void sobol_draw_kernel(const Tensor& out, const Tensor& quasi, const Tensor& directions,
                       int64_t done) {
  const int64_t points = out.size(0), dimensions = out.size(1);
  const int bits = static_cast<int>(directions.size(1));
  dispatch<dtypes::Floating>("_sobol_engine_draw", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element("_sobol_engine_draw", out,
                     SobolBody<T>{out.data<T>(), quasi.data<int64_t>(), directions.data<int64_t>(),
                                  dimensions, done, bits});
  });
  for_each_element(
      "_sobol_engine_draw", quasi,
      SobolState{quasi.data<int64_t>(), directions.data<int64_t>(), points, done, bits});
}
KERNEL_FOR(sobol_draw, sobol_draw_kernel)

}  // namespace
}  // namespace flambeau::cuda
