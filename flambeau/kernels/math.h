// The scalar functions that rows are written in, for every compute type and device. They are
// branch-free where a loop over them should become vector code; NaN and infinity behave as
// PyTorch's kernels do.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "flambeau/tensor/dtype.h"

#if !defined(__CUDACC__)
// A loop that calls these becomes a loop over glibc's vector versions (libmvec).
extern "C" {
#define VECTOR_MATH(name)                                            \
  __attribute__((simd("notinbranch"))) double name(double) noexcept; \
  __attribute__((simd("notinbranch"))) float name##f(float) noexcept;
VECTOR_MATH(sin)
VECTOR_MATH(cos)
VECTOR_MATH(tan)
VECTOR_MATH(asin)
VECTOR_MATH(acos)
VECTOR_MATH(atan)
VECTOR_MATH(sinh)
VECTOR_MATH(cosh)
VECTOR_MATH(tanh)
VECTOR_MATH(asinh)
VECTOR_MATH(acosh)
VECTOR_MATH(atanh)
VECTOR_MATH(exp)
VECTOR_MATH(exp2)
VECTOR_MATH(expm1)
VECTOR_MATH(log)
VECTOR_MATH(log2)
VECTOR_MATH(log10)
VECTOR_MATH(log1p)
VECTOR_MATH(erf)
VECTOR_MATH(erfc)
#undef VECTOR_MATH
#define VECTOR_MATH(name)                                                    \
  __attribute__((simd("notinbranch"))) double name(double, double) noexcept; \
  __attribute__((simd("notinbranch"))) float name##f(float, float) noexcept;
VECTOR_MATH(pow)
VECTOR_MATH(atan2)
VECTOR_MATH(hypot)
#undef VECTOR_MATH
}
#endif

