// Random draws whose number of words is not known beforehand, or which depend on one another:
// permutations, Poisson samples, and samples from a table of weights. The words they take and the
// values they give are PyTorch's. They are bound by latency, not by arithmetic, and are compiled
// without fused multiply-adds, whose rounding would change some draws.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "flambeau/cpu/random_fill.h"

namespace flambeau::random {

// From this length on a permutation takes 64 bits for each position, so that the remainder stays
// nearly unbiased.
inline constexpr int64_t kLongPermutation = 214748364;  // (2^32 - 1) / 20

// A random permutation of 0 .. count - 1 by Fisher and Yates's method: a short one is shuffled from
// the front, a long one grown element by element ("inside out").
template <class T>
void fill_permutation(CpuGenerator& generator, Run<T> run) {
  auto at = [&](uint64_t i) -> T& { return run.data[static_cast<int64_t>(i) * run.stride]; };
  uint64_t count = static_cast<uint64_t>(run.count);
  if (run.count >= kLongPermutation) {
    for (uint64_t i = 0; i < count; ++i) {
      at(i) = static_cast<T>(i);
      std::swap(at(i), at(generator.next_uint64() % (i + 1)));
    }
    return;
  }
  for (uint64_t i = 0; i < count; ++i) at(i) = static_cast<T>(i);
  for (uint64_t i = 0; i + 1 < count; ++i)
    std::swap(at(i), at(i + generator.next_uint32() % static_cast<uint32_t>(count - i)));
}

// A Poisson sample. Small rates multiply uniform numbers until the product falls below exp(-rate);
// large ones use Hoermann's transformed rejection with squeeze (PTRS, 1993).
inline double next_poisson(CpuGenerator& generator, double rate) {
  if (rate == 0.0) return 0.0;
  if (rate < 10.0) {
    double limit = std::exp(-rate);
    double product = next_unit_double(generator);
    double count = 0.0;
    for (; product > limit; product *= next_unit_double(generator)) count += 1.0;
    return count;
  }
  double log_rate = std::log(rate);
  double b = 0.931 + 2.53 * std::sqrt(rate);
  double a = -0.059 + 0.02483 * b;
  double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  double squeeze = 0.9277 - 3.6224 / (b - 2.0);
  for (;;) {
    double u = next_unit_double(generator) - 0.5;
    double v = next_unit_double(generator);
    double us = 0.5 - std::fabs(u);
    double k = std::floor((2.0 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0.0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - std::lgamma(k + 1.0))
      return k;
  }
}

// The index of a draw from the distribution whose cumulative sums, ending in 1, are given.
template <class Real>
int64_t next_index(CpuGenerator& generator, std::span<const Real> cumulative) {
  double u = next_unit_double(generator);
  int64_t low = 0, high = static_cast<int64_t>(cumulative.size()) - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (static_cast<double>(cumulative[static_cast<size_t>(middle)]) < u)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace flambeau::random
