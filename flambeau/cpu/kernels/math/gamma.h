// The logarithm of the gamma function, its slope and the inverse error function for registers of
// floats: above zero by polynomials and Stirling's series, below it lane by lane in double. Right
// to two units in the last place.
#pragma once

#include "flambeau/cpu/kernels/math/elementary.h"
#include "flambeau/cpu/kernels/math/special_vector.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A smooth function of 1/2 <= x < 8, on intervals that the leading bits of x tell: quarters of
// [1/2, 1), [1, 2), [2, 4) and [4, 8), of which the last are not asked for.
struct OctavePieces {
  template <class F>
  explicit OctavePieces(F f) {
    for (int n = 0; n < 16; ++n) {
      const double width = 0.125 * (1 << n / 4), from = (n % 4 + 4) * width;
      const int place = (n + 8) % 16;  // the exponent of a half ends with binary 10
      centers[place] = static_cast<float>(from + width / 2);
      polynomials.fit(place, f, from, from + width, from + width / 2);
    }
  }
  [[nodiscard]] Floats operator()(Floats x) const {
    const Ints interval = std::bit_cast<Ints>(x) >> 21;
    return polynomials(interval, x - centers.at(interval));
  }
  Sixteen centers;
  Piecewise<7> polynomials;
};

// Without the nearest zero, that is 1 or 2, and one in two parts.
inline const OctavePieces lgamma_shares([](double x) {
  return math::lgamma_of(x) / (x - (x < 1.5 ? 1 : 2));
});
constexpr double digamma_zero = 1.4616321449683623413;
constexpr auto digamma_zero_first = static_cast<float>(digamma_zero);
constexpr auto digamma_zero_rest = static_cast<float>(digamma_zero - digamma_zero_first);
inline const OctavePieces digamma_shares([](double x) {
  return math::digamma_of(x) / (x - digamma_zero);
});

// From where on Stirling's series is taken, and up to where.
constexpr float stirling_begin = 4, gamma_end = 0x1p120f;

// What the intervals have of x: x + 1 below a half, and nothing beyond them.
inline Floats within_intervals(Floats x) {
  return x < 0.5f ? math::min(x + 1.0f, 0x1.7ffffep0f) : math::min(x, stirling_begin);
}

// A function f(float) in the lanes that have no `usual` number.
template <class F>
[[gnu::noinline]] Floats with_lanes_of(F f, Floats x, Floats y, Ints usual) {
  float from[float_lanes], to[float_lanes];
  store_floats(usual ? all_lanes(-0.5f) : x, from);
  for (int lane = 0; lane < float_lanes; ++lane) to[lane] = f(from[lane]);
  return usual ? y : load_floats(to);
}

[[gnu::noinline]] inline Floats lgamma_anywhere(Floats x) {
  const Ints usual = (x >= 0x1p-126f) & (x < gamma_end);
  const Ints is_small = x < 0.5f, is_large = x >= stirling_begin;
  // Below a half lgamma(x + 1) - log(x), of which the first is x times the share.
  const Floats from_zero = is_small ? x : x - (x < 1.5f ? all_lanes(1.0f) : all_lanes(2.0f));
  const Floats near = from_zero * lgamma_shares(within_intervals(x)) + 0.0f;  // no zero below zero
  // The logarithm as the sum of a number of few bits, whose product with x is rounded once, and a
  // small one.
  const auto [whole, rest] = log_parts(x);
  const Floats below = near - (whole + rest);
  const Floats inverse = 1.0f / x, square = inverse * inverse, factor = x - 0.5f;
  Floats series = (square * (-1.0f / 1680) + (1.0f / 1260)) * square - (1.0f / 360);
  series = (series * square + (1.0f / 12)) * inverse + 0.41893853320467274f;
  const Floats above = factor * (whole - 1.0f) + (factor * rest + series);
  const Floats y = is_large ? above : is_small ? below : near;
  if (all_true(usual)) [[likely]]
    return y;
  return with_lanes_of([](float v) { return lgamma_vector(v); }, x, y, usual);
}

[[gnu::noinline]] inline Floats digamma_anywhere(Floats x) {
  const Ints usual = (x >= 0x1p-126f) & (x < gamma_end);
  const Ints is_small = x < 0.5f, is_large = x >= stirling_begin;
  // From x itself below a half, not from the sum, which has lost its last bits.
  constexpr auto zero_below = static_cast<float>(digamma_zero - 1);
  const Floats from_zero = is_small ? x - zero_below : (x - digamma_zero_first) - digamma_zero_rest;
  const Floats near = from_zero * digamma_shares(within_intervals(x));
  const Floats inverse = 1.0f / x, square = inverse * inverse;
  const auto [whole, rest] = log_parts(x);
  Floats series = (square * (1.0f / 240) - (1.0f / 252)) * square + (1.0f / 120);
  series = (series * square - (1.0f / 12)) * square - 0.5f * inverse;
  const Floats above = whole + (rest + series);
  const Floats y = is_large ? above : is_small ? near - inverse : near;
  if (all_true(usual)) [[likely]]
    return y;
  return with_lanes_of([](float v) { return digamma_vector(v); }, x, y, usual);
}