namespace flambeau::math {

#define FN FLAMBEAU_DEVICE inline
#define REAL         \
  template <class T> \
  requires(std::is_floating_point_v<T>)
#define INTEGER      \
  template <class T> \
  requires(std::is_integral_v<T>)

// Overloads for the two complex types. Not templates: those would tie with the standard library's.
#define COMPLEX(name, x, ...)                                                \
  FN std::complex<float> name(std::complex<float> x) { return __VA_ARGS__; } \
  FN std::complex<double> name(std::complex<double> x) { return __VA_ARGS__; }

#define FROM_LIBM(name)                           \
  FN float name(float x) { return ::name##f(x); } \
  FN double name(double x) { return ::name(x); }  \
  COMPLEX(name, x, std::name(x))
#define FROM_LIBM_REAL(name)                      \
  FN float name(float x) { return ::name##f(x); } \
  FN double name(double x) { return ::name(x); }

FROM_LIBM(sin)
FROM_LIBM(cos)
FROM_LIBM(tan)
FROM_LIBM(asin)
FROM_LIBM(acos)
FROM_LIBM(atan)
FROM_LIBM(sinh)
FROM_LIBM(cosh)
FROM_LIBM(tanh)
FROM_LIBM(asinh)
FROM_LIBM(acosh)
FROM_LIBM(atanh)
FROM_LIBM(log)
FROM_LIBM(log10)
FROM_LIBM(sqrt)
FROM_LIBM_REAL(exp2)
FROM_LIBM_REAL(expm1)
FROM_LIBM_REAL(log2)
FROM_LIBM_REAL(log1p)
FROM_LIBM_REAL(erfc)
#undef FROM_LIBM
#undef FROM_LIBM_REAL

// e**r for |r| <= ln 2 / 2.
FN float exp_near_zero(float r) {
  float p = 1.98756943e-4f;
  p = p * r + 1.39819994e-3f;
  p = p * r + 8.33345205e-3f;
  p = p * r + 4.16657962e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 5.00000000e-1f;
  p = p * r + 1.0f;
  return p * r + 1.0f;
}
// 1.5 * 2**23. What is added to it is rounded to an integer, which the low bits of the sum hold: in
// two's complement, and so that they make the exponent of a power of two when shifted up.
constexpr float integer_shift = 12582912.0f;
// e**x by x = n ln 2 + r, a polynomial of r, and two exact powers of two whose product reaches
// subnormals and infinity without a branch. Within 1 ulp.
FN float exp(float x) {
#if defined(__CUDACC__)
  return ::expf(x);
#else
  constexpr float shift = integer_shift + 2 * 127;
  const float above = x < -104.0f ? -104.0f : x, clamped = above > 89.0f ? 89.0f : above;
  const float shifted = clamped * 1.44269504088896341f + shift, n = shifted - shift;
  const float r = (clamped - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted), half = exponent >> 1;
  const float low = std::bit_cast<float>(half << 23);
  const float high = std::bit_cast<float>((exponent - half) << 23);
  return exp_near_zero(r) * low * high;
#endif
}
FN double exp(double x) { return ::exp(x); }
// The same for -87 < x < 88, which spares the ends.
FN float exp_within(float x) {
#if defined(__CUDACC__)
  return ::expf(x);
#else
  constexpr float shift = integer_shift + 127;
  const float shifted = x * 1.44269504088896341f + shift, n = shifted - shift;
  const float r = (x - n * 0.693145751953125f) - n * 1.42860682030941723e-6f;
  return exp_near_zero(r) * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
#endif
}

// A polynomial near zero; elsewhere 1 - e**q, q a polynomial close to the logarithm of erfc. Within
// 2 ulp, and faster than the vector library's.
FN float erf(float x) {
#if defined(__CUDACC__)
  return ::erff(x);
#else
  const float size = __builtin_fabsf(x), square = x * x;
  float p = 7.85385782e-5f;
  p = p * square - 8.01019254e-4f;
  p = p * square + 5.18832775e-3f;
  p = p * square - 2.68538110e-2f;
  p = p * square + 1.12835854e-1f;
  p = p * square - 3.76126260e-1f;
  p = p * square + 1.28379107e-1f;
  const float near = x + x * p;
  const float c = size < 4.0f ? size : 4.0f;
  float q = 1.97182628e-4f;
  q = q * c - 3.05561558e-3f;
  q = q * c + 2.22771168e-2f;
  q = q * c - 1.04037419e-1f;
  q = q * c - 6.37059689e-1f;
  q = q * c - 1.12774956f;
  q = q * c - 1.77487251e-4f;
  const float far = __builtin_copysignf(1.0f - exp_within(q), x);
  return size < 0.95f || x != x ? near : far;
#endif
}
FN double erf(double x) { return ::erf(x); }
COMPLEX(exp, x, std::exp(x))
template <class T>
FN std::complex<T> exp2(std::complex<T> x) {
  return std::exp(x * T(0.693147180559945309417));
}
template <class T>
FN std::complex<T> expm1(std::complex<T> x) {
  // (e^a - 1) cos b + (cos b - 1) keeps small values exact, and infinity.
  const T a = std::expm1(x.real()), s = std::sin(x.imag() / 2);
  return {a * std::cos(x.imag()) - 2 * s * s, (a + 1) * std::sin(x.imag())};
}
template <class T>
FN std::complex<T> log2(std::complex<T> x) {
  return std::log(x) * T(1.44269504088896340736);
}
template <class T>
FN std::complex<T> log1p(std::complex<T> x) {
  const double a = x.real(), b = x.imag(), size = std::hypot(a + 1, b);
  // Near the unit circle around -1 the logarithm of the size would lose its digits; far from it
  // squares lose theirs, or overflow.
  const bool is_near = size > 0.5 && size < 2;
  const double real = is_near ? std::log1p(std::fma(b, b, a * (a + 2))) / 2 : std::log(size);
  return {static_cast<T>(real), std::atan2(x.imag(), x.real() + 1)};
}

FN float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
FN double rsqrt(double x) { return 1.0 / ::sqrt(x); }
template <class T>
FN std::complex<T> rsqrt(std::complex<T> x) {
  return T(1) / std::sqrt(x);
}
REAL FN T reciprocal(T x) { return T(1) / x; }
template <class T>
FN std::complex<T> reciprocal(std::complex<T> x) {
  // One over zero has no sign.
  return T(1) / (x == std::complex<T>(0) ? std::complex<T>(0) : x);
}
template <class T>
FN T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
REAL FN T log_odds(T x) { return log(x / (T(1) - x)); }
REAL FN T softplus(T x) { return x > T(20) ? x : log1p(exp(x)); }

FN float floor(float x) { return ::floorf(x); }
FN double floor(double x) { return ::floor(x); }
FN float ceil(float x) { return ::ceilf(x); }
FN double ceil(double x) { return ::ceil(x); }
FN float trunc(float x) { return ::truncf(x); }
FN double trunc(double x) { return ::trunc(x); }
FN float rint(float x) { return ::rintf(x); }  // halves to even
FN double rint(double x) { return ::rint(x); }
INTEGER FN T floor(T x) { return x; }
INTEGER FN T ceil(T x) { return x; }
INTEGER FN T trunc(T x) { return x; }
INTEGER FN T rint(T x) { return x; }

FN float abs(float x) { return ::fabsf(x); }
FN double abs(double x) { return ::fabs(x); }
INTEGER FN T abs(T x) {
  if constexpr (std::is_signed_v<T>) {
    using U = std::make_unsigned_t<T>;
    return x < 0 ? static_cast<T>(U(0) - static_cast<U>(x)) : x;
  } else {
    return x;
  }
}
// Sizes of complex numbers: without overflow, rounded as well as hypot rounds, and the same number
// in vector code and outside of it, which hypot does not promise: norms look for the element whose
// size they have found. A NaN on either side counts unless it stands beside infinity.
FN float abs(std::complex<float> x) {
  const double a = x.real(), b = x.imag();
  const auto size = static_cast<float>(::sqrt(std::fma(a, a, b * b)));
  const float infinity = std::numeric_limits<float>::infinity();
  return abs(x.real()) == infinity || abs(x.imag()) == infinity ? infinity : size;
}
FN double abs(std::complex<double> x) {
  const double a = abs(x.real()), b = abs(x.imag());
  const double infinity = std::numeric_limits<double>::infinity();
  const double larger = a > b ? a : b;
  // Powers of two, so that no square overflows or loses digits to underflow.
  const double scale = larger > 0x1p500 ? 0x1p-600 : larger < 0x1p-400 ? 0x1p600 : 1;
  const double back = larger > 0x1p500 ? 0x1p600 : larger < 0x1p-400 ? 0x1p-600 : 1;
  const double high = larger * scale, low = (a > b ? b : a) * scale;
  const double root = ::sqrt(std::fma(high, high, low * low));
  // By how much the square of the root misses: root^2 - high^2 - low^2, with root = high + rest.
  const double rest = root - high, twice = 2 * rest, product = twice * high;
  const double excess = std::fma(rest, rest, std::fma(-low, low, product));
  const double missed = excess + std::fma(twice, high, -product);
  const double size = root == 0 ? root : (root - missed / (2 * root)) * back;
  return a == infinity || b == infinity ? infinity : size;
}

// Integer arithmetic wraps; signed overflow is spelt so that it is defined.
template <class T>
FN T negate(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  } else {
    return -x;
  }
}
template <class T>
FN T plus(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  } else {
    return a + b;
  }
}
template <class T>
FN T minus(T a, T b) {
  return plus(a, negate(b));
}
template <class T>
FN T times(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class T>
FN bool to_bool(T x) {
  return x != T(0);
}
template <class T>
requires(!is_complex_type<T>) FN T conj(T x) { return x; }
COMPLEX(conj, x, {x.real(), -x.imag()})
template <class T>
FN T zero_or_nan(T x) {
  return x == x ? T(0) : x;
}
template <class T>
FN T sign(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x;
  } else if constexpr (std::is_floating_point_v<T>) {
    return T((x > 0) - (x < 0));  // 0 for NaN
  } else {
    return static_cast<T>((x > 0) - (x < 0));
  }
}
template <class T>
FN bool isinf(T x) {
  if constexpr (is_complex_type<T>) {
    return isinf(x.real()) || isinf(x.imag());
  } else if constexpr (std::is_floating_point_v<T>) {
    return abs(x) == std::numeric_limits<T>::infinity();
  } else {
    return false;
  }
}
template <class T>
FN bool isfinite(T x) {
  if constexpr (is_complex_type<T>) {
    return isfinite(x.real()) && isfinite(x.imag());
  } else if constexpr (std::is_floating_point_v<T>) {
    return abs(x) < std::numeric_limits<T>::infinity();
  } else {
    return true;
  }
}
template <class T>
FN bool signbit(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<int32_t>(x) < 0;
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<int64_t>(x) < 0;
  } else {
    return std::is_signed_v<T> && x < T(0);
  }
}

