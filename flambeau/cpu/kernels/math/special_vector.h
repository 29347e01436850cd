// Special functions of floats without branches, for loops that become vector code if they contain
// all of it: hence always inline. Where digits
// cancel they are computed in double; the results are within 2 ulp of single precision.
#pragma once

#include <limits>
#include <utility>

#include "flambeau/cpu/kernels/math/elementary.h"
#include "flambeau/kernels/math.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A polynomial, written out: a loop inside the loop over elements would keep that from being vector
// code.
template <class N, class C, size_t terms>
[[gnu::always_inline]] inline C horner(const N (&highest_first)[terms], C x) {
  return [&]<size_t... K>(std::index_sequence<K...>) __attribute__((always_inline)) {
    C y = C{} + highest_first[0];
    ((y = y * x + highest_first[K + 1]), ...);
    return y;
  }
  (std::make_index_sequence<terms - 1>());
}

// x times a polynomial in w = -log(1 - x**2), or in the root of w where x is close to 1.
inline Floats erfinv_vector(Floats x) {
  constexpr float near[] = {6.25530017e-10f, -2.42394744e-8f, 3.82790148e-7f,  -2.9116693e-6f,
                            7.24097436e-6f,  3.75635573e-5f,  -1.18348027e-4f, -2.34112376e-3f,
                            1.15512451e-2f,  2.32013434e-1f,  8.86226952e-1f};
  constexpr float far[] = {-6.02716071e-5f, -2.44854475e-4f, 1.01054209e-3f,
                           -1.74357293e-3f, 2.47751581e-3f,  -3.7442447e-3f,
                           5.3754322e-3f,   1.00525578f,     3.08362911f};
  const Floats w = -math::log((1.0f - x) * (1.0f + x));
  const Floats factor = horner(near, w);
  if (all_true(w < 6.0f)) [[likely]]
    return x * factor;
  const Floats far_factor = horner(far, math::sqrt(w) - 3.24974487f);
  const Floats y = x * (w < 6.0f ? factor : far_factor), size = magnitude(x);
  const Floats end = x * std::numeric_limits<float>::infinity();
  return size < 1.0f ? y : size == 1.0f ? end : all_lanes(std::numeric_limits<float>::quiet_NaN());
}

// The share of the normal distribution beyond t, as a share of its density there but for a
// constant.
inline const WideningPieces normal_shares([](double t) {
  return 0.5 * math::erfcx_of(t * 0.70710678118654752440);
});
inline Floats ndtr_simd(Floats x) {
  const Floats t = math::min(magnitude(x), 14.9f), square = t * t;
  const Floats rest = rest_of_product(t, t, square);  // what the square has lost
  const Floats density = math::exp_of_minus_size(square * 0.5f);
  const Floats tail = normal_shares(t) * (density - density * (rest * 0.5f));
  return x < 0.0f ? tail : 1.0f - tail;
}

// The sine and cosine of pi r for |r| <= 1/2.
template <class C>
[[gnu::always_inline]] inline C sin_pi(C r) {
  constexpr double taylor[] = {
      5.3926646626081284894e-10, -2.2948428997269873110e-8, 7.9520540014755127848e-7,
      -2.1915353447830215827e-5, 4.6630280576761256442e-4,  -7.3704309457143507773e-3,
      8.2145886611128228799e-2,  -5.9926452932079207689e-1, 2.5501640398773454439,
      -5.1677127800499700292,    3.1415926535897932385};
  return r * horner(taylor, r * r);
}
[[gnu::always_inline]] inline double cos_pi(double r) { return sin_pi(0.5 - __builtin_fabs(r)); }

// Stirling's series at y = z + 7, taken back to z = |x| by the product z (z + 1) ... (z + 6); below
// zero by the reflection formula. The series is a polynomial in 1 / y**2.
[[gnu::always_inline]] inline float lgamma_vector(float value) {
  constexpr double series[] = {-3617.0 / 122400, 1.0 / 156,  -691.0 / 360360, 1.0 / 1188,
                               -1.0 / 1680,      1.0 / 1260, -1.0 / 360,      1.0 / 12};
  const double x = value, z = __builtin_fabs(x), y = z + 7.0;
  const double product = z * (z + 1.0) * (z + 2.0) * (z + 3.0) * (z + 4.0) * (z + 5.0) * (z + 6.0);
  const double inverse = 1.0 / y;
  const double stirling = (y - 0.5) * math::log(y) - y + 0.91893853320467274178 +
                          inverse * horner(series, inverse * inverse);
  // The reflection is computed above zero too, where it is a factor of 1: GCC would make what is
  // needed on one side only a branch.
  const bool below = x < 0;
  const double sine = __builtin_fabs(sin_pi(below ? x - __builtin_rint(x) : 0.5));
  const double reflected = product * (below ? 3.14159265358979323846 : 1.0) / sine;
  const double result =
      (below ? -1.0 : 1.0) * (stirling - math::log(reflected / (below ? z : 1.0)));
  const bool infinite = z == std::numeric_limits<double>::infinity();
  const double exact = (x == 1) | (x == 2) ? 0.0 : result;
  return static_cast<float>(infinite ? z : exact);
}

// The series at y = z + 7, less 1/z + 1/(z + 1) + ... + 1/(z + 6) as one fraction; below zero by
// the reflection formula.
[[gnu::always_inline]] inline float digamma_vector(float value) {
  constexpr double series[] = {3617.0 / 8160, -1.0 / 12,  691.0 / 32760, -1.0 / 132,
                               1.0 / 240,     -1.0 / 252, 1.0 / 120,     -1.0 / 12};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double x = value, z = x < 0 ? 1.0 - x : x, y = z + 7.0;
  // Pairs of terms, brought together.
  const double pair = z * (z + 1.0), pair_top = 2.0 * z + 1.0;
  const double middle = (z + 2.0) * (z + 3.0), middle_top = 2.0 * z + 5.0;
  const double upper = (z + 4.0) * (z + 5.0), upper_top = 2.0 * z + 9.0;
  const double four = pair * middle, four_top = pair_top * middle + pair * middle_top;
  const double three = upper * (z + 6.0), three_top = upper_top * (z + 6.0) + upper;
  const double numerator = four_top * three + four * three_top, denominator = four * three;
  const double inverse = 1.0 / y, square = inverse * inverse;
  const double above = math::log(y) - 0.5 * inverse + square * horner(series, square);
  const double right = above - numerator / denominator;
  const bool below = x < 0;  // above zero, the reflection adds nothing
  const double rest = below ? x - __builtin_rint(x) : 0.5;
  const double reflected = right - 3.14159265358979323846 * cos_pi(rest) / sin_pi(rest);
  const double finite = rest == 0 ? std::numeric_limits<double>::quiet_NaN() : reflected;
  const double at_ends = x == 0 ? __builtin_copysign(infinity, -x) : x;
  return static_cast<float>(x == 0 || x == infinity ? at_ends : finite);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
