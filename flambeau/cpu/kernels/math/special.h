// The gamma functions, the normal distribution and orthogonal polynomials for registers of doubles,
// after kernels/special_math.h, which has the rare cases. With `single`, the results are good for
// single precision.
#pragma once

#include "flambeau/cpu/kernels/math/bessel.h"
#include "flambeau/cpu/kernels/math/special_vector.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// --- The gamma function and its derivatives ------------------------------------------------------

// log(gamma(z)) of 0 < z < 1e300. From 1 to 3 by a series from which both zeros are taken out,
// below it from z + 1, up to 10 by the product of what lies between, above by Stirling's series.
[[gnu::always_inline]] inline Doubles lgamma_of_positive(Doubles z) {
  constexpr double series[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                               1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
  const Longs is_small = z < 1.0, is_large = z >= 10.0;
  Doubles y = {};
  if (!everywhere(is_large)) {
    Doubles product = is_small ? z : doubles(1), rest = is_large ? doubles(2) : z;
    for (Longs above = rest >= 3.0; anywhere(above); above = rest >= 3.0) {
      rest = above ? rest - 1.0 : rest;
      product = above ? product * rest : product;
    }
    // Less two: exactly, also where rest + 1 is meant.
    const Doubles t = is_small ? rest - 1.0 : rest - 2.0;
    const Doubles near = chebyshev_at<false, math::tables::lgamma_middle>(t);
    const Doubles middle = near * t * (is_small ? z : rest - 1.0), log = log_of_lanes(product);
    y = middle + (is_small ? -log : log);
  }
  if (anywhere(is_large)) {
    const Doubles x = at_least(z, 10), inverse = 1.0 / x;
    const Doubles tail = inverse * polynomial_at(series, inverse * inverse);
    const Doubles far = fused(x - 0.5, log_of_lanes(x) - 1.0, 0.41893853320467274178 + tail);
    y = is_large ? far : y;
  }
  return y;
}

template <bool single>
Doubles lgamma_of(Doubles x) {
  const Doubles size = magnitude(x);
  const Doubles rest = x - rint_of_lanes(x);
  const Longs below = x < 0.0;
  Longs usual = (size < 1e300) & (size > 1e-300) & ~(below & (rest == 0.0));
  const Doubles z = usual ? size : doubles(1);
  Doubles y = lgamma_of_positive(z);
  if (anywhere(below)) {
    const Doubles sine = magnitude(sin_pi(below & usual ? rest : doubles(0.5)));
    const Doubles reflected = log_of_lanes(math::special_pi / (z * sine)) - y;
    y = below ? reflected : y;
    usual &= ~(below & (magnitude(y) < 0.125));  // where the difference has lost digits
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, x, math::lgamma_of);
}

// The sum of 1 / x + 1 / (x + 1) + ... up to 10 as one fraction, and the series above.
template <bool single>
Doubles digamma_of(Doubles x) {
  constexpr double series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const Longs below = x < 0.0;
  const Doubles rest = x - rint_of_lanes(x);
  const Longs usual = (magnitude(x) < 1e15) & (x != 0.0) & ~(below & (rest == 0.0));
  Doubles z = usual ? (below ? 1.0 - x : x) : doubles(1);
  Doubles top = {}, bottom = doubles(1);
  for (Longs low = z < 10.0; anywhere(low); low = z < 10.0) {
    top = low ? top * z + bottom : top;
    bottom = low ? bottom * z : bottom;
    z = low ? z + 1.0 : z;
  }
  const Doubles inverse = 1.0 / z, square = inverse * inverse;
  Doubles y =
      log_of_lanes(z) - 0.5 * inverse - square * polynomial_at(series, square) - top / bottom;
  if (anywhere(below)) {
    const Doubles part = below & usual ? rest : doubles(0.5);
    const Doubles reflected = y - math::special_pi * sin_pi(0.5 - magnitude(part)) / sin_pi(part);
    y = below ? reflected : y;
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, x, math::digamma_of);
}

inline Doubles trigamma_of(Doubles x) {
  constexpr double series[] = {1.0 / 6,  -1.0 / 30,       1.0 / 42, -1.0 / 30,
                               5.0 / 66, -691.0 / 2730.0, 7.0 / 6};
  const Longs below = x < 0.5;
  const Longs usual = magnitude(x) < 1e15;
  Doubles z = usual ? (below ? 1.0 - x : x) : doubles(1), sum = {};
  for (Longs low = z < 12.0; anywhere(low); low = z < 12.0) {
    sum = low ? sum + 1.0 / (z * z) : sum;
    z = low ? z + 1.0 : z;
  }
  const Doubles inverse = 1.0 / z, square = inverse * inverse;
  Doubles y = sum + inverse + square * (0.5 + inverse * polynomial_at(series, square));
  if (anywhere(below)) {
    const Doubles sine = sin_pi(below & usual ? x - rint_of_lanes(x) : doubles(0.5));
    y = below ? math::special_pi * math::special_pi / (sine * sine) - y : y;
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, x, math::trigamma_of);
}

// The terms that follow those up to term = a**-s (Euler and Maclaurin).
[[gnu::always_inline]] inline Doubles zeta_tail(Doubles s, Doubles a, Doubles term) {
  constexpr double shares[] = {1.0 / 12.0,
                               -1.0 / 720.0,
                               1.0 / 30240.0,
                               -1.0 / 1209600.0,
                               1.0 / 47900160.0,
                               -1.0 / 1.8924375803183791606e9,
                               1.0 / 7.47242496e10,
                               -1.0 / 2.950130727918164224e12,
                               1.0 / 1.1646782814350067249e14,
                               -1.0 / 4.5979787224074726105e15,
                               1.0 / 1.8152105401943546773e17,
                               -1.0 / 7.1661652561756670113e18};
  const Doubles inverse = 1.0 / a, square = inverse * inverse;
  Doubles sum = term * a / (s - 1.0) - 0.5 * term, factor = s * inverse * term, k = s;
  for (const double share : shares) {
    sum += factor * share;
    factor *= (k + 1.0) * (k + 2.0) * square;
    k += 2.0;
  }
  return sum;
}
inline Doubles zeta_of(Doubles s, Doubles q) {
  const Longs usual = (s > 1.0) & (s < 100.0) & (q > 1e-100) & (q < 1e100);
  const Doubles power = usual ? -s : doubles(-2), begin = usual ? q : doubles(1);
  Doubles sum = {}, a = begin, term = {};
  for (int i = 0; i < 10; ++i, a += 1.0) {
    term = pow_of_lanes(a, power);
    sum += term;
  }
  sum += zeta_tail(-power, a - 1.0, term);
  return everywhere(usual) ? sum : with_rare_lanes(sum, usual, s, q, math::zeta_of);
}

// The same for a whole s, the order of a derivative of digamma and one: by products.
inline Doubles polygamma_of(Doubles x, Doubles order) {
  const double n = order[0];
  const Longs usual = (x > 1e-30) & (x < 1e30) & (order < 10.0);
  const Doubles begin = usual ? x : doubles(1);
  Doubles sum = {}, a = begin, term = {};
  for (int i = 0; i < 10; ++i, a += 1.0) {
    const Doubles inverse = 1.0 / a;
    term = inverse;
    for (double k = 0; k < n && k < 10; ++k) term *= inverse;
    sum += term;
  }
  sum += zeta_tail(order + 1.0, a - 1.0, term);
  double factorial = std::fmod(n, 2) == 0 ? -1 : 1;
  for (double k = 2; k <= n && k < 10; ++k) factorial *= k;
  const Doubles y = sum * factorial;
  const auto any = [](double value, double k) { return math::polygamma_of(k, value); };
  return everywhere(usual) ? y : with_rare_lanes(y, usual, x, order, any);
}

// --- Incomplete gamma functions ------------------------------------------------------------------

[[gnu::always_inline]] inline Doubles log1p_excess_at(Doubles d) {
  constexpr int terms = 24;  // for |d| < 0.2
  Doubles sum = {};
#pragma GCC unroll 32
  for (int k = terms; k >= 2; --k) sum = sum * d + (k % 2 == 0 ? -1.0 / k : 1.0 / k);
  return sum * d * d;
}
[[gnu::always_inline]] inline Doubles gamma_weight_at(Doubles a, Doubles x) {
  constexpr double stirling[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  const Longs is_small = a < 30.0;
  const Doubles log_x = log_of_lanes(x);
  Doubles y = {};
  if (anywhere(is_small)) {
    y = exp_of_lanes(a * log_x - x - lgamma_of_positive(at_most(a, 30) + 1.0));
    if (everywhere(is_small)) return y;
  }
  const Doubles large = at_least(a, 30), d = (x - large) / large;
  const Longs is_near = magnitude(d) < 0.2;
  const Doubles far = log_of_lanes(x / large) - d;
  const Doubles excess = is_near ? log1p_excess_at(is_near ? d : Doubles{}) : far;
  const Doubles tail = polynomial_at(stirling, 1.0 / (large * large)) / large;
  const Doubles wide =
      exp_of_lanes(large * excess - tail) / sqrt_of_lanes(large * (2 * math::special_pi));
  return is_small ? y : wide;
}

// In lanes where `wanted`, until all of those have as many digits as are asked for.
template <bool single>
[[gnu::always_inline]] inline Doubles gamma_series_at(Doubles a, Doubles x, Longs wanted) {
  const Doubles step = wanted ? x : Doubles{};
  Doubles sum = doubles(1), term = doubles(1), r = a;
  for (int k = 0; k < 40000; ++k) {
    r += 1.0;
    term *= step / r;
    sum += term;
    if (!anywhere(term >= (single ? 1e-10 : 1e-17) * sum)) break;
  }
  return sum;
}
template <bool single>
[[gnu::always_inline]] inline Doubles gamma_fraction_at(Doubles a, Doubles x, Longs wanted) {
  constexpr double tiny = 1e-300;
  const Doubles from = wanted ? a : doubles(1);
  Doubles b = (wanted ? x : doubles(3)) + 1.0 - from, c = doubles(1 / tiny), d = 1.0 / b, h = d;
  for (int k = 1; k < 40000; ++k) {
    const Doubles an = -static_cast<double>(k) * (static_cast<double>(k) - from);
    b += 2.0;
    d = an * d + b;
    c = b + an / c;
    d = 1.0 / (magnitude(d) < tiny ? doubles(tiny) : d);
    c = magnitude(c) < tiny ? doubles(tiny) : c;
    const Doubles step = d * c;
    h *= step;
    if (!anywhere(magnitude(step - 1.0) >= (single ? 1e-10 : 1e-16))) break;
  }
  return h * from;
}
// The upper one of small numbers, where one less the lower one would cancel:
// 1 - x**a / gamma(1 + a) - ..., summed apart.
template <bool single>
[[gnu::always_inline]] inline Doubles gamma_of_small(Doubles a, Doubles x) {
  Doubles sum = {}, term = doubles(1);
  for (int k = 1; k < 30; ++k) {
    term *= x * (-1.0 / k);
    const Doubles next = term / (a + static_cast<double>(k));
    sum += next;
    if (!anywhere(magnitude(next) > (single ? 1e-10 : 1e-17) * magnitude(sum))) break;
  }
  const Doubles power = a * log_of_lanes(x) - lgamma_of_positive(a + 1.0);
  return -expm1_of_lanes(power) - exp_of_lanes(power) * a * sum;
}
template <bool single, bool upper>
Doubles gammainc_of(Doubles a, Doubles x) {
  const Longs usual = (a > 0.0) & (x > 0.0) & (a < 1e7) & (x < infinite);
  const Doubles p = usual ? a : doubles(1), q = usual ? x : doubles(1);
  const Longs is_low = q <= p + 1.0;
  const Longs is_small = is_low & (q < 1.1) & (p < 0.5);
  const Doubles weight = gamma_weight_at(p, q);
  Doubles y = {};
  if (anywhere(is_low & usual)) {
    const Doubles lower = gamma_series_at<single>(p, q, is_low) * weight;
    y = upper ? 1.0 - lower : lower;
  }
  if (!everywhere(is_low)) {
    const Doubles above = gamma_fraction_at<single>(p, q, ~is_low) * weight;
    y = is_low ? y : (upper ? above : 1.0 - above);
  }
  if (upper && anywhere(is_small)) {
    const Doubles few = gamma_of_small<single>(is_small ? p : doubles(0.25), at_most(q, 1.1));
    y = is_small ? few : y;
  }
  const auto any = [](double b, double c) { return math::gammainc_of(b, c, upper); };
  return everywhere(usual) ? y : with_rare_lanes(y, usual, a, x, any);
}

// --- The normal distribution ---------------------------------------------------------------------

// Where q is far from zero, by the root of the logarithm of the tail.
inline Doubles normal_quantile_at(Doubles q, Doubles tail) {
  using namespace math::quantile;
  const Longs is_near = magnitude(q) <= 0.425;
  Doubles y = {};
  if (anywhere(is_near)) {
    const Doubles r = 0.180625 - q * q;
    y = q * polynomial_at(a, r) / polynomial_at(b, r);
    if (everywhere(is_near)) return y;
  }
  const Doubles r = sqrt_of_lanes(-log_of_lanes(is_near ? doubles(0.05) : tail));
  const Longs is_middle = r <= 5.0;
  Doubles size = polynomial_at(c, r - 1.6) / polynomial_at(d, r - 1.6);
  if (!everywhere(is_middle)) {
    const Doubles far = polynomial_at(e, r - 5.0) / polynomial_at(f, r - 5.0);
    size = is_middle ? size : far;
  }
  return is_near ? y : with_sign_of(q, size);
}
template <bool single>
Doubles ndtri_of(Doubles p) {
  const Longs usual = (p > 0.0) & (p < 1.0);
  const Doubles inner = usual ? p : doubles(0.5);
  const Doubles y = normal_quantile_at(inner - 0.5, inner < 0.5 ? inner : 1.0 - inner);
  return everywhere(usual) ? y : with_rare_lanes(y, usual, p, math::ndtri_of);
}
template <bool single>
Doubles erfinv_of(Doubles x) {
  const Longs usual = magnitude(x) < 1.0;
  const Doubles inner = usual ? x : Doubles{};
  const Doubles y = normal_quantile_at(inner * 0.5, (1.0 - magnitude(inner)) * 0.5);
  return everywhere(usual) ? y * 0.70710678118654752440
                           : with_rare_lanes(y * 0.70710678118654752440, usual, x, math::erfinv_of);
}
template <bool single>
Doubles ndtr_of(Doubles x) {
  return 0.5 * erfc_of_lanes(x * -0.70710678118654752440);
}

template <bool single>
Doubles erfcx_of(Doubles x) {
  const Longs usual = x >= -26.0, is_near = x < 12.0;
  Doubles y = {};
  if (anywhere(is_near)) {
    const Doubles inner = at_most(usual ? x : Doubles{}, 12), square = inner * inner;
    const Doubles rest = fused(inner, inner, -square), power = exp_of_lanes(square);
    y = (power + power * rest) * erfc_of_lanes(inner);
  }
  if (!everywhere(is_near)) {
    const Doubles end = at_least(x, 12), z = 0.5 / (end * end);
    Doubles sum = doubles(1);
#pragma GCC unroll 16
    for (int k = 11; k > 0; --k) sum = 1.0 - sum * z * (2.0 * k - 1);
    y = is_near ? y : sum / (end * 1.77245385090551602730);
  }
  return everywhere(usual) ? y : with_rare_lanes(y, usual, x, math::erfcx_of);
}
template <bool single>
Doubles log_ndtr_of(Doubles x) {
  const Doubles t = x * 0.70710678118654752440;
  const Longs is_low = x < -1.0;
  Doubles y = {};
  if (!everywhere(is_low)) y = log1p_of_lanes(erfc_of_lanes(at_least(t, -0.8)) * -0.5);
  if (anywhere(is_low)) {
    const Doubles low = log_of_lanes(erfcx_of<single>(is_low ? -t : doubles(1)) * 0.5) - t * t;
    y = is_low ? low : y;
  }
  return y;
}
template <bool single>
Doubles entr_of(Doubles x) {
  const Longs inner = x > 0.0;
  const Doubles y = -x * log_of_lanes(inner ? x : doubles(1));
  return inner | (x != x) ? y : x == 0.0 ? Doubles{} : doubles(-infinite);
}
inline Doubles xlog1py_of(Doubles a, Doubles b) {
  const Doubles y = a * log1p_of_lanes(b);
  return b != b ? b : a == 0.0 ? Doubles{} : y;
}

// --- Orthogonal polynomials ----------------------------------------------------------------------

template <class Step>
[[gnu::always_inline]] inline Doubles recurrence_at(Doubles second, Doubles degree, Step step) {
  const Doubles n = trunc_of_lanes(degree);
  const Longs too_high = n > 1 << 22;
  const Doubles steps = too_high ? Doubles{} : n;
  Doubles before = doubles(1), now = second;
  double k = 1;
  for (Longs runs = steps > k; anywhere(runs); runs = (steps > k) & (now == now)) {
    const Doubles next = step(k, now, before);
    before = runs ? now : before;
    now = runs ? next : now;
    k += 1;
  }
  const Doubles y = n == 0.0 ? doubles(1) : too_high ? doubles(math::special_nan) : now;
  return n >= 0.0 ? y : Doubles{};
}
// Of the four kinds; between -1 and 1 by angles for high degrees.
template <int kind>
[[gnu::always_inline]] inline Doubles chebyshev_kind_at(Doubles x, Doubles degree, Doubles second) {
  const Doubles n = trunc_of_lanes(degree);
  const Longs by_angle = (n > 32.0) & (magnitude(x) < 1.0);
  const auto step = [x](double, Doubles p, Doubles q) __attribute__((always_inline)) {
    return 2.0 * x * p - q;
  };
  const Doubles y = recurrence_at(second, by_angle ? Doubles{} : n, step);
  if (!anywhere(by_angle)) return y;
  const Doubles angle = acos_of_lanes(by_angle ? x : Doubles{}), half = n + 0.5;
  Doubles from_angle;
  if constexpr (kind == 0) from_angle = cos_of_lanes(n * angle);
  if constexpr (kind == 1) from_angle = sin_of_lanes((n + 1.0) * angle) / sin_of_lanes(angle);
  if constexpr (kind == 2) from_angle = cos_of_lanes(half * angle) / cos_of_lanes(angle * 0.5);
  if constexpr (kind == 3) from_angle = sin_of_lanes(half * angle) / sin_of_lanes(angle * 0.5);
  return by_angle ? from_angle : y;
}
#define CHEBYSHEV(name, kind, second)                          \
  inline Doubles chebyshev_##name##_of(Doubles x, Doubles n) { \
    return chebyshev_kind_at<kind>(x, n, second);              \
  }
CHEBYSHEV(t, 0, x)
CHEBYSHEV(u, 1, 2.0 * x)
CHEBYSHEV(v, 2, 2.0 * x - 1.0)
CHEBYSHEV(w, 3, 2.0 * x + 1.0)
#undef CHEBYSHEV
#define POLYNOMIAL_BY_STEPS(name, second, next)                                            \
  inline Doubles name##_of(Doubles x, Doubles n) {                                         \
    const auto step = [x](double k, Doubles p, Doubles q) __attribute__((always_inline)) { \
      return next;                                                                         \
    };                                                                                     \
    return recurrence_at(second, n, step);                                                 \
  }
POLYNOMIAL_BY_STEPS(hermite_h, 2.0 * x, 2.0 * (x * p - k * q))
POLYNOMIAL_BY_STEPS(hermite_he, x, x* p - k * q)
POLYNOMIAL_BY_STEPS(laguerre, 1.0 - x, ((2 * k + 1 - x) * p - k * q) / (k + 1))
POLYNOMIAL_BY_STEPS(legendre, x, ((2 * k + 1) * x * p - k * q) / (k + 1))
#undef POLYNOMIAL_BY_STEPS

}  // namespace flambeau::cpu::ISA_NAMESPACE