#if FLAMBEAU_ISA_RANK >= 4
// A function on the halves of sixteen octaves, which leading bits tell, without one of its zeros:
// a polynomial times `slope` x less the zero in two parts, or where the slope is none, alone.
template <int terms, bool zero_has_rest = false>
class HalfOctaves {
 public:
  template <class F, class Zero>
  HalfOctaves(int min_exponent, F f, Zero zero)
      : least_(std::ldexp(1.0f, min_exponent)), end_(0x1p16f * least_) {
    for (int n = 0; n < 32; ++n) {
      const double half = std::ldexp(0.5, min_exponent + n / 2), from = (2 + n % 2) * half;
      const int place = (2 * (127 + min_exponent) + n) % 32;
      const double to = from + half, root = zero(from + half / 2);
      const auto without_zero = [&](double x) { return root > 0 ? f(x) / (x - root) : f(x); };
      // From the end where the result is small, so that the terms do not cancel.
      const bool rises =
          std::abs(without_zero(from + half / 8)) < std::abs(without_zero(from + half / 2));
      const double center = rises ? from : to;
      centers_[place] = static_cast<float>(center);
      slopes_[place] = root > 0 ? 1 : 0;
      zeros_[place] = root > 0 ? static_cast<float>(root) : -1;
      zero_rests_[place] = root > 0 ? static_cast<float>(root - static_cast<float>(root)) : 0;
      polynomials_.fit(place, without_zero, from, to, center);
    }
  }
  // y, but where x does not lie within the octaves f of the lanes of `rare`.
  template <class F>
  [[nodiscard]] Floats or_else(Floats y, Floats x, F f, Floats rare) const {
    if (all_between(x, least_, end_)) [[likely]]
      return y;
    return (x >= least_) & (x < end_) ? y : f(rare);
  }
  [[nodiscard]] Floats share(Floats x) const {
    const Ints interval = std::bit_cast<Ints>(x) >> 22;
    return polynomials_(interval, x - centers_.at(interval));
  }
  [[nodiscard]] Floats operator()(Floats x) const {
    const Ints interval = std::bit_cast<Ints>(x) >> 22;
    Floats from_zero = x * slopes_.at(interval) - zeros_.at(interval);
    if constexpr (zero_has_rest) from_zero -= zero_rests_.at(interval);
    return from_zero * share(x) + 0.0f;  // no zero below zero
  }

 private:
  const float least_, end_;
  Numbers<32> centers_, slopes_, zeros_, zero_rests_;
  Piecewise<terms, 32> polynomials_;
};

inline const HalfOctaves<8> lgamma_octaves(-7, math::lgamma_of, [](double x) {
  return x < 0.5 || x > 4 ? 0.0 : x < 1.5 ? 1.0 : 2.0;
});
inline Floats lgamma_simd(Floats x) {
  return lgamma_octaves.or_else(lgamma_octaves(x), x, lgamma_anywhere, x);
}

inline const HalfOctaves<8, true> digamma_octaves(-7, math::digamma_of, [](double x) {
  return x > 1 && x < 2 ? digamma_zero : 0.0;
});
inline Floats digamma_simd(Floats x) {
  return digamma_octaves.or_else(digamma_octaves(x), x, digamma_anywhere, x);
}

// What erfinv(x) is of x, by 1 - |x|.
inline const HalfOctaves<8> erfinv_octaves(
    -15, [](double v) { return math::erfinv_of(1 - v) / (1 - v); }, [](double) { return 0.0; });
inline Floats erfinv_simd(Floats x) {
  const Floats from_one = 1.0f - magnitude(x);
  return erfinv_octaves.or_else(x * erfinv_octaves.share(from_one), from_one, erfinv_vector, x);
}
#else
inline Floats lgamma_simd(Floats x) { return lgamma_anywhere(x); }
inline Floats digamma_simd(Floats x) { return digamma_anywhere(x); }
inline Floats erfinv_simd(Floats x) { return erfinv_vector(x); }
#endif

}  // namespace flambeau::cpu::ISA_NAMESPACE
