// Sines, tangents and their kin for registers of floats, as math/elementary.h has the others: each
// within one unit in the last place up to arguments of some thousands, hyperbolic ones within two.
#pragma once

#include "flambeau/cpu/kernels/math/elementary.h"

namespace flambeau {

namespace cpu::ISA_NAMESPACE {

// About 1 / x and one over the root of x, right to 14 bits or more.
inline Floats inverse_estimate(Floats x) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_maskz_rcp14_ps(0xffff, x);
#else
  return 1.0f / x;
#endif
}
inline Floats inverse_root_estimate(Floats x) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_maskz_rsqrt14_ps(0xffff, x);
#else
  return 1.0f / math::sqrt(x);
#endif
}
inline Floats with_sign_flipped(Floats x, Ints turn) {
  const Ints sign = turn & std::numeric_limits<int32_t>::min();
  return std::bit_cast<Floats>(std::bit_cast<Ints>(x) ^ sign);
}

// x as a number of quarter turns, in the last bits, and the angle r - over that is left of it. Each
// product with the first two parts of a quarter turn is exact. What is minus zero stays so.
struct Angle {
  static constexpr float most = 4096;
  Ints quarters;
  Floats r, over, square;
  [[gnu::always_inline]] explicit Angle(Floats x) {
    constexpr float turn = 2 * std::numbers::inv_pi_v<float>;
    constexpr float first = 0x1.921fb4p+0f, second = 0x1.444p-24f, third = 0x1.68c234p-39f;
    const Floats shifted = x * turn + math::integer_shift, n = shifted - math::integer_shift;
    const Floats near = x - n * first;
    quarters = std::bit_cast<Ints>(shifted);
    r = near - n * second;
    over = ((r - near) + n * second) + n * third;
    square = r * r;
  }
  // What the sine misses of r, and the cosine has above one.
  [[nodiscard, gnu::always_inline]] Floats sine_over() const {
    const Floats series = (square * 1.9515118e-4f - 8.33215937e-3f) * square + 0.166666552f;
    return (r * square) * series + over;
  }
  [[nodiscard, gnu::always_inline]] Floats cosine_rest() const {
    Floats series = (square * 2.44329676e-5f - 1.38873141e-3f) * square + 4.16666456e-2f;
    series = series * square - 0.5f;
    return series * square + r * over;
  }
  // The sine of the angle and some more quarter turns.
  [[nodiscard, gnu::always_inline]] Floats sine(int more) const {
    const Ints turns = quarters + more;
    const Floats y = (turns & 1) != 0 ? cosine_rest() + 1.0f : r - sine_over();
    return with_sign_flipped(y, turns << 30);
  }
};

// The functions of angles in double precision, by quarter turns in two parts. Beyond them, and for
// what is no number, by the C library.
struct FarAngle {
  double sine, cosine;
  bool is_odd, is_negated;
  [[gnu::always_inline]] explicit FarAngle(double x, int more) {
    constexpr double quarter = 0x1.921fb54442d18p0, quarter_rest = 0x1.1a62633145c07p-54;
    const double n = __builtin_rint(x * (2 * std::numbers::inv_pi));
    const double r = (x - n * quarter) - n * quarter_rest, square = r * r, turns = n + more;
    double odd = square * -2.5052108385441718775e-8 + 2.7557319223985890653e-6;
    odd = (odd * square - 1.9841269841269841270e-4) * square + 8.3333333333333333333e-3;
    sine = (odd * square - 0.16666666666666666667) * square * r + r;
    double even = square * 2.0876756987868098979e-9 - 2.7557319223985890653e-7;
    even = (even * square + 2.4801587301587301587e-5) * square - 1.3888888888888888889e-3;
    even = (even * square + 4.1666666666666666667e-2) * square - 0.5;
    cosine = even * square + 1;
    is_odd = turns != 2 * __builtin_rint(turns * 0.5);
    const double left = turns - 4 * __builtin_rint(turns * 0.25);  // -2 ... 2
    is_negated = (left == -1) | (left == 2) | (left == -2);
  }
  [[gnu::always_inline]] static double sin(double x) {
    const FarAngle at(x, 0);
    const double size = at.is_odd ? at.cosine : at.sine;
    return at.is_negated ? -size : size;
  }
  [[gnu::always_inline]] static double cos(double x) {
    const FarAngle at(x, 1);
    const double size = at.is_odd ? at.cosine : at.sine;
    return at.is_negated ? -size : size;
  }
  [[gnu::always_inline]] static double tan(double x) {
    const FarAngle at(x, 0);
    const double top = at.is_odd ? -at.cosine : at.sine;
    return top / (at.is_odd ? at.sine : at.cosine);
  }
};
// y, but where |x| is not below a bound a function of doubles, for those up to another, and the C
// library's.
template <class F, class Library>
[[gnu::noinline]] Floats with_far_lanes(F f, Library library, Floats x, Floats y, float bound) {
  constexpr float most = 0x1p40f;
  const Ints is_near = magnitude(x) < bound;
  float from[float_lanes], to[float_lanes];
  store_floats(x, from);
  for (int lane = 0; lane < float_lanes; ++lane) to[lane] = static_cast<float>(f(from[lane]));
  if (!all_true(magnitude(x) < most)) {
    for (int lane = 0; lane < float_lanes; ++lane) {
      const double value = from[lane];
      if (!(std::abs(value) < most)) to[lane] = static_cast<float>(library(value));
    }
  }
  return is_near ? y : load_floats(to);
}