// Against a constant of any arithmetic type; NaN in x stays.
template <class T, class U>
FN T min(T x, U bound) {
  return x > T(bound) ? T(bound) : x;
}
template <class T, class U>
FN T max(T x, U bound) {
  return x < T(bound) ? T(bound) : x;
}
template <class T>
FN T maximum(T a, T b) {
  const T larger = a > b ? a : b;  // b where b is NaN
  return a != a ? a : larger;
}
template <class T>
FN T minimum(T a, T b) {
  const T smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

FN float copysign(float a, float b) { return ::copysignf(a, b); }
FN double copysign(double a, double b) { return ::copysign(a, b); }
FN float atan2(float a, float b) { return ::atan2f(a, b); }
FN double atan2(double a, double b) { return ::atan2(a, b); }

// The rest of a division is a floating number itself: one fused step gives it exactly as long as
// the quotient, cut off, is an exact integer. a / b may have been rounded up to an integer, which
// shows in the sign.
REAL FN bool quotient_is_exact(T a, T b) {
  return abs(trunc(a / b)) < T(1) / std::numeric_limits<T>::epsilon();
}
REAL FN T fmod_of_exact(T a, T b) {
  const T quotient = trunc(a / b);
  const T stepped = quotient == 0 ? a : std::fma(-quotient, b, a);
  const T rest = (stepped != 0) & ((stepped < 0) != (a < 0)) ? stepped + copysign(b, a) : stepped;
  return rest == 0 ? copysign(T(0), a) : rest;
}
REAL FN T fmod(T a, T b) {
#if defined(__CUDACC__)
  return ::fmod(a, b);
#else
  return quotient_is_exact(a, b) ? fmod_of_exact(a, b) : std::fmod(a, b);
#endif
}
// Division by zero is checked by the op before the kernel runs; the smallest integer over -1 wraps.
INTEGER FN T fmod(T a, T b) {
  return b == T(0) || (std::is_signed_v<T> && b == T(-1)) ? T(0) : static_cast<T>(a % b);
}
// What follows from the rest: with the sign of b, and the quotient rounded down.
REAL FN T remainder_from(T rest, T b) {
  return (rest != 0) & ((b < 0) != (rest < 0)) ? rest + b : rest;
}
REAL FN T div_floor_from(T rest, T a, T b) {
  const T whole = (a - rest) / b;
  const T quotient = (rest != 0) & ((b < 0) != (rest < 0)) ? whole - T(1) : whole;
  const T floored = floor(quotient);
  const T rounded = quotient - floored > T(0.5) ? floored + T(1) : floored;
  return quotient == 0 ? copysign(T(0), a / b) : rounded;
}
REAL FN T remainder(T a, T b) { return remainder_from(fmod(a, b), b); }
INTEGER FN T remainder(T a, T b) {
  const T rest = fmod(a, b);
  return rest != 0 && ((b < 0) != (rest < 0)) ? static_cast<T>(rest + b) : rest;
}
REAL FN T div_trunc(T a, T b) { return trunc(a / b); }
INTEGER FN T div_trunc(T a, T b) {
  if (b == T(0)) return T(0);
  return std::is_signed_v<T> && b == T(-1) ? negate(a) : static_cast<T>(a / b);
}
// As Python's //: exact for floats too, where a / b itself may round up to the next integer.
REAL FN T div_floor(T a, T b) { return b == T(0) ? a / b : div_floor_from(fmod(a, b), a, b); }
INTEGER FN T div_floor(T a, T b) {
  const T quotient = div_trunc(a, b);
  return b != T(0) && ((a < 0) != (b < 0)) && fmod(a, b) != T(0) ? static_cast<T>(quotient - 1)
                                                                 : quotient;
}

// Shifts by as much as the width or more give what an endless word would: 0, or the sign. In words
// of 32 bits, where these are enough, of which vector code takes more at once.
INTEGER FN T shift_left(T a, T b) {
  using U = std::make_unsigned_t<T>;
  using Word = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
  constexpr int width = std::numeric_limits<U>::digits;
  const bool within = static_cast<U>(b) < width;
  return static_cast<T>(within ? static_cast<Word>(static_cast<U>(a)) << (b & T(width - 1)) : 0);
}
INTEGER FN T shift_right(T a, T b) {
  constexpr int width = std::numeric_limits<std::make_unsigned_t<T>>::digits;
  using U = std::make_unsigned_t<T>;
  const bool within = static_cast<U>(b) < width;
  if (std::is_signed_v<T>) return static_cast<T>(a >> (within ? b : T(width - 1)));
  return static_cast<T>(within ? a >> (b & T(width - 1)) : 0);
}

// Where one is NaN, the other.
template <class T>
FN T fmax(T a, T b) {
  return a != a ? b : b != b ? a : a < b ? b : a;
}
template <class T>
FN T fmin(T a, T b) {
  return a != a ? b : b != b ? a : b < a ? b : a;
}
// Infinite beside infinity even where the other is NaN, which vector code forgets.
FN float hypot(float a, float b) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float length = ::hypotf(a, b);
  return (abs(a) == infinity) | (abs(b) == infinity) ? infinity : length;
}
FN double hypot(double a, double b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double length = ::hypot(a, b);
  return (abs(a) == infinity) | (abs(b) == infinity) ? infinity : length;
}
FN float nextafter(float a, float b) { return ::nextafterf(a, b); }
FN double nextafter(double a, double b) { return ::nextafter(a, b); }
// log(e**a + e**b) and its base-2 sibling, without overflow; equal infinities stay.
REAL FN T logaddexp(T a, T b) {
  const T top = a > b ? a : b;
  return isinf(a) && a == b ? a : top + log1p(exp(-abs(a - b)));
}
template <class T>
FN std::complex<T> logaddexp(std::complex<T> a, std::complex<T> b) {
  const bool first = a.real() > b.real();
  const std::complex<T> top = first ? a : b, rest = first ? b : a;
  return isinf(a) && a == b ? a : top + log1p(std::exp(rest - top));
}
REAL FN T logaddexp2(T a, T b) {
  const T top = a > b ? a : b;
  return isinf(a) && a == b ? a : top + log1p(exp2(-abs(a - b))) * T(1.44269504088896340736);
}
template <class T>
FN T heaviside(T a, T b) {
  return a == T(0) ? b : static_cast<T>(a > T(0));  // of NaN 0, as PyTorch has it
}
INTEGER FN T gcd(T a, T b) {
  a = abs(a);
  b = abs(b);
  while (b != 0) {
    const T rest = fmod(a, b);
    a = b;
    b = rest;
  }
  return a;
}
INTEGER FN T lcm(T a, T b) {
  const T divisor = gcd(a, b);
  return divisor == 0 ? T(0) : abs(times(div_trunc(a, divisor), b));
}

