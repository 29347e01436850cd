// CPU kernels of gamma, Dirichlet and binomial samples, whose parameters are tensors, and of the
// derivatives of the first two. Like random.cpp, this file is compiled without fused multiply-adds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/random_words.h"
#include "flambeau/kernels/implicit_gradients.h"
#include "flambeau/kernels/random.h"
#include "flambeau/kernels/sampling.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {
namespace {

constexpr DTypeSet sampled = DTypeSet{} | DType::float32 | DType::float64;

// The generator's numbers as samples are made of them.
struct CpuSource {
  using Real = double;
  CpuGenerator& generator;

  double uniform() { return next_unit_double(generator); }
  // A standard normal sample by Box and Muller's method; the second of the pair waits in the
  // generator.
  double normal() {
    if (auto& waiting = generator.next_normal()) {
      const double value = *waiting;
      waiting.reset();
      return value;
    }
    const double angle = 2.0 * std::numbers::pi * uniform();
    const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
    generator.next_normal() = radius * std::sin(angle);
    return radius * std::cos(angle);
  }
};

CpuSource source_of(Generator& generator) { return {static_cast<CpuGenerator&>(generator)}; }

// --- Gamma samples -------------------------------------------------------------------------------

void standard_gamma_kernel(const Tensor& out, const Tensor& shape, Generator& generator) {
  dispatch<sampled>("gamma_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* samples = out.data<T>();
    const T* shapes = shape.data<T>();
    CpuSource source = source_of(generator);
    for (int64_t i = 0; i < out.numel(); ++i) {
      samples[i] = sampling::at_least_tiny<T>(sampling::gamma(source, shapes[i]));
    }
  });
}

// Enough elements for a thread of its own: each takes about a microsecond.
constexpr int64_t gradient_grain = 512;

void standard_gamma_grad_kernel(const Tensor& out, const Tensor& shape, const Tensor& sample) {
  dispatch<sampled>("_standard_gamma_grad_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* result = out.data<T>();
    const T *shapes = shape.data<T>(), *samples = sample.data<T>();
    parallel_for(0, out.numel(), gradient_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        result[i] = static_cast<T>(math::gamma_sample_gradient(static_cast<double>(shapes[i]),
                                                               static_cast<double>(samples[i])));
      }
    });
  });
}

// --- Dirichlet samples ---------------------------------------------------------------------------

// Gamma samples over their sum. They stay doubles until then: of tiny concentrations all samples of
// a row may vanish in float.
template <class T>
void dirichlet_row(CpuSource& source, T* row, const T* concentration, int64_t count,
                   double* samples) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double shape = static_cast<double>(concentration[i]);
    samples[i] = sampling::at_least_tiny<double>(sampling::gamma(source, shape));
    sum += samples[i];
  }
  for (int64_t i = 0; i < count; ++i) row[i] = sampling::share_of<T>(samples[i], sum);
}

void dirichlet_kernel(const Tensor& out, const Tensor& concentration, Generator& generator) {
  dispatch<sampled>("dirichlet", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t count = out.dim() == 0 ? 1 : out.size(-1);
    std::vector<double> samples(static_cast<size_t>(count));
    CpuSource source = source_of(generator);
    for (int64_t first = 0; first < out.numel(); first += count) {
      dirichlet_row(source, out.data<T>() + first, concentration.data<T>() + first, count,
                    samples.data());
    }
  });
}

void dirichlet_grad_kernel(const Tensor& out, const Tensor& x, const Tensor& alpha,
                           const Tensor& total) {
  dispatch<sampled>("_dirichlet_grad_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* result = out.data<T>();
    const T *xs = x.data<T>(), *alphas = alpha.data<T>(), *totals = total.data<T>();
    parallel_for(0, out.numel(), gradient_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        result[i] = static_cast<T>(math::dirichlet_sample_gradient(static_cast<double>(xs[i]),
                                                                   static_cast<double>(alphas[i]),
                                                                   static_cast<double>(totals[i])));
      }
    });
  });
}

// --- Binomial samples, computed in double for every dtype ----------------------------------------

void binomial_kernel(const Tensor& out, const Tensor& count, const Tensor& prob,
                     Generator& generator) {
  dispatch<sampled>("binomial_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* samples = out.data<T>();
    const T *counts = count.data<T>(), *probs = prob.data<T>();
    CpuSource source = source_of(generator);
    for (int64_t i = 0; i < out.numel(); ++i) {
      samples[i] = static_cast<T>(sampling::binomial(source, static_cast<double>(counts[i]),
                                                     static_cast<double>(probs[i])));
    }
  });
}

const bool filled = [] {
  kernels::standard_gamma.fill(DeviceType::cpu, standard_gamma_kernel);
  kernels::standard_gamma_grad.fill(DeviceType::cpu, standard_gamma_grad_kernel);
  kernels::dirichlet.fill(DeviceType::cpu, dirichlet_kernel);
  kernels::dirichlet_grad.fill(DeviceType::cpu, dirichlet_grad_kernel);
  kernels::binomial.fill(DeviceType::cpu, binomial_kernel);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
