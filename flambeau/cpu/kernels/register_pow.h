// a**b for registers of floats, by the logarithm of a to base two as a sum of two floats, so that
// its product with b keeps 24 bits. Right to one unit in the last place.
#pragma once

#include "flambeau/cpu/kernels/register_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// For 16 pieces of 0.703 <= z < 1.406 a number near 1 / z, and its logarithm in two parts, of which
// the first has so few bits that adding an exponent is exact. One is exact, for numbers close to
// it.
struct LogTable {
  LogTable() {
    for (int n = 0; n < 16; ++n) {
      const auto edge = [&](int m) { return std::bit_cast<float>(0x3f340000 + (m << 19)); };
      const double center = n == 9 ? 1 : (static_cast<double>(edge(n)) + edge(n + 1)) / 2;
      inverses[n] = static_cast<float>(1 / center);
      const double log = -std::log2(static_cast<double>(inverses[n]));
      logs[n] = static_cast<float>(std::round(log * 0x1p15) * 0x1p-15);
      rests[n] = static_cast<float>(log - logs[n]);
    }
  }
  Sixteen inverses, logs, rests;
};
inline const LogTable log_table;

// a * b - c, rounded once: what the product c of a and b has lost.
inline Floats rest_of_product(Floats a, Floats b, Floats c) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<Floats>(_mm512_fmsub_ps(std::bit_cast<__m512>(a), std::bit_cast<__m512>(b),
                                               std::bit_cast<__m512>(c)));
#else
  return std::bit_cast<Floats>(_mm256_fmsub_ps(std::bit_cast<__m256>(a), std::bit_cast<__m256>(b),
                                               std::bit_cast<__m256>(c)));
#endif
}

struct FloatSum {
  Floats first, second;
};
// The logarithm of a positive normal number to base two, plus `more`, an integer.
inline FloatSum log2_of(Floats a, Floats more) {
  constexpr float log2_e = 0x1.715476p0f, log2_e_rest = 0x1.4ae0c0p-26f;
  const Ints bits = std::bit_cast<Ints>(a), above = bits - 0x3f340000, piece = above >> 19;
  const Floats exponent = __builtin_convertvector(above >> 23, Floats) + more;
  const Floats z = std::bit_cast<Floats>(bits - (above & -0x800000));
  // z / center - 1 = r + r_rest exactly, and r times log2(e) is such a sum, too.
  const Floats inverse = log_table.inverses.at(piece), product = z * inverse;
  const Floats r_rest = rest_of_product(z, inverse, product), r = product - 1.0f;
  const Floats linear = r * log2_e;
  const Floats t = r + r_rest;
  Floats series = t * 0.288790786f - 0.360967492f;
  series = series * t + 0.480898285f;
  series = series * t - 0.721347449f;
  Floats rest = rest_of_product(r, all_lanes(log2_e), linear) + log_table.rests.at(piece);
  rest = r * log2_e_rest + rest;
  rest = r_rest * log2_e + rest;
  rest = (t * t) * series + rest;
  const Floats whole = exponent + log_table.logs.at(piece), sum = whole + linear;
  rest = (linear - (sum - whole)) + rest;
  const Floats log = sum + rest;
  return {log, rest - (log - sum)};
}

// For positive normal a, times 2**scale.
[[gnu::always_inline]] inline Floats pow_of_positive(Floats a, Floats b, Floats scale) {
  const auto [log, log_rest] = log2_of(a, scale);
  const Floats product = b * log;
  const Floats product_rest = clamped(b * log_rest + rest_of_product(b, log, product), -0.1f, 0.1f);
  const Floats y = clamped(product, -152.0f, 129.0f);
  const Floats shifted = y * float_lanes + math::integer_shift;
  const Floats r = (y - (shifted - math::integer_shift) * (1.0f / float_lanes)) + product_rest;
  Floats series = r * 0.0555050857f + 0.240233555f;
  if (float_lanes < 16) series = (r * 0.00961873122f + 0.0555093177f) * r + 0.240226507f;
  series = series * r + 0.693147182f;
  // The power of two in two parts, for exponents that a float has only in the product.
  const Ints n = std::bit_cast<Ints>(shifted);
  const Ints whole = n - std::bit_cast<int32_t>(math::integer_shift);
  const Ints half = whole >> (lane_bits + 1), other = whole - (half << lane_bits);
  const Ints bits = chosen(std::bit_cast<Ints>(powers_of_two), n) + (other << (23 - lane_bits));
  const Floats power = std::bit_cast<Floats>(bits);
  const Floats above = series * r + chosen(std::bit_cast<Floats>(rests_of_powers), n);
  return (power * above + power) * std::bit_cast<Floats>((half + 127) << 23);
}

// Everything else, as C's pow has it.
[[gnu::noinline]] inline Floats pow_of_any(Floats a, Floats b) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Floats size = size_of(a), exponent = size_of(b);
  const Ints is_tiny = size < 0x1p-126f;
  Floats y =
      pow_of_positive(is_tiny ? size * 0x1p24f : size, b, is_tiny ? all_lanes(-24.0f) : Floats{});
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

// Whether every lane holds true.
inline bool all_true(Ints lanes) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_movepi32_mask(std::bit_cast<__m512i>(lanes)) == 0xffff;
#else
  return _mm256_movemask_ps(std::bit_cast<__m256>(lanes)) == 0xff;
#endif
}

inline Floats pow_by_register(Floats a, Floats b) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Ints is_usual = (a >= 0x1p-126f) & (a < infinity) & (size_of(b) < infinity);
  return all_true(is_usual) ? pow_of_positive(a, b, Floats{}) : pow_of_any(a, b);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