FN float pow(float a, float b) { return ::powf(a, b); }
FN double pow(double a, double b) { return ::pow(a, b); }
template <class T>
FN std::complex<T> complex_pow(std::complex<T> a, std::complex<T> b) {
  if (b == std::complex<T>(0)) return std::complex<T>(1);
  if (a == std::complex<T>(0) && b.real() > 0) return std::complex<T>(0);
  return std::pow(a, b);
}
FN std::complex<float> pow(std::complex<float> a, std::complex<float> b) {
  return complex_pow(a, b);
}
FN std::complex<double> pow(std::complex<double> a, std::complex<double> b) {
  return complex_pow(a, b);
}
INTEGER FN T pow(T a, T b) {
  if (b < T(0)) {  // only for tensors of exponents; a scalar one is refused
    if (a == T(1)) return T(1);
    if (std::is_signed_v<T> && a == T(-1)) return b % 2 == 0 ? T(1) : T(-1);
    return T(0);
  }
  T result = 1;
  for (T e = b; e > 0; e = static_cast<T>(e >> 1)) {
    if (e & 1) result = times(result, a);
    a = times(a, a);
  }
  return result;
}

FN double gelu(double x) { return x * 0.5 * (1.0 + erf(x * 0.70710678118654752440)); }
// x times the share of the normal distribution below x. The share beyond |x| is 2**q, q a
// polynomial: n + r, of which 2**r is a polynomial again. Within 1e-7 of |x|.
FN float gelu(float x) {
#if defined(__CUDACC__)
  return x * 0.5f * (1.0f + erf(x * 0.70710678118654752440f));
#else
  const float size = abs(x), t = size < 6.0f ? size : 6.0f;
  float q = -1.87065835e-08f;
  q = q * t + 6.01246884e-07f;
  q = q * t - 8.24081822e-06f;
  q = q * t + 6.08872956e-05f;
  q = q * t - 0.000227621116f;
  q = q * t - 0.000103525516f;
  q = q * t + 0.00706653844f;
  q = q * t - 0.0525166645f;
  q = q * t - 0.459197983f;
  q = q * t - 1.15110673f;
  q = q * t - 0.999999959f;
  const float shifted = q + integer_shift, r = q - (shifted - integer_shift);
  float p = 0.00132764719f;
  p = p * r + 0.00967554133f;
  p = p * r + 0.0555071327f;
  p = p * r + 0.240221197f;
  p = p * r + 0.693146967f;
  p = p * r + 1.00000007f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;
  const float share = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
  return (x > 0.0f ? x : x * 0.0f) - t * (size < 6.0f ? share : 0.0f);
#endif
}
REAL FN T gelu_tanh(T x) {
  const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + tanh(inner));
}

#undef FN
#undef COMPLEX
#undef REAL
#undef INTEGER

}  // namespace flambeau::math
