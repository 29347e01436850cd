// Remainders and whole quotients for registers of floats, as kernels/math.h has them bit by bit:
// one division, of which a fused step gives the exact rest as long as the quotient is not huge.
#pragma once

#include "flambeau/cpu/kernels/math/elementary.h"
#include "flambeau/kernels/math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

inline Floats truncated(Floats x) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#else
  return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#endif
}

// a - b * c, rounded once.
inline Floats rest_beside_product(Floats a, Floats b, Floats c) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_fnmadd_ps(b, c, a);
#else
  return _mm256_fnmadd_ps(b, c, a);
#endif
}

// Of the sizes of two numbers: |a| = whole |b| + rest, 0 <= rest < |b|, if `usual`.
struct SizesDivided {
  Floats whole, rest, divisor;
  bool usual;
  [[gnu::always_inline]] SizesDivided(Floats a, Floats b) : divisor(magnitude(b)) {
    constexpr float most = 0x1p21f;  // of quotients whose every integer a float has
    const Floats size = magnitude(a);
    whole = truncated(size / divisor);
    rest = rest_beside_product(size, whole, divisor);
    // Infinite divisors leave NaN.
    usual = all_true((whole < most) & (rest == rest));
    // The quotient may have been rounded up to an integer.
    const Ints is_above = rest < 0.0f;
    rest = is_above ? rest + divisor : rest;
    whole = is_above ? whole - 1.0f : whole;
  }
};
inline Ints signs_differ(Floats a, Floats b) {
  return (std::bit_cast<Ints>(a) ^ std::bit_cast<Ints>(b)) < 0;
}

template <class F>
[[gnu::noinline]] Floats lane_by_lane(Floats a, Floats b, F f) {
  Floats y;
  for (int lane = 0; lane < float_lanes; ++lane) y[lane] = f(a[lane], b[lane]);
  return y;
}

inline Floats fmod_simd(Floats a, Floats b) {
  const SizesDivided sizes(a, b);
  if (!sizes.usual) [[unlikely]]
    return lane_by_lane(a, b, [](float x, float y) { return math::fmod(x, y); });
  return with_sign_of(a, sizes.rest);
}
inline Floats remainder_simd(Floats a, Floats b) {
  const SizesDivided sizes(a, b);
  if (!sizes.usual) [[unlikely]]
    return lane_by_lane(a, b, [](float x, float y) { return math::remainder(x, y); });
  const Ints turns = signs_differ(a, b) & (sizes.rest != 0.0f);
  return with_sign_of(turns ? b : a, turns ? sizes.divisor - sizes.rest : sizes.rest);
}
inline Floats div_floor_simd(Floats a, Floats b) {
  const SizesDivided sizes(a, b);
  if (!sizes.usual) [[unlikely]]
    return lane_by_lane(a, b, [](float x, float y) { return math::div_floor(x, y); });
  const Ints signs = std::bit_cast<Ints>(a) ^ std::bit_cast<Ints>(b);
  const Ints turns = (signs < 0) & (sizes.rest != 0.0f);
  return with_sign_of(std::bit_cast<Floats>(signs), turns ? sizes.whole + 1.0f : sizes.whole);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
