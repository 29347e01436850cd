// Samples of gamma and binomial distributions. A Source gives uniform() numbers and normal() ones
// of its type Real, in which the sample is computed: what is drawn in which order, and how it is
// rounded, is part of what a seed means. Uniform numbers are of [0, 1) or of (0, 1].
#pragma once

#include <cmath>
#include <limits>

#include "flambeau/tensor/half.h"

namespace flambeau::sampling {

// Marsaglia and Tsang's rejection ("A simple method for generating gamma variables", 2000). A shape
// below one is sampled with one more, and the sample scaled down by a power of a uniform number.
// What is made of the shape alone is rounded to T, and the third to a float: so are PyTorch's.
template <class T, class Source>
FLAMBEAU_DEVICE typename Source::Real gamma(Source& source, T shape) {
  using Real = typename Source::Real;
  Real scale = 1;
  if (shape < 1) {
    if (shape == 0) return 0;
    scale = std::pow(1 - source.uniform(), static_cast<Real>(1 / shape));
    shape = static_cast<T>(shape + 1);
  }
  const Real d = static_cast<Real>(shape - 1.0f / 3.0f);
  const Real c = 1 / std::sqrt(9 * d);
  if (!std::isfinite(c)) return std::numeric_limits<Real>::quiet_NaN();
  for (;;) {
    Real x = 0, y = 0;
    do {
      x = source.normal();
      y = 1 + c * x;
    } while (y <= 0);
    const Real v = y * y * y;
    const Real u = 1 - source.uniform();
    const Real square = x * x;
    if (u < 1 - Real(0.0331) * square * square) return scale * d * v;
    if (std::log(u) < Real(0.5) * square + d * (1 - v + std::log(v))) return scale * d * v;
  }
}

// The least normal number of a type, and the step from one to the next.
template <class T>
struct Limits : std::numeric_limits<T> {};
template <>
struct Limits<Half> {
  static constexpr FLAMBEAU_DEVICE float min() { return 0x1p-14f; }
  static constexpr FLAMBEAU_DEVICE float epsilon() { return 0x1p-10f; }
};
template <>
struct Limits<BFloat16> {
  static constexpr FLAMBEAU_DEVICE float min() { return 0x1p-126f; }
  static constexpr FLAMBEAU_DEVICE float epsilon() { return 0x1p-7f; }
};

// No sample is zero: its logarithm is asked for.
template <class T>
FLAMBEAU_DEVICE T at_least_tiny(double value) {
  const T sample = static_cast<T>(value);
  return sample > Limits<T>::min() ? sample : T(Limits<T>::min());
}

// A part of a Dirichlet sample: a gamma sample over the sum of all, kept between the least normal
// number and the last before one.
template <class T>
FLAMBEAU_DEVICE T share_of(double sample, double sum) {
  constexpr auto least = Limits<T>::min(), most = 1 - Limits<T>::epsilon() / 2;
  const T share = static_cast<T>(sample / sum);
  return share < least ? T(least) : share > most ? T(most) : share;
}

// The successes that fit into `count` trials when the trials up to each are geometric.
template <class Source, class Real = typename Source::Real>
FLAMBEAU_DEVICE Real count_successes(Source& source, Real count, Real p) {
  Real successes = 0;
  Real trials = 0;
  const Real log_failure = std::log1p(-p);
  for (;;) {
    const Real u = source.uniform();
    trials += std::ceil(std::log(u) / log_failure);
    if (!(trials <= count)) return successes;
    successes += 1;
  }
}

// log(k!) less Stirling's formula.
template <class Real>
FLAMBEAU_DEVICE Real stirling_rest(Real k) {
  constexpr Real table[] = {0.0810614667953272, 0.0413406959554093, 0.0276779256849983,
                            0.0207906721037651, 0.0166446911898212, 0.0138761288230707,
                            0.0118967099458917, 0.0104112652619720, 0.0092554621827127,
                            0.0083305634333631};
  if (k <= 9) return table[static_cast<int>(k)];
  const Real square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// Hoermann's transformed rejection (BTRS, "The generation of binomial random variates", 1993), for
// p <= 1/2 and count * p >= 10. What is made of these two alone is rounded to their type T, as
// PyTorch rounds it.
template <class T, class Source, class Real = typename Source::Real>
FLAMBEAU_DEVICE Real reject_binomial(Source& source, Real count, Real p) {
  const auto rounded = [](Real x) { return static_cast<Real>(static_cast<T>(x)); };
  const Real mean = rounded(count * p), failure = rounded(1 - p), more = rounded(count + 1);
  const Real deviation = std::sqrt(rounded(mean * failure));
  const Real b = 1.15 + 2.53 * deviation;
  const Real a = -0.0873 + 0.0248 * b + 0.01 * p;
  const Real c = mean + 0.5;
  const Real squeeze = 0.92 - 4.2 / b;
  const Real odds = rounded(p / failure);
  const Real alpha = (2.83 + 5.1 / b) * deviation;
  const Real m = std::floor(rounded(more * p));
  for (;;) {
    const Real u = source.uniform() - 0.5;
    Real v = source.uniform();
    const Real us = 0.5 - std::abs(u);
    const Real k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= squeeze) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const Real bound = (m + 0.5) * std::log((m + 1) / (odds * (count - m + 1))) +
                       more * std::log((count - m + 1) / (count - k + 1)) +
                       (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                       stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
    if (v <= bound) return k;
  }
}

template <class T, class Source, class Real = typename Source::Real>
FLAMBEAU_DEVICE Real binomial(Source& source, T trials, T probability) {
  const Real count = static_cast<Real>(trials), p = static_cast<Real>(probability);
  if (std::isnan(count) || std::isnan(p)) return std::numeric_limits<Real>::quiet_NaN();
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  const bool mirrored = p > 0.5;  // failures are counted where they are fewer
  const Real rare = mirrored ? 1 - p : p;
  const Real found = count * rare >= 10 ? reject_binomial<T>(source, count, rare)
                                        : count_successes(source, count, rare);
  return mirrored ? count - found : found;
}

}  // namespace flambeau::sampling
