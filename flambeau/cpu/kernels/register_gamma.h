// The logarithm of the gamma function and its slope for registers of floats: above zero by
// polynomials and Stirling's series, below it lane by lane in double. Right to two units in the
// last place.
#pragma once

#include "flambeau/cpu/kernels/register_math.h"
#include "flambeau/cpu/kernels/special_vector.h"
#include "flambeau/kernels/special_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A smooth function of 1/2 <= x < 8, by pieces that the leading bits of x tell: quarters of
// [1/2, 1), [1, 2), [2, 4) and [4, 8), of which the last are not asked for.
struct OctavePieces {
  template <class F>
  explicit OctavePieces(F f) {
    for (int n = 0; n < 16; ++n) {
      const double width = 0.125 * (1 << n / 4), from = (n % 4 + 4) * width;
      const int place = (n + 8) % 16;  // the exponent of a half ends with binary 10
      centers[place] = static_cast<float>(from + width / 2);
      pieces.fit(place, f, from, from + width, from + width / 2);
    }
  }
  [[nodiscard]] Floats operator()(Floats x) const {
    const Ints piece = std::bit_cast<Ints>(x) >> 21;
    return pieces(piece, x - centers.at(piece));
  }
  Sixteen centers;
  Pieces<7> pieces;
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

// What the pieces have of x: x + 1 below a half, and nothing beyond them.
inline Floats within_pieces(Floats x) {
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

inline Floats lgamma_by_register(Floats x) {
  const Ints usual = (x >= 0x1p-126f) & (x < gamma_end);
  const Ints is_small = x < 0.5f, is_large = x >= stirling_begin;
  // Below a half lgamma(x + 1) - log(x), of which the first is x times the share.
  const Floats from_zero = is_small ? x : x - (x < 1.5f ? all_lanes(1.0f) : all_lanes(2.0f));
  const Floats near = from_zero * lgamma_shares(within_pieces(x)) + 0.0f;  // no zero below zero
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

inline Floats digamma_by_register(Floats x) {
  const Ints usual = (x >= 0x1p-126f) & (x < gamma_end);
  const Ints is_small = x < 0.5f, is_large = x >= stirling_begin;
  // From x itself below a half, not from the sum, which has lost its last bits.
  constexpr auto zero_below = static_cast<float>(digamma_zero - 1);
  const Floats from_zero = is_small ? x - zero_below : (x - digamma_zero_first) - digamma_zero_rest;
  const Floats near = from_zero * digamma_shares(within_pieces(x));
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

}  // namespace flambeau::cpu::ISA_NAMESPACE
