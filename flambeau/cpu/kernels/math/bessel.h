// Bessel and Airy functions of registers of doubles, after kernels/special_math.h, whose tables
// they share; it also has what they are at zero, at infinity and where they are not defined. With
// `single`, the results are good for single precision.
#pragma once

#include "flambeau/cpu/kernels/simd/doubles.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

namespace tables = math::tables;

constexpr double infinite = std::numeric_limits<double>::infinity();

// --- Modified ones -----------------------------------------------------------------------------

// e**-x times I0 or I1 of x >= 0; `factor` is what the series below 8 lacks.
template <bool single, const auto& low, const auto& high>
[[gnu::always_inline]] inline Doubles scaled_bessel(Doubles x, Doubles factor) {
  const Longs is_low = x <= 8.0;
  Doubles y = {};
  if (anywhere(is_low)) y = chebyshev_at<single, low>(at_most(x, 8) * 0.25 - 1.0) * factor;
  if (everywhere(is_low)) return y;
  const Doubles end = at_least(x, 8);
  const Doubles far = chebyshev_at<single, high>(16.0 / end - 1.0) / sqrt_of_lanes(end);
  return is_low ? y : far;
}
template <bool single>
Doubles i0e_of(Doubles x) {
  return scaled_bessel<single, tables::i0_low, tables::i0_high>(magnitude(x), doubles(1));
}
template <bool single>
Doubles i1e_of(Doubles x) {
  const Doubles size = magnitude(x);
  return with_sign_of(x, scaled_bessel<single, tables::i1_low, tables::i1_high>(size, size));
}
// y e**|x|, in two steps where e**|x| alone overflows and the product may not.
inline Doubles times_exp_of_size(Doubles y, Doubles x) {
  const Doubles size = magnitude(x), first = at_most(size, 700);
  const Doubles product = y * exp_of_lanes(first);
  return everywhere(size <= 700.0) ? product : product * exp_of_lanes(size - first);
}
template <bool single>
Doubles i0_of(Doubles x) {
  return times_exp_of_size(i0e_of<single>(x), x);
}
template <bool single>
Doubles i1_of(Doubles x) {
  return times_exp_of_size(i1e_of<single>(x), x);
}

// K0 and K1, and the same times e**x.
template <bool single, int order, bool scaled>
[[gnu::always_inline]] inline Doubles k_at(Doubles value, double (*any)(double)) {
  const Longs usual = (value > 0.0) & (value < infinite);
  const Doubles x = usual ? value : doubles(1);
  const Longs is_low = x <= 2.0;
  Doubles y = {};
  if (anywhere(is_low)) {
    const Doubles t = at_most(x * x, 4) * 0.5 - 1.0, log = log_of_lanes(x * 0.5);
    if constexpr (order == 0) {
      y = chebyshev_at<single, tables::k0_low>(t) - log * chebyshev_at<single, tables::i0_near>(t);
    } else {
      y = chebyshev_at<single, tables::k1_low>(t) / x +
          log * (x * chebyshev_at<single, tables::i1_near>(t));
    }
    if constexpr (scaled) y *= exp_of_lanes(at_most(x, 2));
  }
  if (!everywhere(is_low)) {
    const Doubles t = 4.0 / at_least(x, 2) - 1.0;
    Doubles far = (order == 0 ? chebyshev_at<single, tables::k0_high>(t)
                              : chebyshev_at<single, tables::k1_high>(t)) /
                  sqrt_of_lanes(x);
    if constexpr (!scaled) far *= exp_of_lanes(-x);
    y = is_low ? y : far;
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, value, any);
}
template <bool single>
Doubles k0_of(Doubles x) {
  return k_at<single, 0, false>(x, math::k0_of);
}
template <bool single>
Doubles k1_of(Doubles x) {
  return k_at<single, 1, false>(x, math::k1_of);
}
template <bool single>
Doubles k0e_of(Doubles x) {
  return k_at<single, 0, true>(x, math::k0e_of);
}
template <bool single>
Doubles k1e_of(Doubles x) {
  return k_at<single, 1, true>(x, math::k1e_of);
}

// --- J and Y -----------------------------------------------------------------------------------

// Up to 7 by series in x**2, from which the zeros below are taken out; above by the modulus and the
// phase, which are series in (7 / x)**2.
constexpr double bessel_middle = 7;
struct BesselZero {
  double first, rest;
};
constexpr BesselZero j0_zeros[] = {{2.404825557695773, -1.176691651530894e-16},
                                   {5.520078110286311, 8.088597146146722e-17}};
constexpr BesselZero j1_zeros[] = {{3.8317059702075125, -1.5269184090088067e-16},
                                   {7.015586669815619, -9.414165653410389e-17}};

