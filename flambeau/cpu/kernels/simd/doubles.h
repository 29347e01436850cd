// A whole register of doubles, and the functions of the vector library for it.
#pragma once

#include <cmath>
#include <limits>

#include "flambeau/cpu/kernels/simd/lanes.h"

namespace flambeau::cpu::ISA_NAMESPACE {

constexpr int double_lanes = register_bytes / sizeof(double);
typedef double Doubles __attribute__((vector_size(register_bytes)));
typedef int64_t Longs __attribute__((vector_size(register_bytes)));
typedef float HalfFloats __attribute__((vector_size(register_bytes / 2)));

#if FLAMBEAU_ISA_RANK >= 4
using DoubleRegister = __m512d;
#define VECTOR_NAME(arguments, name) "_ZGVeN8" arguments "_" name
#else
using DoubleRegister = __m256d;
#define VECTOR_NAME(arguments, name) "_ZGVdN4" arguments "_" name
#endif
#define OF_ONE(name)                                                                    \
  extern "C" DoubleRegister vector_##name(DoubleRegister) asm(VECTOR_NAME("v", #name)); \
  inline Doubles name##_of_lanes(Doubles x) {                                           \
    return std::bit_cast<Doubles>(vector_##name(std::bit_cast<DoubleRegister>(x)));     \
  }
OF_ONE(exp)
OF_ONE(expm1)
OF_ONE(log)
OF_ONE(log1p)
OF_ONE(sin)
OF_ONE(cos)
OF_ONE(acos)
OF_ONE(erfc)
#undef OF_ONE
extern "C" DoubleRegister vector_pow(DoubleRegister, DoubleRegister) asm(VECTOR_NAME("vv", "pow"));
inline Doubles pow_of_lanes(Doubles a, Doubles b) {
  return std::bit_cast<Doubles>(
      vector_pow(std::bit_cast<DoubleRegister>(a), std::bit_cast<DoubleRegister>(b)));
}
#undef VECTOR_NAME

// By an estimate of 14 bits, three times as fast as the instruction and rounded as that: see sqrt
// in math/elementary.h.
inline Doubles sqrt_of_lanes(Doubles x) {
#if FLAMBEAU_ISA_RANK >= 4
  constexpr int64_t least = int64_t{123} << 52, most = int64_t{1923} << 52;  // 2**-900, 2**900
  const auto wide = std::bit_cast<__m512d>(x);
  const auto above = _mm512_sub_epi64(std::bit_cast<__m512i>(x), _mm512_set1_epi64(least));
  if (_mm512_cmplt_epu64_mask(above, _mm512_set1_epi64(most - least)) != 0xff) [[unlikely]]
    return std::bit_cast<Doubles>(_mm512_maskz_sqrt_pd(0xff, wide));
  const auto estimate = std::bit_cast<Doubles>(_mm512_maskz_rsqrt14_pd(0xff, wide));
  Doubles root = x * estimate, half = estimate * 0.5;
  for (int step = 0; step < 2; ++step) {
    const Doubles missing = 0.5 - root * half;
    root = root * missing + root;
    half = half * missing + half;
  }
  return (x - root * root) * half + root;
#else
  return std::bit_cast<Doubles>(_mm256_sqrt_pd(std::bit_cast<__m256d>(x)));
#endif
}
inline Doubles trunc_of_lanes(Doubles x) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<Doubles>(_mm512_maskz_roundscale_pd(0xff, std::bit_cast<__m512d>(x),
                                                           _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
#else
  return std::bit_cast<Doubles>(
      _mm256_round_pd(std::bit_cast<__m256d>(x), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
#endif
}
inline Doubles rint_of_lanes(Doubles x) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<Doubles>(_mm512_maskz_roundscale_pd(
      0xff, std::bit_cast<__m512d>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  return std::bit_cast<Doubles>(
      _mm256_round_pd(std::bit_cast<__m256d>(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
}
// a * b + c, rounded once.
inline Doubles fused(Doubles a, Doubles b, Doubles c) {
#if FLAMBEAU_ISA_RANK >= 4
  return std::bit_cast<Doubles>(_mm512_maskz_fmadd_pd(
      0xff, std::bit_cast<__m512d>(a), std::bit_cast<__m512d>(b), std::bit_cast<__m512d>(c)));
#else
  return std::bit_cast<Doubles>(_mm256_fmadd_pd(
      std::bit_cast<__m256d>(a), std::bit_cast<__m256d>(b), std::bit_cast<__m256d>(c)));
#endif
}

inline Doubles doubles(double x) { return Doubles{} + x; }
inline Doubles magnitude(Doubles x) {
  return std::bit_cast<Doubles>(std::bit_cast<Longs>(x) & std::numeric_limits<int64_t>::max());
}
inline Doubles with_sign_of(Doubles x, Doubles size) {
  const Longs sign = std::bit_cast<Longs>(x) & std::numeric_limits<int64_t>::min();
  return std::bit_cast<Doubles>(std::bit_cast<Longs>(size) ^ sign);
}
// Bounded on one side; NaN stays.
inline Doubles at_least(Doubles x, double bound) { return x < bound ? doubles(bound) : x; }
inline Doubles at_most(Doubles x, double bound) { return x > bound ? doubles(bound) : x; }

inline bool anywhere(Longs lanes) {
#if FLAMBEAU_ISA_RANK >= 4
  return _mm512_movepi64_mask(std::bit_cast<__m512i>(lanes)) != 0;
#else
  return _mm256_movemask_pd(std::bit_cast<__m256d>(lanes)) != 0;
#endif
}
inline bool everywhere(Longs lanes) { return !anywhere(~lanes); }

// Where a lane is not a usual one, what the function of single numbers has.
[[gnu::noinline]] inline Doubles with_rare_lanes(Doubles y, Longs usual, Doubles a,
                                                 double (*f)(double)) {
  for (int lane = 0; lane < double_lanes; ++lane) {
    if (!usual[lane]) y[lane] = f(a[lane]);
  }
  return y;
}
[[gnu::noinline]] inline Doubles with_rare_lanes(Doubles y, Longs usual, Doubles a, Doubles b,
                                                 double (*f)(double, double)) {
  for (int lane = 0; lane < double_lanes; ++lane) {
    if (!usual[lane]) y[lane] = f(a[lane], b[lane]);
  }
  return y;
}

// A polynomial of which the coefficients stand in the order of powers, or the other way round.
template <size_t N>
[[gnu::always_inline]] inline Doubles polynomial_at(const double (&c)[N], Doubles x) {
  Doubles y = doubles(c[N - 1]);
#pragma GCC unroll 32
  for (int k = static_cast<int>(N) - 2; k >= 0; --k) y = y * x + c[k];
  return y;
}

// Terms of a Chebyshev series that a result of single precision needs.
template <size_t N>
constexpr int terms_for_floats(const double (&c)[N]) {
  double largest = 0;
  for (const double term : c) largest = std::max(largest, term < 0 ? -term : term);
  int terms = N;
  while (terms > 1 && (c[terms - 1] < 0 ? -c[terms - 1] : c[terms - 1]) < 1e-9 * largest) --terms;
  return terms;
}
// A Chebyshev series at -1 <= t <= 1 (Clenshaw), of which a result of single precision needs fewer
// terms.
template <bool single, const auto& table>
[[gnu::always_inline]] inline Doubles chebyshev_at(Doubles t) {
  constexpr int terms = single ? terms_for_floats(table) : static_cast<int>(std::size(table));
  const Doubles twice = t + t;
  Doubles last = {}, before = {};
#pragma GCC unroll 64
  for (int k = terms - 1; k > 0; --k) {
    const Doubles next = twice * last + (table[k] - before);
    before = last;
    last = next;
  }
  return t * last + (table[0] - before);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
