// The functions of kernels/math.h for a whole register of floats, so that a formula of rows is
// computed by registers: for rows that would call the vector library, or none where a function
// stands behind a condition. Right to two units in the last place, at both ends of the range too.
#pragma once

#include <limits>

#include "flambeau/cpu/kernels/vector_math.h"

namespace flambeau {

namespace cpu::ISA_NAMESPACE {

// The same without sign, and the size of one with the sign of another.
inline Floats size_of(Floats x) {
  return std::bit_cast<Floats>(std::bit_cast<Ints>(x) & 0x7fffffff);
}
inline Floats with_sign_of(Floats x, Floats size) {
  const Ints sign = std::bit_cast<Ints>(x) & std::numeric_limits<int32_t>::min();
  return std::bit_cast<Floats>(std::bit_cast<Ints>(size) | sign);
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

// A smooth function by polynomials on 16 or 32 pieces, found from its values in double precision.
template <int terms, int count = 16>
class Pieces {
 public:
  Pieces() = default;
  // On pieces around the multiples of a width from 0 on; beyond them there is no value.
  template <class F>
  Pieces(F f, float width) : width_(width), steps_(1 / width) {
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
  [[nodiscard]] Floats operator()(Ints piece, Floats from_center) const {
    Floats y = coefficients_[terms - 1].at(piece);
#pragma GCC unroll 16
    for (int k = terms - 2; k >= 0; --k) y = y * from_center + coefficients_[k].at(piece);
    return y;
  }

  // One piece, a polynomial of t - center: through the values at Chebyshev's points between two
  // places, by divided differences.
  template <class F>
  void fit(int piece, F f, double from, double to, double center) {
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
    for (int k = 0; k < terms; ++k) coefficients_[k][piece] = static_cast<float>(result[k]);
  }

 private:
  float width_ = 0, steps_ = 0;
  Numbers<count> coefficients_[terms];
};

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
constexpr int32_t least_of_usual_roots = 27 << 23;
constexpr int32_t usual_roots = (255 - 27) << 23;
#endif

// x = n ln 2 / lanes + r, as n in the last bits of a float and r, which is exact for n < 2**15.
struct Exponent {
  Floats shifted, r;
  explicit Exponent(Floats x, float most = 0x1p15f) {
    constexpr auto steps = static_cast<float>(float_lanes / std::numbers::ln2);
    // In two parts, the first of which times n is exact.
    constexpr float step = 0x1.62e4p-1f / float_lanes;
    constexpr auto step_rest = static_cast<float>(std::numbers::ln2 / float_lanes - step);
    shifted = x * steps + math::integer_shift;
    if (most < 0x1p15f) shifted = smaller_or_second(all_lanes(most + math::integer_shift), shifted);
    const Floats n = shifted - math::integer_shift;
    r = (x - n * step) - n * step_rest;
  }
  [[nodiscard]] Ints n() const { return std::bit_cast<Ints>(shifted); }
  // 2**(n / lanes + more)
  [[nodiscard]] Floats power(int more) const {
    const Ints powers = std::bit_cast<Ints>(powers_of_two) + (more << 23);
    return std::bit_cast<Floats>(chosen(powers, n()) + (n() << (23 - lane_bits)));
  }
};

// For 16 pieces of 0.703 <= z < 1.406 a number near 1 / z of eight bits, and its logarithm in two
// parts, of which the first has so few bits that adding a multiple of that of two is exact. One is
// exact, for numbers close to it.
struct LogPieces {
  LogPieces() {
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
inline const LogPieces log_pieces;

// A logarithm as the sum of a number of at most 22 bits and a smaller one.
struct LogParts {
  Floats whole, rest;
};
// That of 1 + r for small r, plus that of the number whose bits are `above` those of the least of
// the pieces, less what 1 + r is of it.
[[gnu::always_inline]] inline LogParts log_parts_from(Ints above, Floats r) {
  constexpr float ln2 = 0x1.62e4p-1f;  // of 15 bits
  constexpr auto ln2_rest = static_cast<float>(std::numbers::ln2 - ln2);
  const Ints piece = above >> 19;
  const Floats n = __builtin_convertvector(above >> 23, Floats);
  const Floats whole = n * ln2 + log_pieces.logs.at(piece);
  const Floats rest = n * ln2_rest + log_pieces.rests.at(piece);
  Floats series = r * 0.2f - 0.25f;
  series = series * r + (1.0f / 3);
  series = series * r - 0.5f;
  return {whole, r + ((r * r) * series + rest)};
}
// That of a positive normal number.
[[gnu::always_inline]] inline LogParts log_parts(Floats x) {
  const Ints bits = std::bit_cast<Ints>(x), above = less(bits, 0x3f340000);
  const Floats z = std::bit_cast<Floats>(less(bits, above & -0x800000));
  return log_parts_from(above, z * log_pieces.inverses.at(above >> 19) - 1.0f);
}
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

inline const Pieces<4, 32> log1p_shares(
    [](double u) { return std::abs(u) < 1e-9 ? 1 - u / 2 : std::log1p(u) / u; }, 1.0f / 31);

// What erf(t) / t has above a quarter, which it is at the end.
constexpr float erf_end = 4.0f;
inline const Pieces<7> erf_shares(
    [](double t) {
      return (std::abs(t) < 1e-9 ? 2 * std::numbers::inv_sqrtpi : std::erf(t) / t) - 0.25;
    },
    erf_end / 15);

// A smooth function of 0 <= t < 15 by pieces that the leading bits of t + 1 tell: a quarter of 1,
// 2, 4 and 8 wide.
struct WideningPieces {
  template <class F>
  explicit WideningPieces(F f) {
    for (int n = 0; n < 16; ++n) {
      const double width = 0.25 * (1 << n / 4), from = (n % 4 + 4) * width - 1;
      const double center = n == 0 ? 0 : from + width / 2;
      const int place = (n + 12) % 16;  // the exponent of 1 is odd
      centers[place] = static_cast<float>(center);
      pieces.fit(place, f, from, from + width, center);
    }
  }
  [[nodiscard]] Floats operator()(Floats t) const {
    const Ints piece = std::bit_cast<Ints>(t + 1.0f) >> 21;
    return pieces(piece, t - centers.at(piece));
  }
  Sixteen centers;
  Pieces<7> pieces;
};
inline const WideningPieces tanh_shares([](double t) { return std::tanh(t) / t; });

// atan(t) / t up to 1.
inline const Pieces<6> atan_shares(
    [](double t) { return std::abs(t) < 1e-9 ? 1 : std::atan(t) / t; }, 1.0f / 15);

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
inline Floats abs(Floats x) { return cpu::ISA_NAMESPACE::size_of(x); }

inline Floats expm1(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Exponent parts(clamped(x, -70.0f, 89.0f), 128 * float_lanes - 1);
  const Floats r = parts.r, power = parts.power(0);
  Floats series = r * (1.0f / 24) + (1.0f / 6);
  if (float_lanes < 16) series = (r * (1.0f / 120) + (1.0f / 24)) * r + (1.0f / 6);
  const Floats rest = chosen(std::bit_cast<Floats>(rests_of_powers), parts.n());
  const Floats above = ((series * r + 0.5f) * (r * r) + rest) + r;
  return with_sign_of(x, power * above + (power - 1.0f));
}
#if FLAMBEAU_ISA_RANK >= 4
inline Floats exp(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Exponent parts(clamped(x, -104.0f, 89.0f));
  const Floats r = parts.r, n = parts.shifted - integer_shift;
  const Floats power = chosen(load_floats(sixteenths.data()), parts.n());
  const Floats rest = chosen(std::bit_cast<Floats>(rests_of_powers), parts.n());
  const Floats above = ((r * (1.0f / 6) + 0.5f) * (r * r) + rest) + r;
  return _mm512_maskz_scalef_ps(0xffff, power * above + power, n * (1.0f / 16));
}
// By an estimate of 14 bits, twice as fast as the instruction and rounded as that: the root s is
// made exact by what its square leaves of x, and the half of an inverse root h.
inline Floats sqrt(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Ints above = less(std::bit_cast<Ints>(x), least_of_usual_roots);
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
// e**-|x|. The power of two is kept 2**40 too high until the end, which may be subnormal.
inline Floats exp_of_minus_size(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Exponent parts(max(with_sign_of(all_lanes(-1.0f), x), -104.0f));
  const Floats r = parts.r, power = parts.power(40);
  Floats series = r * (1.0f / 6) + 0.5f;
  if (float_lanes < 16) series = (r * (1.0f / 24) + (1.0f / 6)) * r + 0.5f;
  const Floats rest = chosen(std::bit_cast<Floats>(rests_of_powers), parts.n());
  const Floats above = series * (r * r) + (r + rest);
  return (power * above + power) * 0x1p-40f;
}
// log(1 + e**-|x|): what softplus has above max(x, 0).
inline Floats softplus_tail(Floats x) {
  const Floats u = exp_of_minus_size(x);
  return u * cpu::ISA_NAMESPACE::log1p_shares(u);
}
// tanh(softplus(x)) is a fraction of polynomials of u = e**-|x|.
inline Floats mish(Floats x) {
  const Floats u = exp_of_minus_size(x);
  const Floats above = u * 2.0f + 1.0f, below = (u + 2.0f) * u;
  const Floats top = x > 0.0f ? above : below;
  return x * (top / (top + (x > 0.0f ? u * u * 2.0f : 2.0f + Floats{})));
}
inline Floats logaddexp(Floats a, Floats b) {
  const Floats top = a > b ? a : b, sum = top + softplus_tail(a - b);
  return (abs(a) == std::numeric_limits<float>::infinity()) & (a == b) ? a : sum;
}
inline Floats erf(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = min(size_of(x), erf_end);
  return with_sign_of(x, min(t * erf_shares(t) + t * 0.25f, 1.0f));
}
inline Floats tanh(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = min(size_of(x), 9.02f);
  return with_sign_of(x, min(t * tanh_shares(t), 1.0f));
}

inline Floats log(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats y = sum_of(log_parts(x));
  if (all_between(x, 0x1p-126f, std::numeric_limits<float>::infinity())) [[likely]]
    return y;
  return log_of_any(x);
}
// As log(1 + x), but with r from x itself, not from the sum, which has lost its last bits.
inline Floats log1p(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats sum = x + 1.0f;
  const Ints above = less(std::bit_cast<Ints>(sum), 0x3f340000);
  const Ints inverse = std::bit_cast<Ints>(log_pieces.inverses.at(above >> 19));
  const Floats share = std::bit_cast<Floats>(less(inverse, above & -0x800000));
  const Floats y = with_sign_of(x, sum_of(log_parts_from(above, x * share + (share - 1.0f))));
  if (all_between(sum, 0x1p-24f, 0x1p100f)) [[likely]]
    return y;
  const Floats far = x < 0x1p100f ? y : log_of_any(x);
  const Floats end = all_lanes(-std::numeric_limits<float>::infinity());
  const Floats below = x == -1.0f ? end : all_lanes(std::numeric_limits<float>::quiet_NaN());
  return x <= -1.0f ? below : far;
}
inline Floats atan(Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  const Floats t = size_of(x), u = t > 1.0f ? 1.0f / t : t, y = u * atan_shares(u);
  return with_sign_of(x, t > 1.0f ? (half_pi - y) + half_pi_rest : y);
}

// The angle of the smaller to the larger side, taken from that of the axis which the larger one
// lies on, whose own rest is the same share of it everywhere.
inline Floats atan2(Floats y, Floats x) {
  using namespace cpu::ISA_NAMESPACE;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Floats a = size_of(y), b = size_of(x);
  const Ints is_steep = a > b, is_left = std::bit_cast<Ints>(x) < 0;
  const Floats low = is_steep ? b : a, high = is_steep ? a : b;
  Floats ratio = high == 0.0f ? high : low / high;
  ratio = low == infinity ? all_lanes(1.0f) : ratio;
  const Floats size = ratio * atan_shares(ratio);
  const Floats axis = is_steep ? all_lanes(half_pi) : is_left ? all_lanes(2 * half_pi) : Floats{};
  const Ints turn = (is_steep ^ is_left) & std::numeric_limits<int32_t>::min();
  const Floats away = std::bit_cast<Floats>(std::bit_cast<Ints>(size) ^ turn);
  const Floats angle = axis * (half_pi_rest / half_pi) + (axis + away);
  const Floats known = x == x ? y : x;
  return known == known ? with_sign_of(y, angle) : known;
}

}  // namespace math
}  // namespace flambeau
