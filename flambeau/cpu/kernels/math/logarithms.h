// Logarithms for registers of floats: with the instructions that take a number apart within one
// unit in the last place, mostly within 0.6.
#pragma once

#include "flambeau/cpu/kernels/simd/tables.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A number as the sum of two.
struct FloatSum {
  Floats first, second;
};

// For 16 intervals of 0.703 <= z < 1.406 a number near 1 / z of eight bits, and its logarithm in
// two parts, of which the first has so few bits that adding a multiple of that of two is exact. One
// is exact, for numbers close to it.
struct LogIntervals {
  LogIntervals() {
    for (int n = 0; n < 16; ++n) {
      const auto edge = [&](int m) { return std::bit_cast<float>(0x3f340000 + (m << 19)); };
      const double center = n == 9 ? 1 : (static_cast<double>(edge(n)) + edge(n + 1)) / 2;
      inverses[n] = static_cast<float>(std::round(128 / center) / 128);
      const double log = -std::log(static_cast<double>(inverses[n]));
      logs[n] = static_cast<float>(std::round(log * 0x1p14) * 0x1p-14);
      rests[n] = static_cast<float>(log - logs[n]);
    }
  }
  Sixteen inverses, logs, rests;
};
inline const LogIntervals log_intervals;

// A logarithm as the sum of a number of at most 22 bits and a smaller one.
struct LogParts {
  Floats whole, rest;
};
// That of 1 + r for small r, plus that of the number whose bits are `above` those of the least of
// the intervals, less what 1 + r is of it.
[[gnu::always_inline]] inline LogParts log_parts_from(Ints above, Floats r) {
  constexpr float ln2 = 0x1.62e4p-1f;  // of 15 bits
  constexpr auto ln2_rest = static_cast<float>(std::numbers::ln2 - ln2);
  const Ints interval = above >> 19;
  const Floats n = __builtin_convertvector(above >> 23, Floats);
  const Floats whole = n * ln2 + log_intervals.logs.at(interval);
  const Floats rest = n * ln2_rest + log_intervals.rests.at(interval);
  Floats series = r * 0.2f - 0.25f;
  series = series * r + (1.0f / 3);
  series = series * r - 0.5f;
  return {whole, r + ((r * r) * series + rest)};
}
// That of a positive normal number.
[[gnu::always_inline]] inline LogParts log_parts(Floats x) {
  const Ints bits = std::bit_cast<Ints>(x), above = less(bits, 0x3f340000);
  const Floats z = std::bit_cast<Floats>(less(bits, above & -0x800000));
  return log_parts_from(above, z * log_intervals.inverses.at(above >> 19) - 1.0f);
}

#if FLAMBEAU_ISA_RANK >= 4
// The logarithms of e and of two.
struct NaturalBase {
  static constexpr double of_e = 1, of_two = std::numbers::ln2;
};
struct BinaryBase {
  static constexpr double of_e = std::numbers::log2e, of_two = 1;
};
struct DecimalBase {
  static constexpr double of_e = std::numbers::log10e, of_two = std::numbers::ln2 * of_e;
};

// For 32 intervals of 1 <= z < 2 a number near 1 / z of so few bits that the product with z is
// exact, and its logarithm in two parts, of which the first has so few bits that adding a multiple
// of that of two is exact. At both ends the product is z or its half: next to 1 nothing is lost.
struct InverseTable {
  InverseTable() {
    for (int n = 0; n < 32; ++n) {
      const double center = n == 0 ? 1 : n == 31 ? 2 : 1 + (n + 0.5) / 32;
      inverses[n] = static_cast<float>(std::round(64 / center) / 64);
    }
  }
  Numbers<32> inverses;
};
inline const InverseTable inverse_table;

constexpr float few_bits(double x) {
  return static_cast<float>(static_cast<int>(x * 0x1p15 + 0.5)) * 0x1p-15f;
}
template <class Base>
struct LogTable {
  LogTable() {
    for (int n = 0; n < 32; ++n) {
      const double inverse = std::round(64 / (n == 0 ? 1 : n == 31 ? 2 : 1 + (n + 0.5) / 32)) / 64;
      const double log = -std::log(inverse) * Base::of_e;
      logs[n] = few_bits(log);
      rests[n] = static_cast<float>(log - logs[n]);
      rounded[n] = static_cast<float>(log);
    }
  }
  Numbers<32> logs, rests, rounded;
};
template <class Base>
inline const LogTable<Base> log_table;

// x = 2**n (1 + r) / inverse, and its logarithm as a sum, of which the second is small.
struct LogSteps {
  Floats z, n, inverse, r;
  Ints interval;
  [[gnu::always_inline]] explicit LogSteps(Floats x)
      : z(_mm512_maskz_getmant_ps(0xffff, x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan)),
        n(_mm512_maskz_getexp_ps(0xffff, x)),
        interval(std::bit_cast<Ints>(z) >> 18) {
    inverse = inverse_table.inverses.at(interval);
    r = z * inverse - 1.0f;
  }
  template <class Base>
  [[nodiscard, gnu::always_inline]] FloatSum log() const {
    constexpr auto of_e = static_cast<float>(Base::of_e);
    const Floats whole = n * few_bits(Base::of_two) + log_table<Base>.logs.at(interval);
    const Floats sum = r * of_e + whole;
    return {sum, (r * of_e - (sum - whole)) + tail<Base>(r, rest<Base>())};
  }
  // What the table and n leave out.
  template <class Base>
  [[nodiscard, gnu::always_inline]] Floats rest() const {
    constexpr float of_two = few_bits(Base::of_two);
    constexpr auto of_two_rest = static_cast<float>(Base::of_two - of_two);
    const Floats of_interval = log_table<Base>.rests.at(interval);
    return of_two_rest != 0 ? n * of_two_rest + of_interval : of_interval;
  }
  // The logarithm of 1 + t less t times that of e as a float, and a rest.
  template <class Base>
  [[gnu::always_inline]] static Floats tail(Floats t, Floats rest) {
    constexpr auto of_e_rest = static_cast<float>(Base::of_e - static_cast<float>(Base::of_e));
    constexpr auto scaled = [](double c) { return static_cast<float>(c * Base::of_e); };
    Floats series = t * scaled(0.197807681) - scaled(0.250143476);
    series = series * t + scaled(0.33333443);
    series = series * t - scaled(0.5 - 2.45932247e-8);
    return (of_e_rest != 0 ? series * t + of_e_rest : series * t) * t + rest;
  }
};

