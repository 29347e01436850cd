// CUDA kernels of gamma, Dirichlet and binomial samples, whose parameters are tensors, of the
// derivatives of the first two, and of Sobol sequences. Every element has a stream of its own, so
// that rejections of one do not move the numbers of another; they are not PyTorch's.
#include <cmath>

#include "flambeau/cuda/allocator.h"
#include "flambeau/cuda/philox.cuh"
#include "flambeau/cuda/rows_of.cuh"
#include "flambeau/kernels/implicit_gradients.h"
#include "flambeau/kernels/random.h"
#include "flambeau/kernels/sampling.h"

namespace flambeau::cuda {
namespace {

constexpr DTypeSet sampled = DTypeSet{} | DType::float32 | DType::float64;

// Far more words than a sample takes: streams of later calls do not overlap.
PhiloxState claim_streams(Generator& generator) {
  return static_cast<PhiloxGenerator&>(generator).claim(4096);
}

struct DeviceSource {
  Draws draws;
  __device__ double uniform() { return 1.0 - draws(); }
  __device__ double normal() {
    const double radius = sqrt(-2.0 * log(draws())), turns = 2.0 * draws();
    return radius * cospi(turns);
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
    DeviceSource source{{state, static_cast<uint64_t>(i)}};
    out[i] = sampling::at_least_tiny<T>(sampling::gamma(source, shapes[i]));
  }
};

void standard_gamma_kernel(const Tensor& out, const Tensor& shape, Generator& generator) {
  dispatch<sampled>("gamma_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element("_standard_gamma", out,
                     GammaBody<T>{out.data<T>(), shape.data<T>(), claim_streams(generator)});
  });
}
KERNEL_FOR(standard_gamma, standard_gamma_kernel)

// Doubles, until they have been divided by their sum: of tiny concentrations all samples of a row
// may vanish in float.
template <class T>
struct WideGammaBody {
  double* out;
  const T* shapes;
  PhiloxState state;
  __device__ void operator()(int64_t i) const {
    DeviceSource source{{state, static_cast<uint64_t>(i)}};
    out[i] =
        sampling::at_least_tiny<double>(sampling::gamma(source, static_cast<double>(shapes[i])));
  }
};

template <class T>
__global__ void __launch_bounds__(block_size)
    share_rows(const double* samples, T* out, int64_t rows, int64_t size) {
  const int64_t row = my_row();
  if (row >= rows) return;
  samples += row * size;
  out += row * size;
  Single<double> mine{0};
  for (int64_t i = threadIdx.x; i < size; i += warp) mine.value += samples[i];
  const double sum = fold_row<warp>(mine, AddSingles<double>()).value;
  for (int64_t i = threadIdx.x; i < size; i += warp) {
    out[i] = sampling::share_of<T>(samples[i], sum);
  }
}

void dirichlet_kernel(const Tensor& out, const Tensor& concentration, Generator& generator) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const DeviceGuard guard(device);
  const int64_t size = out.dim() == 0 ? 1 : out.size(-1), rows = out.numel() / size;
  const Workspace samples(out.numel() * sizeof(double), device);
  dispatch<sampled>("dirichlet", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element(
        "_sample_dirichlet", out,
        WideGammaBody<T>{samples.get<double>(), concentration.data<T>(), claim_streams(generator)});
    launch("_sample_dirichlet", share_rows<T>, row_grid<warp>(rows), row_block<warp>(),
           samples.get<double>(), out.data<T>(), rows, size);
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
  dispatch<sampled>("_standard_gamma_grad_cuda", out.dtype(), [&](auto tag) {
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
  dispatch<sampled>("_dirichlet_grad_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element(
        "_dirichlet_grad", out,
        DirichletGradient<T>{out.data<T>(), x.data<T>(), alpha.data<T>(), total.data<T>()});
  });
}
KERNEL_FOR(dirichlet_grad, dirichlet_grad_kernel)

// --- Binomial samples ----------------------------------------------------------------------------

template <class T>
struct BinomialBody {
  T* out;
  const T *counts, *probs;
  PhiloxState state;
  __device__ void operator()(int64_t i) const {
    DeviceSource source{{state, static_cast<uint64_t>(i)}};
    out[i] = static_cast<T>(
        sampling::binomial(source, static_cast<double>(counts[i]), static_cast<double>(probs[i])));
  }
};

void binomial_kernel(const Tensor& out, const Tensor& count, const Tensor& prob,
                     Generator& generator) {
  dispatch<sampled>("binomial_cuda", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_element(
        "binomial", out,
        BinomialBody<T>{out.data<T>(), count.data<T>(), prob.data<T>(), claim_streams(generator)});
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
