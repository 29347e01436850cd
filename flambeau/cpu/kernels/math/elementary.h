// The functions of kernels/math.h for a whole register of floats, so that a formula of rows is
// computed in SIMD registers: for rows that would call the vector library, or none where a function
// stands behind a condition. Right to two units in the last place, at both ends of the range too.
#pragma once

#include <limits>

#include "flambeau/cpu/kernels/math/logarithms.h"
#include "flambeau/cpu/kernels/simd/tables.h"

namespace flambeau {

namespace cpu::ISA_NAMESPACE {

// What the powers of two of `powers_of_two` leave out, as a share of each.
constexpr auto rests_of_powers = [] {
  std::array<float, float_lanes> rests{};
  for (int j = 0; j < float_lanes; ++j) {
    const double power = sixteenths_of_two[j * 16 / float_lanes];
    rests[j] = static_cast<float>((power - static_cast<float>(power)) / power);
  }
  return rests;
}();

#if FLAMBEAU_ISA_RANK >= 4
constexpr auto sixteenths = [] {
  std::array<float, float_lanes> powers{};
  for (int j = 0; j < float_lanes; ++j) powers[j] = static_cast<float>(sixteenths_of_two[j]);
  return powers;
}();
// Numbers from 2**-100 to the greatest, as bits: what their roots are made of is not subnormal.
constexpr int32_t min_of_usual_roots = 27 << 23;
constexpr int32_t usual_roots = (255 - 27) << 23;
#endif

// x = n ln 2 + r for a multiple n of 1 / lanes, whose count stands in the last bits of a float.
struct Exponent {
  static constexpr float ln2 = 0x1.62e4p-1f;  // the first bits, by which `near` is exact
  Floats shifted, n, near, r;
  explicit Exponent(Floats x) {
    constexpr auto steps = static_cast<float>(std::numbers::log2e);
    constexpr float shift = 0x1.8p23f / float_lanes;
    shifted = x * steps + shift;
    n = shifted - shift;
    near = x - n * ln2;
    r = near - little();
  }
  // What `near` has above r, before that is rounded.
  [[nodiscard]] Floats little() const { return n * static_cast<float>(std::numbers::ln2 - ln2); }
  [[nodiscard]] Ints count() const { return std::bit_cast<Ints>(shifted); }
  // 2**(n + more)
  [[nodiscard]] Floats power(int more) const {
    const Ints powers = std::bit_cast<Ints>(powers_of_two) + (more << 23);
    return std::bit_cast<Floats>(chosen(powers, count()) + (count() << (23 - lane_bits)));
  }
  // What the powers are short of, as a share.
  [[nodiscard]] Floats rest_of_power() const {
    return chosen(std::bit_cast<Floats>(rests_of_powers), count());
  }
};

// What log1p(u) / u and atan(t) / t are short of one.
inline const Piecewise<4, 32> log1p_shares(
    [](double u) { return std::abs(u) < 1e-9 ? -u / 2 : std::log1p(u) / u - 1; }, 1.0f / 31);

// What erf(t) / t has above a quarter, which it is at the end.
constexpr float erf_end = 4.0f;
inline const Piecewise<7> erf_shares(
    [](double t) {
      return (std::abs(t) < 1e-9 ? 2 * std::numbers::inv_sqrtpi : std::erf(t) / t) - 0.25;
    },
    erf_end / 15);

inline const WideningPieces tanh_shares([](double t) { return std::tanh(t) / t; });

inline const Piecewise<6> atan_shares(
    [](double t) { return std::abs(t) < 1e-9 ? 0 : std::atan(t) / t - 1; }, 1.0f / 15);

// pi / 2 in two parts.
constexpr auto half_pi = static_cast<float>(std::numbers::pi / 2);
constexpr auto half_pi_rest = static_cast<float>(std::numbers::pi / 2 - half_pi);

}  // namespace cpu::ISA_NAMESPACE

namespace math {

using cpu::ISA_NAMESPACE::Floats;
using cpu::ISA_NAMESPACE::Ints;

template <class U>
inline Floats min(Floats x, U bound) {
  using namespace cpu::ISA_NAMESPACE;
  return smaller_or_second(all_lanes(static_cast<float>(bound)), x);
}
template <class U>
inline Floats max(Floats x, U bound) {
  using namespace cpu::ISA_NAMESPACE;
  return larger_or_second(all_lanes(static_cast<float>(bound)), x);
}
inline Floats abs(Floats x) { return cpu::ISA_NAMESPACE::magnitude(x); }

// Half of e**x - 1, which is finite, for -70 <= x < 89: that of the power less one, which is exact,
// and what r adds to it as a sum of two.
[[gnu::always_inline]] inline Floats half_of_expm1(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Exponent parts(x);
  const Floats r = parts.r, power = parts.power(-1), above = power - 0.5f;
  const Floats short_by = parts.rest_of_power();
  Floats series = r * (1.0f / 24) + (1.0f / 6);
  if (float_lanes < 16) series = (r * (1.0f / 120) + (1.0f / 24)) * r + (1.0f / 6);
  series = (series * r + 0.5f) * r + short_by;
  const Floats rest = series * r + (short_by - parts.little());
  const Floats sum = power * parts.near + above, lost = power * parts.near - (sum - above);
  return sum + (power * rest + lost);
}
inline Floats expm1(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  return with_sign_of(x, half_of_expm1(clamped(x, -70.0f, 89.0f)) * 2.0f);
}
// A multiple of the same for x < 89.
inline Floats expm1_below(Floats x, Floats times) {
  using namespace cpu::ISA_NAMESPACE;
  return with_sign_of(x, half_of_expm1(max(x, -70.0f))) * (times * 2.0f);
}
#if FLAMBEAU_ISA_RANK >= 4
// e**x times a power of two, for -104 <= x <= 90.
[[gnu::always_inline]] inline Floats exp_within(Floats x, float scale = 1) {
  using namespace cpu::ISA_NAMESPACE;
  const Exponent parts(x);
  const Floats r = parts.r, power = chosen(load_floats(sixteenths.data()) * scale, parts.count());
  const Floats above = ((r * 0.166670577f + 0.500016186f) * r + 1.0f) * r + parts.rest_of_power();
  return _mm512_maskz_scalef_ps(0xffff, power * above + power, parts.n);
}
inline Floats exp(Floats x) { return exp_within(cpu::ISA_NAMESPACE::clamped(x, -104.0f, 89.0f)); }
inline Floats exp2(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  constexpr float shift = 0x1.8p19f;  // a number whose last bits count sixteenths
  constexpr auto ln2 = static_cast<float>(std::numbers::ln2);
  const Floats y = clamped(x, -151.0f, 129.0f), shifted = y + shift, n = shifted - shift, r = y - n;
  const Ints count = std::bit_cast<Ints>(shifted);
  const Floats power = chosen(load_floats(sixteenths.data()), count);
  const Floats rest = chosen(std::bit_cast<Floats>(rests_of_powers), count);
  const Floats above = ((r * 0.0555059501f + 0.240234288f) * r + ln2) * r + rest;
  return _mm512_maskz_scalef_ps(0xffff, power * above + power, n);
}
// By an estimate of 14 bits, twice as fast as the instruction and rounded as that: the root s is
// made exact by what its square leaves of x, and the half of an inverse root h.
inline Floats sqrt(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Ints above = less(std::bit_cast<Ints>(x), min_of_usual_roots);
  const auto is_usual =
      _mm512_cmplt_epu32_mask(std::bit_cast<__m512i>(above), _mm512_set1_epi32(usual_roots));
  if (is_usual != 0xffff) [[unlikely]]
    return _mm512_maskz_sqrt_ps(0xffff, x);
  const Floats estimate = _mm512_maskz_rsqrt14_ps(0xffff, x);
  Floats s = x * estimate, h = estimate * 0.5f;
  const Floats missing = _mm512_fnmadd_ps(s, h, all_lanes(0.5f));
  s = _mm512_fmadd_ps(s, missing, s);
  h = _mm512_fmadd_ps(h, missing, h);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(s, s, x), h, s);
}
#else
inline Floats sqrt(Floats x) { return _mm256_sqrt_ps(x); }
#endif
// e**-|x|
inline Floats exp_of_minus_size(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats y = max(with_sign_of(all_lanes(-1.0f), x), -104.0f);
#if FLAMBEAU_ISA_RANK >= 4
  return exp_within(y);
#else
  // The power of two is kept 2**40 too high until the end, which may be subnormal.
  const Exponent parts(y);
  const Floats r = parts.r, power = parts.power(40);
  const Floats series = (r * (1.0f / 24) + (1.0f / 6)) * r + 0.5f;
  const Floats above = series * (r * r) + (r + parts.rest_of_power());
  return (power * above + power) * 0x1p-40f;
#endif
}
// log(1 + e**-|x|): what softplus has above max(x, 0).
inline Floats softplus_tail(Floats x) {
  const Floats u = exp_of_minus_size(x);
  return u * cpu::ISA_NAMESPACE::log1p_shares(u) + u;
}
#if FLAMBEAU_ISA_RANK >= 4
// tanh(softplus(x)) is a fraction of polynomials of e**x, and one where that is large.
inline Floats mish(Floats x) {
  const Floats power = exp_within(cpu::ISA_NAMESPACE::clamped(x, -104.0f, 30.0f));
  const Floats top = (power + 2.0f) * power;
  return x * (top / (top + 2.0f));
}
#else
// tanh(softplus(x)) is a fraction of polynomials of u = e**-|x|.
inline Floats mish(Floats x) {
  const Floats u = exp_of_minus_size(x);
  const Floats above = u * 2.0f + 1.0f, below = (u + 2.0f) * u;
  const Floats top = x > 0.0f ? above : below;
  return x * (top / (top + (x > 0.0f ? u * u * 2.0f : 2.0f + Floats{})));
}
#endif
inline Floats logaddexp(Floats a, Floats b) {
  const Floats top = a > b ? a : b, sum = top + softplus_tail(a - b);
  return (abs(a) == std::numeric_limits<float>::infinity()) & (a == b) ? a : sum;
}
inline Floats erf(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = min(magnitude(x), erf_end);
  return with_sign_of(x, min(t * erf_shares(t) + t * 0.25f, 1.0f));
}
inline Floats tanh(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = min(magnitude(x), 9.02f);
  return with_sign_of(x, min(t * tanh_shares(t), 1.0f));
}

inline Floats log(Floats x) { return cpu::ISA_NAMESPACE::log_simd(x); }
inline Floats log1p(Floats x) { return cpu::ISA_NAMESPACE::log1p_simd(x); }
#if FLAMBEAU_ISA_RANK >= 4
inline Floats log2(Floats x) {
  return cpu::ISA_NAMESPACE::log_to_base<cpu::ISA_NAMESPACE::BinaryBase>(x);
}
inline Floats log10(Floats x) {
  return cpu::ISA_NAMESPACE::log_to_base<cpu::ISA_NAMESPACE::DecimalBase>(x);
}
#endif
inline Floats atan(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = magnitude(x), u = t > 1.0f ? 1.0f / t : t, y = u * atan_shares(u) + u;
  return with_sign_of(x, t > 1.0f ? (half_pi - y) + half_pi_rest : y);
}

// The angle of the smaller to the larger side, taken from that of the axis which the larger one
// lies on, whose own rest is the same share of it everywhere.
inline Floats atan2(Floats y, Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Floats a = magnitude(y), b = magnitude(x);
  const Ints is_steep = a > b, is_left = std::bit_cast<Ints>(x) < 0;
  const Floats low = is_steep ? b : a, high = is_steep ? a : b;
  Floats ratio = high == 0.0f ? high : low / high;
  ratio = low == infinity ? all_lanes(1.0f) : ratio;
  const Floats size = ratio * atan_shares(ratio) + ratio;
  const Floats axis = is_steep ? all_lanes(half_pi) : is_left ? all_lanes(2 * half_pi) : Floats{};
  const Ints turn = (is_steep ^ is_left) & std::numeric_limits<int32_t>::min();
  const Floats away = std::bit_cast<Floats>(std::bit_cast<Ints>(size) ^ turn);
  const Floats angle = axis * (half_pi_rest / half_pi) + (axis + away);
  const Floats known = x == x ? y : x;
  return known == known ? with_sign_of(y, angle) : known;
}

}  // namespace math
}  // namespace flambeau