// y, but what a logarithm is of zero, infinity, negative numbers and NaN.
[[gnu::always_inline]] inline Floats with_ends_of_log(Floats y, Floats x) {
  constexpr int quiet = 2, none = 3, below = 4, above = 5;
  constexpr int answers = quiet | quiet << 4 | below << 8 | none << 16 | above << 20 | none << 24;
  return _mm512_fixupimm_ps(y, x, _mm512_set1_epi32(answers), 0);
}
template <class Base>
[[gnu::always_inline]] inline Floats log_to_base(Floats x) {
  const auto [first, second] = LogSteps(x).log<Base>();
  return with_ends_of_log(first + second, x);
}
// That of a positive number right to some 20 bits; of others one that is not finite.
template <class Base>
[[gnu::always_inline]] inline Floats coarse_log(Floats x) {
  constexpr auto scaled = [](double c) { return static_cast<float>(c * Base::of_e); };
  constexpr auto of_two = static_cast<float>(Base::of_two);
  const LogSteps steps(x);
  Floats series = steps.r * scaled(-0.250244357) + scaled(0.333528774);
  series = series * steps.r - scaled(0.49999992);
  series = series * steps.r + scaled(1);
  return steps.r * series + (steps.n * of_two + log_table<Base>.rounded.at(steps.interval));
}
// With what the sum 1 + x has lost of x, which is of a size with its last bit.
inline Floats log1p_simd(Floats x) {
  constexpr float ln2 = few_bits(NaturalBase::of_two);
  const Floats one_more = x + 1.0f, lost = x - (one_more - 1.0f);
  const LogSteps steps(one_more);
  const Ints down = less(std::bit_cast<Ints>(steps.z), std::bit_cast<Ints>(one_more));
  const Ints bits = larger_or_second(down, Ints{} - 0x3e000000);
  const auto share =
      std::bit_cast<Floats>(std::bit_cast<Words>(bits) + std::bit_cast<Words>(steps.inverse));
  const Floats t = lost * share + steps.r;
  const Floats rest = lost * share + steps.rest<NaturalBase>();
  const Floats whole = steps.n * ln2 + log_table<NaturalBase>.logs.at(steps.interval);
  const Floats y = whole + (steps.r + steps.tail<NaturalBase>(t, rest));
  return with_sign_of(x, with_ends_of_log(y, one_more));
}
inline Floats log_simd(Floats x) { return log_to_base<NaturalBase>(x); }
#else
inline Floats sum_of(LogParts log) { return log.whole + log.rest; }

// The logarithm of every x: of subnormal ones by that of a multiple.
[[gnu::noinline]] inline Floats log_of_any(Floats x) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr auto more = static_cast<float>(-24 * std::numbers::ln2);
  const Ints is_tiny = x < 0x1p-126f;
  const Floats y = sum_of(log_parts(is_tiny ? x * 0x1p24f : x)), moved = is_tiny ? y + more : y;
  const Floats end = x == 0.0f ? all_lanes(-infinity) : moved;
  const Floats above = x < infinity ? end : x;  // which is infinity or NaN
  return x < 0.0f ? all_lanes(std::numeric_limits<float>::quiet_NaN()) : above;
}
inline Floats log_simd(Floats x) {
  const Floats y = sum_of(log_parts(x));
  if (all_between(x, 0x1p-126f, std::numeric_limits<float>::infinity())) [[likely]]
    return y;
  return log_of_any(x);
}
// As log(1 + x), but with r from x itself, not from the sum, which has lost its last bits.
inline Floats log1p_simd(Floats x) {
  const Floats sum = x + 1.0f;
  const Ints above = less(std::bit_cast<Ints>(sum), 0x3f340000);
  const Ints inverse = std::bit_cast<Ints>(log_intervals.inverses.at(above >> 19));
  const Floats share = std::bit_cast<Floats>(less(inverse, above & -0x800000));
  const Floats y = with_sign_of(x, sum_of(log_parts_from(above, x * share + (share - 1.0f))));
  if (all_between(sum, 0x1p-24f, 0x1p100f)) [[likely]]
    return y;
  const Floats far = x < 0x1p100f ? y : log_of_any(x);
  const Floats end = all_lanes(-std::numeric_limits<float>::infinity());
  const Floats below = x == -1.0f ? end : all_lanes(std::numeric_limits<float>::quiet_NaN());
  return x <= -1.0f ? below : far;
}
#endif

}  // namespace flambeau::cpu::ISA_NAMESPACE