// J of |x| <= 7 that x is the size of; J1 without its factor x.
template <bool single, const auto& table>
[[gnu::always_inline]] inline Doubles j_near(Doubles x, const BesselZero (&zeros)[2]) {
  const Doubles square = x * x;
  Doubles y = chebyshev_at<single, table>(square * (2 / (bessel_middle * bessel_middle)) - 1.0);
  for (const BesselZero zero : zeros) y *= ((x - zero.first) - zero.rest) * (x + zero.first);
  return y;
}
// Which of the two functions, in terms of the sum and the difference of sine and cosine.
template <bool single, int order, bool second>
[[gnu::always_inline]] inline Doubles bessel_far(Doubles x) {
  const Doubles ratio = bessel_middle / x, t = ratio * ratio * 2.0 - 1.0;
  const Doubles sine = sin_of_lanes(x), cosine = cos_of_lanes(x);
  const Doubles sum = sine + cosine, difference = sine - cosine;
  // cos and sin of x - pi / 4, or of x - 3 pi / 4, times the root of two.
  const Doubles c = order == 0 ? sum : difference, s = order == 0 ? difference : -sum;
  const Doubles p = order == 0 ? chebyshev_at<single, tables::bessel_p0>(t)
                               : chebyshev_at<single, tables::bessel_p1>(t);
  const Doubles q = ratio * (order == 0 ? chebyshev_at<single, tables::bessel_q0>(t)
                                        : chebyshev_at<single, tables::bessel_q1>(t));
  const Doubles wave = second ? p * s + q * c : p * c - q * s;
  return wave / sqrt_of_lanes(x * math::special_pi);
}
template <bool single, int order>
[[gnu::always_inline]] inline Doubles j_at(Doubles value, double (*any)(double)) {
  const Doubles x = magnitude(value);
  const Longs usual = x < infinite, is_low = x <= bessel_middle;
  Doubles y = {};
  if (anywhere(is_low)) {
    const Doubles bounded = at_most(x, bessel_middle);
    if constexpr (order == 0) {
      y = j_near<single, tables::j0_low>(bounded, j0_zeros);
    } else {
      y = j_near<single, tables::j1_low>(bounded, j1_zeros) * bounded;
    }
  }
  if (!everywhere(is_low)) {
    const Doubles end = at_least(x, bessel_middle);
    const Doubles far = bessel_far<single, order, false>(usual ? end : doubles(bessel_middle));
    y = is_low ? y : far;
  }
  if constexpr (order == 1) y = with_sign_of(value, y);
  return everywhere(usual) ? y : with_rare_lanes(y, usual, value, any);
}
template <bool single, int order>
[[gnu::always_inline]] inline Doubles y_at(Doubles value, double (*any)(double)) {
  const Longs usual = (value > 0.0) & (value < infinite);
  const Doubles x = usual ? value : doubles(1);
  const Longs is_low = x <= bessel_middle;
  Doubles y = {};
  if (anywhere(is_low)) {
    const Doubles bounded = at_most(x, bessel_middle);
    const Doubles t = bounded * bounded * (2 / (bessel_middle * bessel_middle)) - 1.0;
    const Doubles log = log_of_lanes(bounded) * 0.63661977236758134308;
    if constexpr (order == 0) {
      y = chebyshev_at<single, tables::y0_low>(t) +
          log * j_near<single, tables::j0_low>(bounded, j0_zeros);
    } else {
      y = bounded * (chebyshev_at<single, tables::y1_low>(t) +
                     log * j_near<single, tables::j1_low>(bounded, j1_zeros)) -
          0.63661977236758134308 / bounded;
    }
  }
  if (!everywhere(is_low)) {
    const Doubles far = bessel_far<single, order, true>(at_least(x, bessel_middle));
    y = is_low ? y : far;
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, value, any);
}
template <bool single>
Doubles j0_of(Doubles x) {
  return j_at<single, 0>(x, math::j0_of);
}
template <bool single>
Doubles j1_of(Doubles x) {
  return j_at<single, 1>(x, math::j1_of);
}
template <bool single>
Doubles y0_of(Doubles x) {
  return y_at<single, 0>(x, math::y0_of);
}
template <bool single>
Doubles y1_of(Doubles x) {
  return y_at<single, 1>(x, math::y1_of);
}

// --- The spherical one and Airy's ----------------------------------------------------------------

template <bool single>
Doubles spherical_j0_of(Doubles x) {
  constexpr double near[] = {
      1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800};
  const Doubles size = magnitude(x), y = polynomial_at(near, at_most(x * x, 0.25));
  const Longs is_near = size < 0.5;
  if (everywhere(is_near)) return y;
  const Longs is_finite = size < infinite;
  const Doubles far = sin_of_lanes(is_finite ? x : Doubles{}) / x;  // zero at infinity
  return is_near ? y : far;
}

template <bool single>
Doubles airy_of(Doubles value) {
  const Longs usual = magnitude(value) < infinite;
  const Doubles x = usual ? value : Doubles{};
  const Doubles size = magnitude(x), root = sqrt_of_lanes(size), zeta = size * root * (2.0 / 3);
  const Longs is_large = x > 2.0, is_middle = (x >= 0.0) & (x <= 2.0), is_low = x < -5.0;
  const Longs is_negative = ~is_large & ~is_middle & ~is_low;
  Doubles y = {};
  if (anywhere(is_middle)) {
    y = chebyshev_at<single, tables::airy_middle>(at_most(at_least(x, 0), 2) - 1.0);
  }
  if (anywhere(is_negative)) {
    const Doubles near =
        chebyshev_at<single, tables::airy_negative>(at_most(at_least(x, -5), 0) * 0.4 + 1.0);
    y = is_negative ? near : y;
  }
  if (anywhere(is_large)) {
    const Doubles ratio = 1.8856180831641267 / (is_large ? zeta : doubles(2));
    const Doubles far = chebyshev_at<single, tables::airy_positive>(ratio * 2.0 - 1.0) *
                        exp_of_lanes(-zeta) / sqrt_of_lanes(root);
    y = is_large ? (x > 104.0 ? Doubles{} : far) : y;
  }
  if (anywhere(is_low)) {
    const Doubles ratio = 7.4535599249992990 / (is_low ? zeta : doubles(8));
    const Doubles t = ratio * ratio * 2.0 - 1.0;
    const Doubles p = chebyshev_at<single, tables::airy_p>(t);
    const Doubles q = chebyshev_at<single, tables::airy_q>(t) * ratio;
    const Doubles angle = zeta + math::special_pi / 4;
    const Doubles wave = sin_of_lanes(angle) * p - cos_of_lanes(angle) * q;
    y = is_low ? wave / sqrt_of_lanes(root) : y;
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, value, math::airy_of);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
