// Special functions of one double, for the rows of special.def. Half, bfloat16 and float are
// computed in double too: where digits cancel, single precision would lose them.
#pragma once

#include <cmath>
#include <limits>

#include "flambeau/kernels/special_tables.h"
#include "flambeau/tensor/dtype.h"

namespace flambeau::math {

// Inlined into one another on a device they would be one huge function, which takes a minute and
// more to compile.
#if defined(__CUDACC__)
#define FN FLAMBEAU_DEVICE __noinline__ inline
#else
#define FN inline
#endif

inline constexpr double special_pi = 3.14159265358979323846;
inline constexpr double special_inf = std::numeric_limits<double>::infinity();
inline constexpr double special_nan = std::numeric_limits<double>::quiet_NaN();

// A Chebyshev series on [low, high] at x (Clenshaw).
template <int N>
FN double chebyshev(const double (&c)[N], double x, double low, double high) {
  const double t = (2 * x - low - high) / (high - low);
  double b1 = 0, b2 = 0;
  for (int k = N - 1; k > 0; --k) {
    const double b = 2 * t * b1 - b2 + c[k];
    b2 = b1;
    b1 = b;
  }
  return t * b1 - b2 + c[0];
}
template <int N>
FN double polynomial(const double (&c)[N], double x) {
  double y = c[N - 1];
  for (int k = N - 2; k >= 0; --k) y = y * x + c[k];
  return y;
}

// --- The gamma function and its derivatives ---------------------------------------------------

FN double lgamma_of(double x) {
#if defined(__CUDACC__)
  return ::lgamma(x);
#else
  int sign = 0;  // the plain function writes it to a global variable
  return ::lgamma_r(x, &sign);
#endif
}

FN double digamma_of(double x) {
  if (x == 0) return std::copysign(special_inf, -x);
  if (x < 0) {
    if (x == std::trunc(x)) return special_nan;
    const double whole = std::trunc(x), rest = x - whole;  // tan(pi x) without losing digits
    const double reflected = digamma_of(1 - x);
    return reflected - special_pi / std::tan(special_pi * rest);
  }
  if (x == 10) return 2.25175258906672110764;
  double sum = 0;
  while (x < 10) {
    sum -= 1 / x;
    x += 1;
  }
  constexpr double bernoulli[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                  1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const double z = 1 / (x * x);
  const double tail = x < 1e17 ? z * polynomial(bernoulli, z) : 0;
  return sum + std::log(x) - 0.5 / x - tail;
}

// sum over k of (k + q)**-s, by Euler and Maclaurin after the first terms.
FN double zeta_of(double s, double q) {
  if (s == 1) return special_inf;
  if (!(s > 1)) return special_nan;
  if (q <= 0) {
    if (q == std::floor(q)) return special_inf;
    if (s != std::floor(s)) return special_nan;  // powers of negative numbers
  }
  double sum = std::pow(q, -s), a = q, term = 0;
  for (int i = 0; i < 9 || a <= 9; ++i) {
    a += 1;
    term = std::pow(a, -s);
    sum += term;
    if (std::abs(term) < 1e-17 * std::abs(sum)) return sum;
  }
  sum += term * a / (s - 1) - 0.5 * term;
  // (2k)! / B_2k
  constexpr double ratios[] = {12.0,
                               -720.0,
                               30240.0,
                               -1209600.0,
                               47900160.0,
                               -1.8924375803183791606e9,
                               7.47242496e10,
                               -2.950130727918164224e12,
                               1.1646782814350067249e14,
                               -4.5979787224074726105e15,
                               1.8152105401943546773e17,
                               -7.1661652561756670113e18};
  double factor = 1, power = term, k = 0;
  for (const double ratio : ratios) {
    factor *= s + k;
    power /= a;
    const double next = factor * power / ratio;
    sum += next;
    if (std::abs(next) < 1e-17 * std::abs(sum)) break;
    k += 1;
    factor *= s + k;
    power /= a;
    k += 1;
  }
  return sum;
}

// The derivative of digamma; below a half reflected, so that negative numbers work.
FN double trigamma_of(double x) {
  if (x < 0.5) {
    const double s = std::sin(special_pi * (x - std::trunc(x)));
    return special_pi * special_pi / (s * s) - trigamma_of(1 - x);
  }
  double sum = 0;
  for (; x < 12; x += 1) sum += 1 / (x * x);
  constexpr double bernoulli[] = {1.0 / 6,  -1.0 / 30,       1.0 / 42, -1.0 / 30,
                                  5.0 / 66, -691.0 / 2730.0, 7.0 / 6};
  const double inverse = 1 / x, square = inverse * inverse;
  return sum + inverse + square * (0.5 + inverse * polynomial(bernoulli, square));
}

// The n-th derivative of digamma.
FN double polygamma_of(double n, double x) {
  if (n == 0) return digamma_of(x);
  if (n == 1) return trigamma_of(x);
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::exp(lgamma_of(n + 1)) * zeta_of(n + 1, x);
}

// --- Incomplete gamma functions ---------------------------------------------------------------

// log(1 + d) - d, by its series where that cancels.
FN double log1p_excess(double d) {
  if (std::abs(d) >= 0.2) return std::log1p(d) - d;
  double sum = 0, power = d;
  for (int k = 2; k < 40; ++k) {
    power *= -d;
    sum += power / k;
  }
  return sum;
}

// x**a e**-x / Gamma(a + 1), without losing digits where x is close to a large a.
FN double gamma_weight(double a, double x) {
  if (a < 30) return std::exp(a * std::log(x) - x - lgamma_of(a + 1));
  const double d = (x - a) / a;
  const double excess = std::abs(d) < 0.2 ? log1p_excess(d) : std::log(x / a) - d;
  const double z = 1 / (a * a);
  constexpr double stirling[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
  return std::exp(a * excess - polynomial(stirling, z) / a) / std::sqrt(2 * special_pi * a);
}

FN int gamma_terms(double a) { return a < 1e7 ? 2000 + static_cast<int>(12 * std::sqrt(a)) : 0; }

// The lower one: a sum of positive terms, good for x <= a + 1.
FN double gamma_series(double a, double x) {
  double sum = 1, term = 1, r = a;
  for (int k = gamma_terms(a); k > 0; --k) {
    r += 1;
    term *= x / r;
    sum += term;
    if (term < 1e-17 * sum) break;
  }
  return sum * gamma_weight(a, x);
}

// The upper one: a continued fraction (Lentz), good for x > a + 1.
FN double gamma_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int k = 1; k < gamma_terms(a); ++k) {
    const double an = -k * (k - a);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    d = 1 / (std::abs(d) < tiny ? tiny : d);
    c = std::abs(c) < tiny ? tiny : c;
    const double step = d * c;
    h *= step;
    if (std::abs(step - 1) < 1e-16) break;
  }
  return h * a * gamma_weight(a, x);
}

// For a beyond all sums: the normal distribution with its first correction (Temme).
FN double gamma_normal(double a, double x, bool upper) {
  const double d = (x - a) / a, phi = -log1p_excess(d);
  const double eta = std::copysign(std::sqrt(2 * phi), d);
  const double first =
      std::abs(d) < 1e-2 ? -1.0 / 3 + eta / 12 - 2 * eta * eta / 135 : 1 / d - 1 / eta;
  const double rest = std::exp(-a * phi) / std::sqrt(2 * special_pi * a) * first;
  const double sign = upper ? 1 : -1;
  return 0.5 * std::erfc(sign * eta * std::sqrt(a / 2)) + sign * rest;
}

FN double gammainc_of(double a, double x, bool upper) {
  if (a != a || x != x || a < 0 || x < 0) return special_nan;
  if (a == 0) return x > 0 ? (upper ? 0.0 : 1.0) : special_nan;
  if (x == 0) return upper ? 1 : 0;
  if (std::isinf(a)) return std::isinf(x) ? special_nan : (upper ? 1 : 0);
  if (std::isinf(x)) return upper ? 0 : 1;
  if (a >= 1e7) return gamma_normal(a, x, upper);
  if (x <= a + 1) {
    if (upper && x < 1.1 && a < 0.5) {
      // 1 - P would cancel: Q = 1 - x**a / Gamma(1 + a) - ... summed apart.
      double sum = 0, term = 1;
      for (int k = 1; k < 200; ++k) {
        term *= -x / k;
        const double next = term / (a + k);
        sum += next;
        if (std::abs(next) <= 1e-17 * std::abs(sum)) break;
      }
      const double power = a * std::log(x) - lgamma_of(1 + a);
      return -std::expm1(power) - std::exp(power) * a * sum;
    }
    const double lower = gamma_series(a, x);
    return upper ? 1 - lower : lower;
  }
  const double above = gamma_fraction(a, x);
  return upper ? above : 1 - above;
}

// --- The normal distribution ------------------------------------------------------------------

// The quantile at 1/2 + q, where `tail` is min(p, 1 - p) (Wichura, AS 241).
FN double normal_quantile(double q, double tail) {
  using namespace quantile;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-std::log(tail));
  const double size = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                             : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -size : size;
}

