// CPU kernels of random draws whose number of words is not known beforehand, or which depend on one
// another or on an input: permutations, Poisson samples, coins of given bias, samples from a table
// of weights. They are bound by latency, not by arithmetic, and this file is compiled without fused
// multiply-adds, whose rounding would change some of PyTorch's draws.
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flambeau/base/parallel.h"
#include "flambeau/cpu/ordered_rows.h"
#include "flambeau/cpu/random_words.h"
#include "flambeau/kernels/random.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::cpu {
namespace {

constexpr DTypeSet integers = dtypes::Signed | DType::uint8;

CpuGenerator& cpu(Generator& generator) { return static_cast<CpuGenerator&>(generator); }

// Calls body(out_element, in_element) for every pair, in the order of memory of `out`.
template <class Out, class In, class Body>
void for_each_pair(const char* op, const Tensor& out, const Tensor& input, const Body& body) {
  Tensor target = out;
  const DType dtype = out.dtype();
  const Operand inputs[] = {input};
  TensorIter iter;
  iter.build({op}, &target, &dtype, 1, inputs, 1, dtype);
  for_each_row_in_order(iter, [&](char** data, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      body(*reinterpret_cast<Out*>(data[0] + i * iter.strides[0][0]),
           *reinterpret_cast<const In*>(data[1] + i * iter.strides[1][0]));
    }
  });
}

// --- Coins ---------------------------------------------------------------------------------------

// A probability in double is met by a double draw, any other by a float draw.
template <class P>
bool toss(CpuGenerator& generator, P p) {
  CHECK(p >= 0 && p <= 1, RuntimeError,
        "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got false. "
        "A probability is {}.",
        static_cast<double>(p));
  if constexpr (std::is_same_v<P, double>) {
    return next_unit_double(generator) < p;
  } else {
    return unit_float(generator.next_uint32()) < static_cast<float>(p);
  }
}

void bernoulli_each_kernel(const Tensor& out, const Tensor& p, Generator& generator) {
  constexpr DTypeSet set = integers | dtypes::Floating | DType::bool_;
  dispatch<set>("bernoulli_tensor_cpu_self_", out.dtype(), [&](auto out_tag) {
    using T = typename decltype(out_tag)::type;
    dispatch<dtypes::Floating>("bernoulli_tensor_cpu_p_", p.dtype(), [&](auto p_tag) {
      using P = typename decltype(p_tag)::type;
      for_each_pair<T, P>("bernoulli_", out, p, [&](T& element, P probability) {
        element = static_cast<T>(toss(cpu(generator), static_cast<ComputeType<P>>(probability)));
      });
    });
  });
}

// --- Permutations --------------------------------------------------------------------------------

// From this length on a permutation takes 64 bits for each position, so that the remainder stays
// nearly unbiased.
constexpr int64_t long_permutation = 214748364;  // (2^32 - 1) / 20

// A random permutation of 0 .. count - 1 by Fisher and Yates's method: a short one is shuffled from
// the front, a long one grown element by element ("inside out").
template <class T>
void permute(CpuGenerator& generator, Run<T> run) {
  const auto at = [&](uint64_t i) -> T& { return run.data[static_cast<int64_t>(i) * run.stride]; };
  const uint64_t count = static_cast<uint64_t>(run.count);
  if (run.count >= long_permutation) {
    for (uint64_t i = 0; i < count; ++i) {
      at(i) = static_cast<T>(i);
      std::swap(at(i), at(generator.next_uint64() % (i + 1)));
    }
    return;
  }
  for (uint64_t i = 0; i < count; ++i) at(i) = static_cast<T>(i);
  for (uint64_t i = 0; i + 1 < count; ++i) {
    std::swap(at(i), at(i + generator.next_uint32() % static_cast<uint32_t>(count - i)));
  }
}

void permutation_kernel(const Tensor& out, Generator& generator) {
  dispatch<integers | dtypes::Floating>("randperm", out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    permute(cpu(generator), Run<T>{out.data<T>(), out.stride(0), out.numel()});
  });
}

// --- Poisson samples -----------------------------------------------------------------------------

