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
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {
namespace {

constexpr DTypeSet sampled = DTypeSet{} | DType::float32 | DType::float64;

CpuGenerator& cpu(Generator& generator) { return static_cast<CpuGenerator&>(generator); }

// A standard normal sample by Box and Muller's method; its twin waits in the generator.
double next_standard_normal(CpuGenerator& generator) {
  if (auto& waiting = generator.next_normal()) {
    const double value = *waiting;
    waiting.reset();
    return value;
  }
  const double angle = 2.0 * std::numbers::pi * next_unit_double(generator);
  const double radius = std::sqrt(-2.0 * std::log1p(-next_unit_double(generator)));
  generator.next_normal() = radius * std::sin(angle);
  return radius * std::cos(angle);
}

// --- Gamma samples -------------------------------------------------------------------------------

// Marsaglia and Tsang's rejection ("A simple method for generating gamma variables", 2000). A shape
// below one is sampled with one more, and the sample scaled down by a power of a uniform number.
// What is made of the shape alone is rounded to T, and the third to a float: so are PyTorch's.
template <class T>
double next_gamma(CpuGenerator& generator, T shape) {
  double scale = 1.0;
  if (shape < 1) {
    if (shape == 0) return 0.0;
    scale = std::pow(1.0 - next_unit_double(generator), static_cast<double>(1 / shape));
    shape += 1;
  }
  const double d = static_cast<double>(shape - static_cast<T>(1.0f / 3.0f));
  const double c = 1.0 / std::sqrt(9.0 * d);
  if (!std::isfinite(c)) return std::numeric_limits<double>::quiet_NaN();
  for (;;) {
    double x = 0, y = 0;
    do {
      x = next_standard_normal(generator);
      y = 1.0 + c * x;
    } while (y <= 0);
    const double v = y * y * y;
    const double u = 1.0 - next_unit_double(generator);
    const double square = x * x;
    if (u < 1.0 - 0.0331 * square * square) return scale * d * v;
    if (std::log(u) < 0.5 * square + d * (1.0 - v + std::log(v))) return scale * d * v;
  }
}

// No sample is zero: its logarithm is asked for.
template <class T>
T at_least_tiny(double value) {
  const T sample = static_cast<T>(value);
  constexpr T tiny = std::numeric_limits<T>::min();
  return sample > tiny ? sample : tiny;
}

void standard_gamma_kernel(const Tensor& out, const Tensor& shape, Generator& generator) {
  dispatch<sampled>("gamma_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* samples = out.data<T>();
    const T* shapes = shape.data<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      samples[i] = at_least_tiny<T>(next_gamma(cpu(generator), shapes[i]));
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

// Gamma samples over their sum, kept between the least normal number and the last before one. They
// stay doubles until then: of tiny concentrations all samples of a row may vanish in float.
template <class T>
void dirichlet_row(CpuGenerator& generator, T* row, const T* concentration, int64_t count,
                   double* samples) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double shape = static_cast<double>(concentration[i]);
    samples[i] = at_least_tiny<double>(next_gamma(generator, shape));
    sum += samples[i];
  }
  constexpr T least = std::numeric_limits<T>::min();
  constexpr T most = T(1) - std::numeric_limits<T>::epsilon() / 2;
  for (int64_t i = 0; i < count; ++i) {
    row[i] = std::clamp(static_cast<T>(samples[i] / sum), least, most);
  }
}

void dirichlet_kernel(const Tensor& out, const Tensor& concentration, Generator& generator) {
  dispatch<sampled>("dirichlet", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t count = out.dim() == 0 ? 1 : out.size(-1);
    std::vector<double> samples(static_cast<size_t>(count));
    for (int64_t first = 0; first < out.numel(); first += count) {
      dirichlet_row(cpu(generator), out.data<T>() + first, concentration.data<T>() + first, count,
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

// --- Binomial samples, computed in double for every dtype
// -----------------------------------------

// The successes that fit into `count` trials when the trials up to each are geometric.
double count_successes(CpuGenerator& generator, double count, double p) {
  double successes = 0;
  double trials = 0;
  const double log_failure = std::log1p(-p);
  for (;;) {
    const double u = next_unit_double(generator);
    trials += std::ceil(std::log(u) / log_failure);
    if (!(trials <= count)) return successes;
    successes += 1;
  }
}

// log(k!) less Stirling's formula.
double stirling_rest(double k) {
  constexpr double table[] = {0.0810614667953272, 0.0413406959554093, 0.0276779256849983,
                              0.0207906721037651, 0.0166446911898212, 0.0138761288230707,
                              0.0118967099458917, 0.0104112652619720, 0.0092554621827127,
                              0.0083305634333631};
  if (k <= 9) return table[static_cast<size_t>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// Hoermann's transformed rejection (BTRS, "The generation of binomial random variates", 1993), for
// p <= 1/2 and count * p >= 10.
double reject_binomial(CpuGenerator& generator, double count, double p) {
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = count * p + 0.5;
  const double squeeze = 0.92 - 4.2 / b;
  const double odds = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double m = std::floor((count + 1) * p);
  for (;;) {
    const double u = next_unit_double(generator) - 0.5;
    double v = next_unit_double(generator);
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (odds * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                         stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
    if (v <= bound) return k;
  }
}

double next_binomial(CpuGenerator& generator, double count, double p) {
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<double>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (p > 0.5) return count - next_binomial(generator, count, 1 - p);
  return count * p >= 10 ? reject_binomial(generator, count, p)
                         : count_successes(generator, count, p);
}

void binomial_kernel(const Tensor& out, const Tensor& count, const Tensor& prob,
                     Generator& generator) {
  dispatch<sampled>("binomial_cpu", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* samples = out.data<T>();
    const T *counts = count.data<T>(), *probs = prob.data<T>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      samples[i] = static_cast<T>(next_binomial(cpu(generator), static_cast<double>(counts[i]),
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
