// Arithmetic of the 16-bit floating types as C++ programs write it: each result is rounded. (The
// core's kernels compute in float, and convert at the end.)
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "flambeau/tensor/half.h"

namespace flambeau {

template <class T>
concept Reduced = std::same_as<T, Half> || std::same_as<T, BFloat16>;

#define FLAMBEAU_REDUCED(op)                               \
  template <Reduced T>                                     \
  T operator op(const T& a, const T& b) {                  \
    return static_cast<float>(a) op static_cast<float>(b); \
  }                                                        \
  template <Reduced T>                                     \
  T& operator op##=(T& a, float b) {                       \
    return a = static_cast<float>(a) op b;                 \
  }
FLAMBEAU_REDUCED(+)
FLAMBEAU_REDUCED(-)
FLAMBEAU_REDUCED(*)
FLAMBEAU_REDUCED(/)
#undef FLAMBEAU_REDUCED
template <Reduced T>
T operator-(const T& a) {
  return -static_cast<float>(a);
}

// What std::numeric_limits says of such a type, from the bits of its values.
template <Reduced T, uint16_t min_bits, uint16_t max_bits, uint16_t infinity_bits,
          uint16_t epsilon_bits>
struct ReducedLimits {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool is_exact = false, has_infinity = true, has_quiet_NaN = true;
  static constexpr int radix = 2;
  static T of(uint16_t bits) {
    T value;
    value.bits = bits;
    return value;
  }
  static T min() { return of(min_bits); }
  static T max() { return of(max_bits); }
  static T lowest() { return of(max_bits | 0x8000u); }
  static T infinity() { return of(infinity_bits); }
  static T quiet_NaN() { return of(infinity_bits | infinity_bits >> 1); }
  static T epsilon() { return of(epsilon_bits); }
};

namespace torch {

// What formulas of T compute in, and what sums of T are added up in.
template <class T>
using opmath_type = std::conditional_t<Reduced<T>, float, T>;
namespace detail {
template <class T, bool on_gpu>
struct Accumulator {
  using type = std::conditional_t<
      std::integral<T> && !std::same_as<T, bool>, int64_t,
      std::conditional_t<std::same_as<T, float> && !on_gpu, double, opmath_type<T>>>;
};
}  // namespace detail
template <class T, bool on_gpu>
using acc_type = typename detail::Accumulator<T, on_gpu>::type;

}  // namespace torch
}  // namespace flambeau

template <>
struct std::numeric_limits<flambeau::Half>
    : flambeau::ReducedLimits<flambeau::Half, 0x0400, 0x7bff, 0x7c00, 0x1400> {};
template <>
struct std::numeric_limits<flambeau::BFloat16>
    : flambeau::ReducedLimits<flambeau::BFloat16, 0x0080, 0x7f7f, 0x7f80, 0x3c00> {};
