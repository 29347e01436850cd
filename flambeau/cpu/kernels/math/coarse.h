// Functions of two registers of floats that hold numbers of bfloat16, for results of which eight
// bits are kept: right to some 20 bits, so that hardly one in four thousand is rounded otherwise.
// What is out of the ordinary is left to the functions for floats.
#pragma once

#include "flambeau/cpu/kernels/math/division.h"
#include "flambeau/cpu/kernels/math/trigonometry.h"

namespace flambeau::cpu::ISA_NAMESPACE {

#if FLAMBEAU_ISA_RANK >= 4
// The value of a polynomial, of which the first coefficient belongs to the highest power.
template <class... More>
[[gnu::always_inline]] inline Floats polynomial(Floats x, float highest, More... more) {
  Floats y = all_lanes(highest);
  ((y = y * x + more), ...);
  return y;
}

// The lanes that do not hold a number from `low` on to before `high`, none of which is negative.
inline __mmask16 lanes_outside(Floats x, float low, float high) {
  const auto least = std::bit_cast<int32_t>(low), count = std::bit_cast<int32_t>(high) - least;
  const Ints above = less(std::bit_cast<Ints>(x), least);
  return _mm512_cmpge_epu32_mask(std::bit_cast<__m512i>(above), _mm512_set1_epi32(count));
}

// Numbers of any size, by the length of what is left of them when the larger one's exponent is
// taken off both.
[[gnu::noinline]] inline Floats hypot_of_any(Floats a, Floats b) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Floats x = magnitude(a), y = magnitude(b), larger = x > y ? x : y;
  const Floats exponent = math::max(Floats(_mm512_maskz_getexp_ps(0xffff, larger)), -150);
  const Floats u = _mm512_maskz_scalef_ps(0xffff, x, -exponent);
  const Floats v = _mm512_maskz_scalef_ps(0xffff, y, -exponent);
  const Floats root = _mm512_maskz_sqrt_ps(0xffff, u * u + v * v);
  const Floats length = _mm512_maskz_scalef_ps(0xffff, root, exponent);
  return (x == infinity) | (y == infinity) ? all_lanes(infinity) : length;
}
[[gnu::always_inline]] inline Floats coarse_hypot(Floats a, Floats b) {
  const Floats square = a * a + b * b;
  const Floats inverse = inverse_root_estimate(square), estimate = square * inverse;
  const Floats length = (square - estimate * estimate) * (inverse * 0.5f) + estimate;
  return mended<hypot_of_any>(length, lanes_outside(square, 0x1p-100f, 0x1p125f), a, b);
}

[[gnu::noinline]] inline Floats atan2_of_any(Floats y, Floats x) { return math::atan2(y, x); }
// The angle of the smaller to the larger side, taken from that of the axis which the larger one
// lies on.
[[gnu::always_inline]] inline Floats coarse_atan2(Floats y, Floats x) {
  const Ints a = std::bit_cast<Ints>(magnitude(y)), b = std::bit_cast<Ints>(magnitude(x));
  // As bits, of which those of NaN are the most.
  const auto low = std::bit_cast<Floats>(smaller_or_second(a, b));
  const auto high = std::bit_cast<Floats>(larger_or_second(a, b));
  const Floats ratio = low / high;
  Floats angle = ratio * polynomial(ratio * ratio, 0.00786337821f, -0.0370130094f, 0.0838712053f,
                                    -0.134871925f, 0.198814828f, -0.33326515f, 0.999999348f);
  angle = a > b ? half_pi - angle : angle;
  angle = std::bit_cast<Ints>(x) < 0 ? 2 * half_pi - angle : angle;
  return mended<atan2_of_any>(with_sign_of(y, angle), lanes_of<zero | not_finite>(high), y, x);
}

[[gnu::noinline]] inline Floats logaddexp_of_any(Floats a, Floats b) {
  return math::logaddexp(a, b);
}
// A sum that is near zero has lost too many bits, and where there are infinities there may be none.
[[gnu::always_inline]] inline Floats coarse_logaddexp(Floats a, Floats b) {
  constexpr float least = 0x1p-6f, step = -std::numbers::log2e_v<float>;
  const Floats u = exp2_flushed(math::max(magnitude(a - b) * step, -64));
  const Floats share = polynomial(u, 0.0141410263f, -0.0664018142f, 0.1492239f, -0.235038624f,
                                  0.331094497f, -0.499869657f, 0.999998732f);
  const Floats sum = u * share + larger_or_second(a, b);
  const __mmask16 rare = _mm512_cmp_ps_mask(magnitude(sum), all_lanes(least), _CMP_NGE_UQ);
  return mended<logaddexp_of_any>(sum, rare, a, b);
}

[[gnu::noinline]] inline Floats xlogy_of_any(Floats a, Floats b) {
  const Floats product = a == 0.0f ? a : a * math::log(b);
  return b == b ? product : b;
}
[[gnu::always_inline]] inline Floats coarse_xlogy(Floats a, Floats b) {
  const Floats log = coarse_log<NaturalBase>(b);
  return mended<xlogy_of_any>(a == 0.0f ? a : a * log, lanes_of<not_finite>(log), a, b);
}

// A quotient of numbers of eight bits is further from the next integer than its last bits tell, if
// it is not huge; then its floor is right, and what the product with that leaves of a, too. Nor is
// it zero beside a small divisor, unless a is zero.
struct CoarseQuotient {
  Floats value;
  __mmask16 rare;
  [[gnu::always_inline]] CoarseQuotient(Floats a, Floats b) : value(a / b) {
    constexpr int larger_size = 0b1011;
    const Floats larger = _mm512_maskz_range_ps(0xffff, value, b, larger_size);
    rare = _mm512_cmp_ps_mask(larger, all_lanes(0x1p15f), _CMP_NLT_UQ);
  }
  [[nodiscard]] Floats floor() const {
    return _mm512_maskz_roundscale_ps(0xffff, value, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
};
template <Floats (*exact)(Floats, Floats)>
[[gnu::noinline]] Floats divided_exactly(Floats a, Floats b) {
  return exact(a, b);
}
[[gnu::always_inline]] inline Floats coarse_div_floor(Floats a, Floats b) {
  const CoarseQuotient quotient(a, b);
  return mended<divided_exactly<div_floor_simd>>(quotient.floor(), quotient.rare, a, b);
}
[[gnu::always_inline]] inline Floats coarse_fmod(Floats a, Floats b) {
  const CoarseQuotient quotient(a, b);
  const Floats rest = rest_beside_product(a, truncated(quotient.value), b);
  return mended<divided_exactly<fmod_simd>>(with_sign_of(a, rest), quotient.rare, a, b);
}
[[gnu::always_inline]] inline Floats coarse_remainder(Floats a, Floats b) {
  const CoarseQuotient quotient(a, b);
  const Floats rest = rest_beside_product(a, quotient.floor(), b);
  const Floats result = rest == 0.0f ? with_sign_of(a, Floats{}) : rest;
  return mended<divided_exactly<remainder_simd>>(result, quotient.rare, a, b);
}
#endif

}  // namespace flambeau::cpu::ISA_NAMESPACE