#if FLAMBEAU_ISA_RANK >= 4
// Eighths of a half turn, moved a little to where the sine and the cosine are floats but for
// 2**-35.
struct SineTable {
  SineTable() {
    constexpr float moves[] = {0, -0x1.d32db6p-9f, -0x1.65cebap-9f, 0x1.d32db6p-9f};
    for (int n = 0; n < 16; ++n) {
      moved[n] = moves[n % 4];
      const double angle = n * (std::numbers::pi / 8) + moved[n];
      sines[n] = static_cast<float>(n % 8 == 0 ? 0 : std::sin(angle));
      cosines[n] = static_cast<float>(n % 8 == 4 ? 0 : std::cos(angle));
    }
  }
  Sixteen moved, sines, cosines;
};
inline const SineTable sine_table;

// The sine of x and some more quarter turns, for |x| < 4096: from an angle of the table on, of
// which r - over is left.
template <int more>
[[gnu::always_inline]] inline Floats sine_by_table(Floats x) {
  constexpr auto steps = static_cast<float>(8 * std::numbers::inv_pi);
  constexpr float shift = math::integer_shift + 4 * more;
  constexpr float first = 0x1.921fb4p-2f, second = 0x1.444p-26f, third = 0x1.68c234p-41f;
  const Floats shifted = x * steps + shift, n = shifted - shift, near = x - n * first;
  const Ints place = std::bit_cast<Ints>(shifted);
  const Floats moved = n * second + sine_table.moved.at(place), r = near - moved;
  const Floats over = ((r - near) + moved) + n * third, square = r * r;
  const Floats sine_rest = (r * square) * (square * 0.00832147292f - 0.166666502f) - over;
  const Floats cosine_rest = (square * 0.0415890328f - 0.499999035f) * square;
  const Floats sine = sine_table.sines.at(place), cosine = sine_table.cosines.at(place);
  const Floats sum = cosine * r + sine, lost = cosine * r - (sum - sine);
  return sum + (sine * cosine_rest + (cosine * sine_rest + lost));
}
template <int more>
[[gnu::always_inline]] inline Floats sine_of_near(Floats x) {
  const Floats y = sine_by_table<more>(x);
  if constexpr (more == 1) return y;
  constexpr int same = 1, zero = 8;  // where x is zero, its sine is the same, with its sign
  return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(same << zero), 0);
}
#else
template <int more>
[[gnu::always_inline]] inline Floats sine_of_near(Floats x) {
  return Angle(x).sine(more);
}
#endif

// The angle whose sine is t >= 0: start + rest up to a half; beyond it twice that, taken off a
// quarter turn, as the root of (1 - t) / 2 is the sine of the half of what is missing.
struct Arc {
  Ints is_steep;
  Floats start, rest;
  [[gnu::always_inline]] explicit Arc(Floats t) {
    is_steep = t > 0.5f;
    const Floats left = 0.5f - t * 0.5f;
    const Floats inverse = inverse_root_estimate(left + std::numeric_limits<float>::min());
    const Floats half = inverse * 0.5f, estimate = left * inverse;
    const Floats root = (left - estimate * estimate) * half + estimate;
    const Floats root_rest = (left - root * root) * half;
    const Floats square = is_steep ? left : t * t;
    start = is_steep ? root : t;
    Floats series = square * 4.21662591e-2f + 2.41795406e-2f;
    series = series * square + 4.54703718e-2f;
    series = series * square + 7.49529749e-2f;
    series = series * square + 0.166667521f;
    rest = (start * square) * series + (is_steep ? root_rest : Floats{});
  }
};

}  // namespace cpu::ISA_NAMESPACE

