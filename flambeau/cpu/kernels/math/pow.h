// a**b for registers of floats, by the logarithm of a to base two as a sum of two floats, so that
// its product with b keeps 24 bits. Right to one unit in the last place.
#pragma once

#include "flambeau/cpu/kernels/math/elementary.h"

namespace flambeau::cpu::ISA_NAMESPACE {

#if FLAMBEAU_ISA_RANK >= 4
// b log2(a) as a sum of two numbers, and that sum, for a > 0. For large b, which make much of what
// a logarithm is wrong by, the linear and the square term of that are summed without a loss.
struct PowerOfTwo {
  Floats first, second, sum;
  [[gnu::always_inline]] PowerOfTwo(Floats a, Floats b, bool exact) {
    const LogSteps steps(a);
    const auto [log, log_rest] = exact ? exact_log2(steps) : steps.log<BinaryBase>();
    first = b * log;
    second = b * log_rest + rest_of_product(b, log, first);
    sum = first + second;
  }
  [[nodiscard, gnu::always_inline]] Floats value() const {
    constexpr float shift = 0x1.8p19f;  // a number whose last bits count sixteenths
    constexpr auto ln2 = static_cast<float>(std::numbers::ln2);
    const Floats shifted = sum + shift, n = shifted - shift, r = (first - n) + second;
    const Ints count = std::bit_cast<Ints>(shifted);
    const Floats power = chosen(load_floats(sixteenths.data()), count);
    const Floats rest = chosen(std::bit_cast<Floats>(rests_of_powers), count);
    const Floats above = ((r * 0.0555059501f + 0.240234288f) * r + ln2) * r + rest;
    return _mm512_maskz_scalef_ps(0xffff, power * above + power, n);
  }

