// How samples of gamma and beta distributions move with their parameters: for a sample x with the
// cumulative distribution F and the density p, dx/da = -(dF/da) / p, F held fixed. A power series
// gives it for nearly all samples. Where its terms cancel or are too many, the quotient is computed
// as an integral over the tail on one side of x, the side on which its values hardly cancel.
#pragma once

#include "flambeau/kernels/special_math.h"

namespace flambeau::math {

// The integral over y > 0 of exp(exponent(y)) * factor(y), where exponent(0) = 0 and the exponent
// falls in the end. Panels double in width, so that tails of any length take few of them; `width`
// is where the exponent has fallen by a few units, and at most the scale of the function itself.
template <class Exponent, class Factor>
FLAMBEAU_DEVICE inline double integrate_tail(const Exponent& exponent, const Factor& factor,
                                             double width) {
  // Gauss and Legendre's rule of 16 points; the other half is symmetric.
  constexpr double nodes[] = {0.095012509837637441, 0.28160355077925892, 0.45801677765722737,
                              0.61787624440264377,  0.755404408355003,   0.86563120238783176,
                              0.94457502307323260,  0.98940093499164994};
  constexpr double weights[] = {0.18945061045506864,  0.18260341504492364, 0.16915651939500265,
                                0.14959598881657671,  0.12462897125553407, 0.095158511682492605,
                                0.062253523938647456, 0.027152459411754176};
  constexpr double negligible = -45;
  double sum = 0, begin = 0;
  for (int panel = 0; panel < 200; ++panel) {
    const double half = width / 2, middle = begin + half;
    double part = 0;
    for (int i = 0; i < 8; ++i) {
      const double low = middle - half * nodes[i], high = middle + half * nodes[i];
      part += weights[i] *
              (std::exp(exponent(low)) * factor(low) + std::exp(exponent(high)) * factor(high));
    }
    sum += half * part;
    begin += width;
    if (!(exponent(begin) > negligible)) break;
    width *= 2;
  }
  return sum;
}

// A first width for an exponent with this slope and curvature at 0.
FLAMBEAU_DEVICE inline double tail_width(double slope, double curvature) {
  return std::fmin(4 / (std::abs(slope) + std::sqrt(curvature)), 2.0);
}

// A sum of many terms, and of their sizes, which tells how much was cancelled.
struct SeriesSum {
  double value = 0, size = 0;
  FLAMBEAU_DEVICE void add(double term) {
    value += term;
    size += std::abs(term);
  }
  FLAMBEAU_DEVICE bool cancelled() const { return !(std::abs(value) > 1e-6 * size); }
};
inline constexpr int max_terms = 200;

// dx/da of a sample x of the gamma distribution with the shape a and the scale 1:
//   x / a * sum over n of x^n / ((a + 1) ... (a + n)) * (digamma(a + n + 1) - log x)
// NaN where the series does not serve.
FLAMBEAU_DEVICE inline double gamma_gradient_series(double a, double x) {
  SeriesSum sum;
  double product = 1, factor = digamma_of(a + 1) - std::log(x);
  for (int n = 1; n <= max_terms; ++n) {
    sum.add(product * factor);
    const double inverse = 1 / (a + n);
    product *= x * inverse;
    factor += inverse;
    if (product * (std::abs(factor) + 1) < 1e-17 * sum.size) {
      return sum.cancelled() ? special_nan : x / a * sum.value;
    }
  }
  return special_nan;
}

// The same as an integral. With u = x e^y:
//   x * integral over y < 0 of exp(a y + x (1 - e^y)) (digamma(a) - log u) dy
// or the same integral, negated, over y > 0.
FLAMBEAU_DEVICE inline double gamma_gradient_integral(double a, double x) {
  const double side = x < a || x < 1.5 ? -1 : 1;
  const double offset = digamma_of(a) - std::log(x);
  return x * integrate_tail([&](double y) { return side * a * y - x * std::expm1(side * y); },
                            [&](double y) { return y - side * offset; }, tail_width(a - x, x));
}

FLAMBEAU_DEVICE inline double gamma_sample_gradient(double a, double x) {
  if (!(a > 0) || std::isnan(x) || std::isinf(x) || std::isinf(a)) return special_nan;
  if (x <= 0) return 0;
  const double value = a < 400 ? gamma_gradient_series(a, x) : special_nan;
  return std::isnan(value) ? gamma_gradient_integral(a, x) : value;
}

// dx/da / (1 - x) of a sample x of the beta distribution with the parameters a and b: what a
// component of a Dirichlet sample needs. Up to one half it is, with t = a + b,
//   x / a * sum over n of x^n (t)_n / (a + 1)_n * (digamma(a + n + 1) - digamma(t + n) - log x)
// and above it
//   x / b * sum over n of (1 - x)^n (t)_n / (b + 1)_n * (digamma(t + n) - digamma(a) + log x)
// where (t)_n = t (t + 1) ... (t + n - 1). NaN where the series does not serve.
FLAMBEAU_DEVICE inline double beta_gradient_series(double x, double a, double b) {
  const double total = a + b;
  const bool low = x <= 0.5;
  const double first = low ? a : b, base = low ? x : 1 - x;
  SeriesSum sum;
  double product = 1;
  double factor = low ? digamma_of(a + 1) - digamma_of(total) - std::log(x)
                      : digamma_of(total) - digamma_of(a) + std::log(x);
  for (int n = 1; n <= max_terms; ++n) {
    sum.add(product * factor);
    const double inverse = 1 / (first + n), of_total = 1 / (total + n - 1);
    product *= base * (total + n - 1) * inverse;
    factor += low ? inverse - of_total : of_total;
    if (product * (std::abs(factor) + 1) < 1e-17 * sum.size) {
      return sum.cancelled() ? special_nan : x / first * sum.value;
    }
  }
  return special_nan;
}

// The same as an integral. With u = 1 / (1 + e^-z), z counted from where u = x:
//   x * integral over z < 0 of (u/x)^a ((1-u)/(1-x))^b (digamma(a) - digamma(a + b) - log u) dz
// or the same integral, negated, over z > 0.
FLAMBEAU_DEVICE inline double beta_gradient_integral(double x, double a, double b) {
  const double total = a + b;
  const double side = x * total < a || (x < 0.5 && x * total < 1.5) ? -1 : 1;
  // log(u / x) and log((1 - u) / (1 - x)) are both made of log(1 - x + x e^z) = log1p(x (e^z - 1)).
  const auto growth = [&](double z) {
    return side * z > 30 ? z + std::log(x + (1 - x) * std::exp(-z))
                         : std::log1p(x * std::expm1(side * z));
  };
  const double offset = digamma_of(a) - digamma_of(total) - std::log(x);
  return x * integrate_tail([&](double z) { return side * a * z - total * growth(z); },
                            [&](double z) { return side * (side * z - growth(z) - offset); },
                            tail_width(a * (1 - x) - b * x, total * x * (1 - x)));
}

FLAMBEAU_DEVICE inline double dirichlet_sample_gradient(double x, double a, double total) {
  const double b = total - a;
  if (std::isnan(x) || std::isnan(a) || std::isnan(total)) return special_nan;
  if (x <= 0 || a <= 0 || b <= 0) return 0;  // the only component of a sample does not move
  x = std::fmin(x, 1 - 0x1p-53);
  const double value = beta_gradient_series(x, a, b);
  return std::isnan(value) ? beta_gradient_integral(x, a, b) : value;
}

}  // namespace flambeau::math
