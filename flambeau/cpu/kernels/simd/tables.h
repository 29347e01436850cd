// Tables for formulas of registers of floats, and what such formulas ask of all lanes.
#pragma once

#include <limits>

#include "flambeau/cpu/kernels/math/vector_math.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// The same without sign, and the size of one with the sign of another.
inline Floats magnitude(Floats x) {
  return std::bit_cast<Floats>(std::bit_cast<Ints>(x) & 0x7fffffff);
}
inline Floats with_sign_of(Floats x, Floats size) {
#if FLAMBEAU_ISA_RANK >= 4  // GCC would take one instruction more
  constexpr int or_and = 0xf8;
  const auto sign = _mm512_set1_epi32(std::numeric_limits<int32_t>::min());
  return std::bit_cast<Floats>(_mm512_ternarylogic_epi32(std::bit_cast<__m512i>(size),
                                                         std::bit_cast<__m512i>(x), sign, or_and));
#else
  const Ints sign = std::bit_cast<Ints>(x) & std::numeric_limits<int32_t>::min();
  return std::bit_cast<Floats>(std::bit_cast<Ints>(size) | sign);
#endif
}

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

// Whether every lane holds true.
inline bool all_true(Ints lanes) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_movepi32_mask(std::bit_cast<__m512i>(lanes)) == 0xffff;
#else
  return _mm256_movemask_ps(std::bit_cast<__m256>(lanes)) == 0xff;
#endif
}

// Whether all lanes hold numbers from `low` on to before `high`, none of which is negative.
inline bool all_between(Floats x, float low, float high) {
#if FLAMBEAU_ISA_RANK >= 4
  const auto least = std::bit_cast<int32_t>(low), count = std::bit_cast<int32_t>(high) - least;
  const Ints above = less(std::bit_cast<Ints>(x), least);
  return _mm512_cmplt_epu32_mask(std::bit_cast<__m512i>(above), _mm512_set1_epi32(count)) == 0xffff;
#else
  return all_true((x >= low) & (x < high));
#endif
}

#if FLAMBEAU_ISA_RANK >= 4
// The lanes that hold numbers of some of these classes.
constexpr int not_finite = 0b10011001, zero = 0b00000110;
template <int classes>
[[gnu::always_inline]] inline __mmask16 lanes_of(Floats x) {
  return _mm512_fpclass_ps_mask(x, classes);
}
// y, but in the rare lanes what a longer function has: no result depends on its neighbours.
template <Floats (*longer)(Floats, Floats)>
[[gnu::always_inline]] inline Floats mended(Floats y, __mmask16 rare, Floats a, Floats b) {
  if (rare) [[unlikely]]
    return _mm512_mask_mov_ps(y, rare, longer(a, b));
  return y;
}
#endif

// Numbers of which each lane takes the one that the last bits of its index tell.
template <int count>
class Numbers {
 public:
  float& operator[](int n) { return numbers_[n]; }
  [[nodiscard]] Floats at(Ints index) const { return among<count>(numbers_, index); }

 private:
  template <int n>
  static Floats among(const float* numbers, Ints index) {
    if constexpr (n == float_lanes) {
      return chosen(load_floats(numbers), index);
    } else {
      const float* const others = numbers + n / 2;
#if FLAMBEAU_ISA_RANK >= 4
      return _mm512_maskz_permutex2var_ps(0xffff, load_floats(numbers),
                                          std::bit_cast<__m512i>(index), load_floats(others));
#else
      const Floats first = among<n / 2>(numbers, index), second = among<n / 2>(others, index);
      return (index << (32 - std::countr_zero(static_cast<unsigned>(n)))) < 0 ? second : first;
#endif
    }
  }
  alignas(64) float numbers_[count] = {};
};
using Sixteen = Numbers<16>;

// A smooth function by polynomials on 16 or 32 intervals, found from its values in double
// precision.
template <int terms, int count = 16>
class Piecewise {
 public:
  Piecewise() = default;
  // On intervals around the multiples of a width from 0 on; beyond them there is no value.
  template <class F>
  Piecewise(F f, float width) : width_(width), steps_(1 / width) {
    for (int n = 0; n < count; ++n) {
      const double center = n * static_cast<double>(width);
      fit(n, f, center - width / 2, center + width / 2, center);
    }
  }
  // For 0 <= t <= count - 1 widths.
  [[nodiscard]] Floats operator()(Floats t) const {
    const Floats shifted = t * steps_ + math::integer_shift;
    return (*this)(std::bit_cast<Ints>(shifted), t - (shifted - math::integer_shift) * width_);
  }
  [[nodiscard]] Floats operator()(Ints interval, Floats from_center) const {
    Floats y = coefficients_[terms - 1].at(interval);
#pragma GCC unroll 16
    for (int k = terms - 2; k >= 0; --k) y = y * from_center + coefficients_[k].at(interval);
    return y;
  }

  // One interval, a polynomial of t - center: through the values at Chebyshev's points between two
  // positions, by divided differences.
  template <class F>
  void fit(int interval, F f, double from, double to, double center) {
    double at[terms], difference[terms], result[terms] = {};
    for (int k = 0; k < terms; ++k) {
      const double t =
          (from + to) / 2 + (to - from) / 2 * std::cos(std::numbers::pi * (k + 0.5) / terms);
      at[k] = t - center;
      difference[k] = f(t);
    }
    for (int order = 1; order < terms; ++order) {
      for (int k = terms - 1; k >= order; --k) {
        difference[k] = (difference[k] - difference[k - 1]) / (at[k] - at[k - order]);
      }
    }
    for (int k = terms - 1; k >= 0; --k) {
      for (int j = terms - 1; j > 0; --j) result[j] = result[j - 1] - result[j] * at[k];
      result[0] = difference[k] - result[0] * at[k];
    }
    for (int k = 0; k < terms; ++k) coefficients_[k][interval] = static_cast<float>(result[k]);
  }

 private:
  float width_ = 0, steps_ = 0;
  Numbers<count> coefficients_[terms];
};

// A smooth function of 0 <= t < 15 on intervals that the leading bits of t + 1 tell: a quarter of
// 1, 2, 4 and 8 wide.
struct WideningPieces {
  template <class F>
  explicit WideningPieces(F f) {
    for (int n = 0; n < 16; ++n) {
      const double width = 0.25 * (1 << n / 4), from = (n % 4 + 4) * width - 1;
      const double center = n == 0 ? 0 : from + width / 2;
      const int place = (n + 12) % 16;  // the exponent of 1 is odd
      centers[place] = static_cast<float>(center);
      polynomials.fit(place, f, from, from + width, center);
    }
  }
  [[nodiscard]] Floats operator()(Floats t) const {
    const Ints interval = std::bit_cast<Ints>(t + 1.0f) >> 21;
    return polynomials(interval, t - centers.at(interval));
  }
  Sixteen centers;
  Piecewise<7> polynomials;
};
}  // namespace flambeau::cpu::ISA_NAMESPACE