FN double erfinv_of(double x) {
  if (!(std::abs(x) <= 1)) return special_nan;
  if (std::abs(x) == 1) return std::copysign(special_inf, x);
  return normal_quantile(x / 2, (1 - std::abs(x)) / 2) * 0.70710678118654752440;
}
FN double ndtri_of(double p) {
  if (!(p >= 0 && p <= 1)) return special_nan;
  if (p == 0) return -special_inf;
  if (p == 1) return special_inf;
  return normal_quantile(p - 0.5, p < 0.5 ? p : 1 - p);
}
FN double ndtr_of(double x) { return 0.5 * std::erfc(x * -0.70710678118654752440); }

// e**(x**2) erfc(x).
FN double erfcx_of(double x) {
  if (x < -26.7) return x != x ? x : special_inf;
  if (x >= 12) {
    const double z = 1 / (2 * x * x);
    double sum = 1, term = 1;
    for (int k = 1; k < 12; ++k) {
      term *= -(2 * k - 1) * z;
      sum += term;
    }
    return sum / (x * 1.77245385090551602730);
  }
  const double square = x * x, rest = std::fma(x, x, -square);
  const double power = std::exp(square);
  return (std::isinf(power) ? power : power + power * rest) * std::erfc(x);
}
FN double log_ndtr_of(double x) {
  const double t = x * 0.70710678118654752440;
  if (x < -1) return std::log(erfcx_of(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}
FN double entr_of(double x) {
  if (x != x) return x;
  return x > 0 ? -x * std::log(x) : x == 0 ? 0 : -special_inf;
}

// --- Bessel and Airy functions ----------------------------------------------------------------

// As in PyTorch, at infinity all of them are NaN but i0e, i1e, k0, k1 and the spherical one.
FN double i0e_of(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x <= 8) return chebyshev(tables::i0_low, x, 0, 8);
  return chebyshev(tables::i0_high, 8 / x, 0, 1) / std::sqrt(x);
}
FN double i1e_of(double x) {
  const double size = std::abs(x);
  const double y = size <= 8 ? chebyshev(tables::i1_low, size, 0, 8) * size
                             : chebyshev(tables::i1_high, 8 / size, 0, 1) / std::sqrt(size);
  return x < 0 ? -y : y;
}
FN double i0_of(double x) {
  const double half =
      std::exp(std::abs(x) / 2);  // e**x alone may overflow where the product does not
  return half * i0e_of(x) * half;
}
FN double i1_of(double x) {
  const double half = std::exp(std::abs(x) / 2);
  return half * i1e_of(x) * half;
}
FN double k0e_of(double x) {
  if (x != x) return x;
  if (x <= 0) return x == 0 ? special_inf : special_nan;
  if (x > 2) return chebyshev(tables::k0_high, 2 / x, 0, 1) / std::sqrt(x);
  return (chebyshev(tables::k0_low, x * x, 0, 4) - std::log(x / 2) * i0_of(x)) * std::exp(x);
}
FN double k1e_of(double x) {
  if (x != x) return x;
  if (x <= 0) return x == 0 ? special_inf : special_nan;
  if (x > 2) return chebyshev(tables::k1_high, 2 / x, 0, 1) / std::sqrt(x);
  return (chebyshev(tables::k1_low, x * x, 0, 4) / x + std::log(x / 2) * i1_of(x)) * std::exp(x);
}
FN double k0_of(double x) { return x > 800 ? 0 : k0e_of(x) * std::exp(-x); }
FN double k1_of(double x) { return x > 800 ? 0 : k1e_of(x) * std::exp(-x); }
FN double j0_of(double x) { return std::isinf(x) ? special_nan : ::j0(x); }
FN double j1_of(double x) { return std::isinf(x) ? special_nan : ::j1(x); }
FN double y0_of(double x) {
  return x < 0 || std::isinf(x) ? special_nan : x == 0 ? -special_inf : ::y0(x);
}
FN double y1_of(double x) {
  return x < 0 || std::isinf(x) ? special_nan : x == 0 ? -special_inf : ::y1(x);
}
FN double spherical_j0_of(double x) {
  if (std::isinf(x)) return 0;
  if (std::abs(x) < 0.5) {
    const double z = x * x;
    constexpr double c[] = {
        1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800};
    return polynomial(c, z);
  }
  return std::sin(x) / x;
}

FN double airy_of(double x) {
  if (!std::isfinite(x)) return special_nan;
  if (x > 104) return 0;
  const double size = std::abs(x), root = std::sqrt(size), zeta = 2 * size * root / 3;
  if (x > 2) {
    return chebyshev(tables::airy_positive, 1.8856180831641267 / zeta, 0, 1) * std::exp(-zeta) /
           std::sqrt(root);
  }
  if (x >= 0) return chebyshev(tables::airy_middle, x, 0, 2);
  if (x >= -5) return chebyshev(tables::airy_negative, x, -5, 0);
  const double ratio = 7.4535599249992990 / zeta, square = ratio * ratio;
  const double p = chebyshev(tables::airy_p, square, 0, 1);
  const double q = chebyshev(tables::airy_q, square, 0, 1) * ratio;
  const double angle = zeta + special_pi / 4;
  return (std::sin(angle) * p - std::cos(angle) * q) / std::sqrt(root);
}

// --- Orthogonal polynomials -------------------------------------------------------------------

// p[k + 1] = (slope(k) x + shift(k)) p[k] - back(k) p[k - 1], up to degree n. A degree of millions,
// which would take forever and has lost its digits long before, gives NaN.
template <class Step>
FN double recurrence(double first, double second, double n, const Step& step) {
  n = std::trunc(n);
  if (!(n >= 0)) return 0;
  if (n == 0) return first;
  if (n > 1 << 22) return std::numeric_limits<double>::quiet_NaN();
  double before = first, now = second;
  for (double k = 1; k < n && now == now; k += 1) {
    const double next = step(k, now, before);
    before = now;
    now = next;
  }
  return now;
}
// Of the four kinds, which share their recurrence; between -1 and 1 by angles for high degrees.
FN double chebyshev_kind(double x, double n, double second, int kind) {
  n = std::trunc(n);
  if (!(n >= 0)) return 0;
  if (n > 32 && std::abs(x) < 1) {
    const double angle = std::acos(x);
    switch (kind) {
      case 0: return std::cos(n * angle);
      case 1: return std::sin((n + 1) * angle) / std::sin(angle);
      case 2: return std::cos((n + 0.5) * angle) / std::cos(angle / 2);
      default: return std::sin((n + 0.5) * angle) / std::sin(angle / 2);
    }
  }
  return recurrence(1, second, n, [x](double, double p, double q) { return 2 * x * p - q; });
}
FN double chebyshev_t_of(double x, double n) { return chebyshev_kind(x, n, x, 0); }
FN double chebyshev_u_of(double x, double n) { return chebyshev_kind(x, n, 2 * x, 1); }
FN double chebyshev_v_of(double x, double n) { return chebyshev_kind(x, n, 2 * x - 1, 2); }
FN double chebyshev_w_of(double x, double n) { return chebyshev_kind(x, n, 2 * x + 1, 3); }
FN double hermite_h_of(double x, double n) {
  return recurrence(1, 2 * x, n, [x](double k, double p, double q) { return 2 * (x * p - k * q); });
}
FN double hermite_he_of(double x, double n) {
  return recurrence(1, x, n, [x](double k, double p, double q) { return x * p - k * q; });
}
FN double laguerre_of(double x, double n) {
  return recurrence(1, 1 - x, n, [x](double k, double p, double q) {
    return ((2 * k + 1 - x) * p - k * q) / (k + 1);
  });
}
FN double legendre_of(double x, double n) {
  return recurrence(1, x, n, [x](double k, double p, double q) {
    return ((2 * k + 1) * x * p - k * q) / (k + 1);
  });
}

#undef FN

}  // namespace flambeau::math
