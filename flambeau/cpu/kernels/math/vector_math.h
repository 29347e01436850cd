// Functions of a whole register of floats, for formulas whose plain loops are bound by arithmetic:
// with a table of as many numbers as a register has lanes, which one instruction looks up in all
// lanes, a polynomial of degree three is enough for the exponential, and of degree five for gelu.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "flambeau/cpu/kernels/simd/lanes.h"
#include "flambeau/kernels/math.h"

namespace flambeau {

namespace cpu::ISA_NAMESPACE {

constexpr int float_lanes = register_bytes / sizeof(float);
typedef float Floats __attribute__((vector_size(register_bytes)));
typedef int32_t Ints __attribute__((vector_size(register_bytes)));
typedef uint32_t Words __attribute__((vector_size(register_bytes)));
// The difference of bits, which may wrap around.
inline Ints less(Ints a, Ints b) {
  return std::bit_cast<Ints>(std::bit_cast<Words>(a) - std::bit_cast<Words>(b));
}
inline Ints less(Ints a, int32_t b) { return less(a, Ints{} + b); }
typedef uint32_t Words __attribute__((vector_size(register_bytes)));

inline Floats load_floats(const float* from) {
  Floats lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline void store_floats(Floats lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }
// Past the cache, to the begin of a line of memory or of half of one.
inline void stream_floats(Floats lanes, float* to) {
  const auto bits = std::bit_cast<LanesOf<float, float_lanes>::Register>(lanes);
  LanesOf<float, float_lanes>::stream(bits, to);
}
inline Floats all_lanes(float x) { return Floats{} + x; }
// Within the bounds; NaN stays.
inline Floats clamped(Floats x, float low, float high) {
  return smaller_or_second(all_lanes(high), larger_or_second(all_lanes(low), x));
}

// Rounded as BFloat16 does, in the upper halves of words. NaN must be one of 16 bits, or none that
// was ever seen, lest it is rounded to a number.
inline Words rounded_usual(Floats values) {
  const Words words = std::bit_cast<Words>(values);
#if FLAMBEAU_ISA_RANK >= 4  // GCC would take one instruction more
  const auto bits = std::bit_cast<__m512i>(words), lower = std::bit_cast<__m512i>(words + 0x7fffu);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  return std::bit_cast<Words>(_mm512_mask_add_epi32(lower, odd, bits, _mm512_set1_epi32(0x8000)));
#else
  return words + 0x7fffu + ((words >> 16) & 1u);
#endif
}
// The upper halves of two registers of words, in the first and the second halves of one.
inline Floats upper_halves(Words first, Words second) {
  return std::bit_cast<Floats>((first >> 16) | (second & 0xffff0000u));
}

// In each lane the element of a table that the last bits of an index tell.
template <class Lanes>
inline Lanes chosen(Lanes table, Ints index) {
#ifdef __clang__  // which has no such function; clang-tidy reads this
  Lanes result{};
  for (int j = 0; j < float_lanes; ++j) result[j] = table[index[j] & (float_lanes - 1)];
  return result;
#else
  return __builtin_shuffle(table, index);
#endif
}

// 2**(j / 16)
constexpr double sixteenths_of_two[] = {1.0,
                                        1.0442737824274138403,
                                        1.0905077326652576592,
                                        1.1387886347566916537,
                                        1.1892071150027210667,
                                        1.2418578120734840486,
                                        1.2968395546510096659,
                                        1.3542555469368927283,
                                        1.4142135623730950488,
                                        1.4768261459394993114,
                                        1.5422108254079408236,
                                        1.6104903319492543082,
                                        1.6817928305074290861,
                                        1.7562521603732994831,
                                        1.8340080864093424635,
                                        1.9152065613971472939};

// The powers 2**(j / lanes) as bits, from which j is taken off where n / lanes, shifted up to be an
// exponent, leaves it: so the sum of both is the bits of 2**(n / lanes).
constexpr int lane_bits = std::countr_zero(static_cast<unsigned>(float_lanes));
constexpr auto powers_of_two = [] {
  std::array<int32_t, float_lanes> bits{};
  for (int j = 0; j < float_lanes; ++j) {
    const auto power = static_cast<float>(sixteenths_of_two[j * 16 / float_lanes]);
    bits[j] = std::bit_cast<int32_t>(power) - (j << (23 - lane_bits));
  }
  return bits;
}();

// e**x as a power 2**(n / lanes) times e**r. Right to two units in the last place down to -20, to
// five at -87; from -88 on zero, from 88.7 on infinity. For -88.03 <= x <= 88.73.
inline Floats exp_between(Floats x) {
  constexpr auto step = static_cast<float>(std::numbers::ln2 / float_lanes);
  constexpr auto steps = static_cast<float>(float_lanes / std::numbers::ln2);
  const Floats shifted = x * steps + math::integer_shift;
  const Floats r = x - (shifted - math::integer_shift) * step;
  const Ints n = std::bit_cast<Ints>(shifted);
  const Ints table = chosen(std::bit_cast<Ints>(powers_of_two), n);
  // Infinities, of which no power comes out, may carry into the sign.
  const Words bits = std::bit_cast<Words>(table) + std::bit_cast<Words>(n << (23 - lane_bits));
  const Floats power = std::bit_cast<Floats>(bits);
  return power * (((r * (1.0f / 6) + 0.5f) * r + 1.0f) * r + 1.0f);
}
// e**x for x <= 0, as softmax asks for it: zero from -88 on, NaN for NaN.
inline Floats exp_below(Floats x) { return exp_between(larger_or_second(all_lanes(-88.03f), x)); }

// 2**y for every y, infinities among them: right to two units in the last place.
#if FLAMBEAU_ISA_RANK >= 4
constexpr auto halves_of_sixteenths = [] {  // 2**(j / 32)
  std::array<float, 2 * float_lanes> powers{};
  for (int j = 0; j < 2 * float_lanes; ++j) {
    const double more = j % 2 == 0 ? 1.0 : 1.0218971486541166782;
    powers[j] = static_cast<float>(sixteenths_of_two[j / 2] * more);
  }
  return powers;
}();
inline Floats exp2_anywhere(Floats y) {
  constexpr float shift = 0x1.8p18f;  // a number whose last bits count thirty-seconds
  constexpr int below_32nd = 5 << 4 | _MM_FROUND_TO_NEG_INF;
  const Floats r = _mm512_maskz_reduce_ps(0xffff, y, below_32nd);
  const Floats floor = _mm512_maskz_add_round_ps(0xffff, y, all_lanes(shift),
                                                 _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  const float* const table = halves_of_sixteenths.data();
  const Floats power = _mm512_maskz_permutex2var_ps(
      0xffff, load_floats(table), std::bit_cast<__m512i>(floor), load_floats(table + float_lanes));
  const Floats rest = (r * 0.24265225f + 0.69312374f) * r + 1.0f;
  return _mm512_maskz_scalef_ps(0xffff, power * rest, y);
}
// The same for sums of many, with fewer instructions, while there is no SubnormalsFlushed a hundred
// times slower for results that are subnormal.
inline Floats exp2_flushed(Floats y) {
  const Floats r = _mm512_maskz_reduce_ps(0xffff, y, _MM_FROUND_TO_NEG_INF);
  Floats power = r * 0.00186713f + 0.009017031f;
  power = power * r + 0.055799913f;
  power = power * r + 0.24016444f;
  power = power * r + 0.6931513f;
  return _mm512_maskz_scalef_ps(0xffff, power * r + 1.0f, y);
}
#else
inline Floats exp2_anywhere(Floats y) {
  constexpr auto ln2 = static_cast<float>(std::numbers::ln2);
  const Floats bounded = clamped(y, -127.0f, 127.99f);
  const Floats shifted = bounded * static_cast<float>(float_lanes) + math::integer_shift;
  const Floats r = (bounded - (shifted - math::integer_shift) * (1.0f / float_lanes)) * ln2;
  const Ints n = std::bit_cast<Ints>(shifted);
  const Ints bits = chosen(std::bit_cast<Ints>(powers_of_two), n) + (n << (23 - lane_bits));
  const Floats power = std::bit_cast<Floats>(bits);
  const Floats result = power * (((r * (1.0f / 6) + 0.5f) * r + 1.0f) * r + 1.0f);
  return y > 127.99f ? all_lanes(std::numeric_limits<float>::infinity()) : result;
}
inline Floats exp2_flushed(Floats y) {
  return exp2_anywhere(larger_or_second(all_lanes(-126.0f), y));
}
#endif

// Results that would be subnormal are zero while it lives, for processors take a hundred times as
// long for them.
class SubnormalsFlushed {
 public:
  SubnormalsFlushed() { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON); }
  ~SubnormalsFlushed() { _mm_setcsr(before_); }
  SubnormalsFlushed(const SubnormalsFlushed&) = delete;
  SubnormalsFlushed& operator=(const SubnormalsFlushed&) = delete;

 private:
  const unsigned before_ = _mm_getcsr();
};

}  // namespace cpu::ISA_NAMESPACE

namespace math {
// In place of the scalar function, in formulas that are computed in SIMD registers.
inline cpu::ISA_NAMESPACE::Floats sigmoid(cpu::ISA_NAMESPACE::Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  return 1.0f / (1.0f + exp_between(clamped(-x, -88.03f, 88.73f)));
}
}  // namespace math

namespace cpu::ISA_NAMESPACE {

#if FLAMBEAU_ISA_RANK >= 4
// A function that falls from one half to zero, as 1 - gelu(t) / t does, and with what it has beyond
// one the share of the other side: f(-t) = 1 - f(t). By polynomials on fifteen intervals, found
// from its values in double precision; beyond them it is zero.
class FallingShare {
 public:
  template <class F>
  explicit FallingShare(F f) {
    for (int n = 0; n + 1 < float_lanes; ++n) {
      const auto polynomial = near(f, n * static_cast<double>(width));
      for (int k = 0; k < terms; ++k) coefficients_[k][n] = static_cast<float>(polynomial[k]);
    }
  }
  // 1 - f(x)
  [[nodiscard]] Floats rest(Floats x) const {
    const Floats size = std::bit_cast<Floats>(std::bit_cast<Ints>(x) & 0x7fffffff);
    const Floats t = smaller_or_second(all_lanes((float_lanes - 1) * width), size);
    const Floats shifted = t * (1 / width) + math::integer_shift;
    const Floats r = t - (shifted - math::integer_shift) * width;
    const Ints interval = std::bit_cast<Ints>(shifted);
    Floats share = chosen(coefficients_[terms - 1], interval);
#pragma GCC unroll 8
    for (int k = terms - 2; k >= 0; --k) {
      share = share * r + chosen(coefficients_[k], interval);
    }
    return std::bit_cast<Ints>(x) < 0 ? share : 1.0f - share;
  }

 private:
  static constexpr float width = 0.40625f;  // of an interval, such that multiples are exact
  static constexpr int terms = 6;

  // The polynomial of t - middle through the values at Chebyshev's points: by divided differences.
  template <class F>
  static std::array<double, terms> near(F f, double middle) {
    double at[terms], difference[terms];
    for (int k = 0; k < terms; ++k) {
      at[k] = width / 2 * std::cos(std::numbers::pi * (k + 0.5) / terms);
      difference[k] = f(middle + at[k]);
    }
    for (int order = 1; order < terms; ++order) {
      for (int k = terms - 1; k >= order; --k) {
        difference[k] = (difference[k] - difference[k - 1]) / (at[k] - at[k - order]);
      }
    }
    std::array<double, terms> result{};
    for (int k = terms - 1; k >= 0; --k) {
      for (int j = terms - 1; j > 0; --j) result[j] = result[j - 1] - result[j] * at[k];
      result[0] = difference[k] - result[0] * at[k];
    }
    return result;
  }

  Floats coefficients_[terms] = {};
};
#endif

}  // namespace cpu::ISA_NAMESPACE
}  // namespace flambeau