 private:
  static FloatSum exact_log2(const LogSteps& steps) {
    constexpr auto linear = static_cast<float>(std::numbers::log2e);
    constexpr auto linear_rest = static_cast<float>(std::numbers::log2e - linear);
    constexpr auto square = static_cast<float>(-0.5 * std::numbers::log2e);
    constexpr auto scaled = [](double c) { return static_cast<float>(c * std::numbers::log2e); };
    const Floats r = steps.r, whole = steps.n + log_table<BinaryBase>.logs.at(steps.interval);
    const Floats factor = r * square + linear, factor_rest = r * square + (linear - factor);
    Floats series = r * scaled(-1.0 / 6) + scaled(0.2);
    series = series * r - scaled(0.25);
    series = (series * r + scaled(1.0 / 3)) * r;
    const Floats rest = (series * r + linear_rest) + factor_rest;
    const Floats sum = r * factor + whole, lost = r * factor - (sum - whole);
    return {sum, lost + (r * rest + log_table<BinaryBase>.rests.at(steps.interval))};
  }
};
constexpr float max_power = 1024;  // of two, that is infinite

inline Floats pow_of_size(Floats a, Floats b) {
  PowerOfTwo parts(a, b, true);
  parts.second = magnitude(parts.first) < max_power ? parts.second : Floats{};
  parts.first = clamped(parts.first, -max_power, max_power);
  parts.sum = parts.first + parts.second;
  return parts.value();
}
#else
// For 16 intervals of 0.703 <= z < 1.406 a number near 1 / z, and its logarithm in two parts, of
// which the first has so few bits that adding an exponent is exact. One is exact, for numbers close
// to it.
struct PowTable {
  PowTable() {
    for (int n = 0; n < 16; ++n) {
      const auto edge = [&](int m) { return std::bit_cast<float>(0x3f340000 + (m << 19)); };
      const double center = n == 9 ? 1 : (static_cast<double>(edge(n)) + edge(n + 1)) / 2;
      inverses[n] = static_cast<float>(1 / center);
      const double log = -std::log2(static_cast<double>(inverses[n]));
      logs[n] = static_cast<float>(std::round(log * 0x1p15) * 0x1p-15);
      rests[n] = static_cast<float>(log - logs[n]);
      rounded[n] = static_cast<float>(log);
    }
  }
  Sixteen inverses, logs, rests, rounded;
};
inline const PowTable pow_table;

// Exponents below it have products with every logarithm whose rests are below a tenth.
constexpr float usual_exponents = 0x1p13f;

// The logarithm of a positive normal number to base two, plus an integer, if there is one.
template <class... Integer>
[[gnu::always_inline]] inline FloatSum log2_of(Floats a, Integer... more) {
  constexpr float log2_e = 0x1.715476p0f, log2_e_rest = 0x1.4ae0c0p-26f;
  const Ints bits = std::bit_cast<Ints>(a), above = less(bits, 0x3f340000), interval = above >> 19;
  const Floats exponent = (__builtin_convertvector(above >> 23, Floats) + ... + more);
  const Floats z = std::bit_cast<Floats>(less(bits, above & -0x800000));
  // z / center - 1 = r + r_rest exactly, and r times log2(e) is such a sum, too.
  const Floats inverse = pow_table.inverses.at(interval), product = z * inverse;
  const Floats r_rest = rest_of_product(z, inverse, product), r = product - 1.0f;
  const Floats linear = r * log2_e;
  const Floats t = r + r_rest;
  Floats series = t * 0.288790786f - 0.360967492f;
  series = series * t + 0.480898285f;
  series = series * t - 0.721347449f;
  Floats rest = rest_of_product(r, all_lanes(log2_e), linear) + pow_table.rests.at(interval);
  rest = r * log2_e_rest + rest;
  rest = r_rest * log2_e + rest;
  rest = (t * t) * series + rest;
  const Floats whole = exponent + pow_table.logs.at(interval), sum = whole + linear;
  rest = (linear - (sum - whole)) + rest;
  const Floats log = sum + rest;
  return {log, rest - (log - sum)};
}

// 2**(n / lanes) times e, where n stands in the last bits of `shifted`: in one rounding, and beyond
// the ends of the range too.
inline Floats times_power(Floats shifted, Floats above) {
  const Ints n = std::bit_cast<Ints>(shifted);
  // The power of two in two parts, for exponents that a float has only in the product.
  const Ints whole = n - std::bit_cast<int32_t>(math::integer_shift);
  const Ints half = whole >> (lane_bits + 1), other = whole - (half << lane_bits);
  const Ints bits = chosen(std::bit_cast<Ints>(powers_of_two), n) + (other << (23 - lane_bits));
  const Floats power = std::bit_cast<Floats>(bits);
  return (power * above + power) * std::bit_cast<Floats>((half + 127) << 23);
}

// For positive normal a, times 2**scale where that is given. Without, b is a usual exponent.
template <class... Scale>
[[gnu::always_inline]] inline Floats pow_of_positive(Floats a, Floats b, Scale... scale) {
  const auto [log, log_rest] = log2_of(a, scale...);
  Floats y = b * log, rest = b * log_rest + rest_of_product(b, log, y);
  rest = clamped(rest, -0.1f, 0.1f);
  y = clamped(y, -152.0f, 129.0f);
  const Floats shifted = y * float_lanes + math::integer_shift;
  const Floats r = (y - (shifted - math::integer_shift) * (1.0f / float_lanes)) + rest;
  Floats series = (r * 0.00961873122f + 0.0555093177f) * r + 0.240226507f;
  series = series * r + 0.693147182f;
  const Ints n = std::bit_cast<Ints>(shifted);
  return times_power(shifted, series * r + chosen(std::bit_cast<Floats>(rests_of_powers), n));
}
inline Floats pow_of_size(Floats a, Floats b) {
  const Ints is_tiny = a < 0x1p-126f;
  return pow_of_positive(is_tiny ? a * 0x1p24f : a, b, is_tiny ? all_lanes(-24.0f) : Floats{});
}
#endif

// Everything else, as C's pow has it.
[[gnu::noinline]] inline Floats pow_of_any(Floats a, Floats b) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Floats size = magnitude(a), exponent = magnitude(b);
  Floats y = pow_of_size(size, b);
  const Ints grows = (b > 0.0f) == (size > 1.0f);
  const Ints at_limit = (size == 0.0f) | (size == infinity) | (exponent == infinity);
  y = at_limit ? (grows ? all_lanes(infinity) : Floats{}) : y;
  const auto is_whole = [](Floats x) { return (x >= 0x1p23f) | ((x + 0x1p23f) - 0x1p23f == x); };
  const Ints is_odd = is_whole(exponent) & ~is_whole(exponent * 0.5f);
  y = (std::bit_cast<Ints>(a) < 0) & is_odd ? -y : y;
  const Ints has_none = (a < 0.0f) & (size < infinity) & ~is_whole(exponent);
  y = has_none | (a != a) | (b != b) ? all_lanes(std::numeric_limits<float>::quiet_NaN()) : y;
  const Ints is_one = (a == 1.0f) | (b == 0.0f) | ((size == 1.0f) & (exponent == infinity));
  return is_one ? all_lanes(1.0f) : y;
}