namespace math {

inline Floats sin(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats y = sine_of_near<0>(x);
  if (all_between(magnitude(x), 0.0f, Angle::most)) [[likely]]
    return y;
  return with_far_lanes([](double v) { return FarAngle::sin(v); },
                        [](double v) { return std::sin(v); }, x, y, Angle::most);
}
inline Floats cos(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats y = sine_of_near<1>(x);
  if (all_between(magnitude(x), 0.0f, Angle::most)) [[likely]]
    return y;
  return with_far_lanes([](double v) { return FarAngle::cos(v); },
                        [](double v) { return std::cos(v); }, x, y, Angle::most);
}
// By a polynomial, or minus one over it, made exact by what it misses of one.
inline Floats tan(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Angle angle(x);
  const Floats square = angle.square;
  Floats series = square * 4.37896978e-3f + 8.42096197e-5f;
  series = series * square + 1.08399037e-2f;
  series = series * square + 2.12806538e-2f;
  series = series * square + 5.40602058e-2f;
  series = series * square + 0.133326605f;
  series = series * square + 0.333333492f;
  const Floats rest = (angle.r * square) * series - (angle.over * square + angle.over);
  const Floats even = angle.r + rest, inverse = inverse_estimate(even);
  const Floats missing = (1.0f - inverse * angle.r) - inverse * rest;
  const Floats y = (angle.quarters & 1) != 0 ? -(inverse * missing + inverse) : even;
  if (all_between(magnitude(x), 0.0f, Angle::most)) [[likely]]
    return y;
  return with_far_lanes([](double v) { return FarAngle::tan(v); },
                        [](double v) { return std::tan(v); }, x, y, Angle::most);
}

// A quarter of e**t for t >= 0, which is finite where hyperbolic functions are.
[[gnu::always_inline]] inline Floats quarter_of_exp(Floats t) {
  using namespace cpu::ISA_NAMESPACE;
#if FLAMBEAU_ISA_RANK >= 4
  return exp_within(min(t, 90.0f), 0.25f);
#else
  const Exponent parts(min(t, 90.0f));
  const Floats r = parts.r, power = parts.power(-2);
  const Floats series = (r * (1.0f / 24) + (1.0f / 6)) * r + 0.5f;
  return power * (series * (r * r) + (r + parts.rest_of_power())) + power;
#endif
}
inline Floats cosh(Floats x) {
  const Floats quarter = quarter_of_exp(cpu::ISA_NAMESPACE::magnitude(x));
  return quarter * 2.0f + 0.125f / quarter;
}
inline Floats sinh(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = magnitude(x), square = x * x, quarter = quarter_of_exp(t);
  const Floats far = quarter * 2.0f - 0.125f / quarter;
  Floats series = square * 2.81695156e-6f + 1.98361595e-4f;
  series = series * square + 8.3333496e-3f;
  series = series * square + 0.166666672f;
  return t < 1.0f ? (x * square) * series + x : with_sign_of(x, far);
}

inline Floats asin(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Arc arc(magnitude(x));
  const Floats far = half_pi - arc.start * 2.0f;
  const Floats far_rest = ((half_pi - far) - arc.start * 2.0f) + (half_pi_rest - arc.rest * 2.0f);
  return with_sign_of(x, arc.is_steep ? far + far_rest : arc.start + arc.rest);
}
// From the axis that lies next: 0 and pi where steep, pi / 2 elsewhere.
inline Floats acos(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Arc arc(magnitude(x));
  const Floats quarter = all_lanes(half_pi);
  const Floats axis = arc.is_steep ? quarter - with_sign_of(x, quarter) : quarter;
  const Ints turn = std::bit_cast<Ints>(arc.is_steep ? x : -x);
  const Floats start = arc.is_steep ? arc.start + arc.start : arc.start;
  const Floats rest = arc.is_steep ? arc.rest + arc.rest : arc.rest;
  const Floats away = with_sign_flipped(start, turn), y = axis + away;
  const Floats lost = axis * (half_pi_rest / half_pi) + with_sign_flipped(rest, turn);
  return y + ((away - (y - axis)) + lost);
}

#if FLAMBEAU_ISA_RANK >= 4
// By an estimate, and what its square times x misses of one.
inline Floats rsqrt(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  constexpr float least = 0x1p-126f, infinity = std::numeric_limits<float>::infinity();
  const Floats estimate = inverse_root_estimate(x), missing = 1.0f - (x * estimate) * estimate;
  const Floats y = (estimate * missing) * (missing * 0.375f + 0.5f) + estimate;
  if (all_between(x, least, infinity)) [[likely]]
    return y;
  const Floats root = _mm512_maskz_sqrt_ps(0xffff, x);
  return (x >= least) & (x < infinity) ? y : 1.0f / root;
}
#endif

}  // namespace math
}  // namespace flambeau