// Small rates multiply uniform numbers until the product falls below exp(-rate); large ones use
// Hoermann's transformed rejection with squeeze (PTRS, 1993).
double next_poisson(CpuGenerator& generator, double rate) {
  CHECK(rate >= 0, RuntimeError,
        "poisson: invalid Poisson rate, expected rate to be non-negative, but got {}", rate);
  if (rate == 0.0) return 0.0;
  if (rate < 10.0) {
    const double limit = std::exp(-rate);
    double product = next_unit_double(generator);
    double count = 0.0;
    for (; product > limit; product *= next_unit_double(generator)) count += 1.0;
    return count;
  }
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double squeeze = 0.9277 - 3.6224 / (b - 2.0);
  for (;;) {
    const double u = next_unit_double(generator) - 0.5;
    const double v = next_unit_double(generator);
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2.0 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0.0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - std::lgamma(k + 1.0)) {
      return k;
    }
  }
}

void poisson_kernel(const Tensor& out, const Tensor& rate, Generator& generator) {
  dispatch<dtypes::Floating>("poisson_cpu", rate.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_pair<T, T>("poisson", out, rate, [&](T& element, T r) {
      element = static_cast<T>(next_poisson(cpu(generator), static_cast<double>(r)));
    });
  });
}

// --- Samples from a table of weights -------------------------------------------------------------

// The cumulative sums of the weights over their sum, the last one exactly 1.
template <class T, class Real>
void accumulate(const T* weights, std::vector<Real>& cumulative) {
  Real sum = 0;
  for (size_t i = 0; i < cumulative.size(); ++i) {
    const Real weight = static_cast<Real>(weights[i]);
    CHECK(weight >= 0, RuntimeError,
          "multinomial: invalid multinomial distribution (encountering probability entry < 0)");
    CHECK(
        std::isfinite(weight), RuntimeError,
        "multinomial: invalid multinomial distribution (encountering probability entry = infinity "
        "or NaN)");
    cumulative[i] = sum += weight;
  }
  CHECK(sum > 0, RuntimeError,
        "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
  for (Real& value : cumulative) value /= sum;
  cumulative.back() = 1;
}

void check_weights_kernel(const Tensor& weights) {
  dispatch<dtypes::Floating>("multinomial", weights.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t categories = weights.size(-1);
    const T* row = weights.data<T>();
    bool usable = true, every_row = true;
    for (const T* end = row + weights.numel(); row < end; row += categories) {
      bool any = false;
      for (int64_t i = 0; i < categories; ++i) {
        const auto weight = static_cast<ComputeType<T>>(row[i]);
        usable &= weight >= 0 && std::isfinite(weight);
        any |= weight > 0;
      }
      every_row &= any;
    }
    CHECK(usable, RuntimeError,
          "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
    CHECK(every_row, RuntimeError,
          "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
  });
}

// The first index whose cumulative sum reaches a uniform draw.
template <class Real>
int64_t index_of(double u, std::span<const Real> cumulative) {
  int64_t low = 0, high = static_cast<int64_t>(cumulative.size()) - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<double>(cumulative[static_cast<size_t>(middle)]) < u) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

void multinomial_kernel(const Tensor& out, const Tensor& weights, Generator& generator) {
  dispatch<dtypes::Floating>("multinomial", weights.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Real = ComputeType<T>;
    const int64_t categories = weights.size(-1), samples = out.size(-1);
    const int64_t rows = out.numel() / samples;
    const Tensor draws = make_tensor(out.numel(), DType::float64, Device{});
    double* const u = draws.data<double>();
    for (int64_t i = 0; i < out.numel(); ++i) u[i] = next_unit_double(cpu(generator));
    parallel_for(0, rows, default_grain / 4 / (categories + 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   std::vector<Real> cumulative(static_cast<size_t>(categories));
                   for (int64_t row = begin; row < end; ++row) {
                     accumulate(weights.data<T>() + row * categories, cumulative);
                     int64_t* indices = out.data<int64_t>() + row * samples;
                     for (int64_t i = 0; i < samples; ++i) {
                       indices[i] = index_of<Real>(u[row * samples + i], cumulative);
                     }
                   }
                 });
  });
}

const bool filled = [] {
  kernels::bernoulli_each.fill(DeviceType::cpu, bernoulli_each_kernel);
  kernels::permutation.fill(DeviceType::cpu, permutation_kernel);
  kernels::poisson.fill(DeviceType::cpu, poisson_kernel);
  kernels::check_weights.fill(DeviceType::cpu, check_weights_kernel);
  kernels::multinomial.fill(DeviceType::cpu, multinomial_kernel);
  return true;
}();

}  // namespace
}  // namespace flambeau::cpu