// Rounded to 19 bits: powers that lie in the middle of two numbers of bfloat16, as squares of small
// integers do, are there exactly.
inline Floats of_few_bits(Floats x) {
  return std::bit_cast<Floats>((std::bit_cast<Words>(x) + 16u) & ~31u);
}

#if FLAMBEAU_ISA_RANK >= 4
// Where a is not a positive number, the power of two is NaN or infinite.
[[gnu::always_inline]] inline Floats pow_simd(Floats a, Floats b) {
  const PowerOfTwo parts(a, b, false);
  if (all_between(parts.sum * parts.sum + b * b, 0.0f, 0x1p14f)) [[likely]]
    return parts.value();
  return pow_of_any(a, b);
}
// The same for results of reduced precision: right to 16 bits, for which one float is enough of a
// logarithm.
[[gnu::always_inline]] inline Floats coarse_pow_simd(Floats a, Floats b) {
  const Floats y = b * coarse_log<BinaryBase>(a);
  return mended<pow_of_any>(of_few_bits(exp2_flushed(y)), lanes_of<not_finite>(y), a, b);
}
#else
inline Ints usual_powers(Floats a, Floats b) {
  const Words above_least = std::bit_cast<Words>(a) - 0x00800000u;
  return (above_least < 0x7f000000u) & (magnitude(b) < usual_exponents);
}
[[gnu::always_inline]] inline Floats pow_simd(Floats a, Floats b) {
  if (all_true(usual_powers(a, b))) [[likely]]
    return pow_of_positive(a, b);
  return pow_of_any(a, b);
}
[[gnu::always_inline]] inline Floats coarse_pow_simd(Floats a, Floats b) {
  const Ints bits = std::bit_cast<Ints>(a), above = less(bits, 0x3f340000), interval = above >> 19;
  const Floats z = std::bit_cast<Floats>(less(bits, above & -0x800000));
  const Floats r = z * pow_table.inverses.at(interval) - 1.0f;
  Floats series = r * -0.360967492f + 0.480898285f;
  series = series * r - 0.721347449f;
  series = series * r + 1.44269504f;
  const Floats exponent = __builtin_convertvector(above >> 23, Floats);
  const Floats y = b * (r * series + (exponent + pow_table.rounded.at(interval)));
  const Floats power = of_few_bits(exp2_anywhere(y));
  const Ints usual = usual_powers(a, b) & (magnitude(y) < 126.0f);
  if (all_true(usual)) [[likely]]
    return power;
  return usual ? power : pow_of_any(a, b);
}
#endif

}  // namespace flambeau::cpu::ISA_NAMESPACE
