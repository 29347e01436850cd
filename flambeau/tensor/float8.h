// The types that are only stored: floating numbers of 8 bits, and complex numbers of two halves.
// Nothing computes in them: kernels move their bytes, and what has arithmetic for them converts to
// float or complex<float> and back (Note [Stored dtypes] in ops/creation/copy.cpp).
#pragma once

#include <bit>
#include <complex>
#include <cstdint>

#include "flambeau/tensor/half.h"

namespace flambeau {

// How a byte is a number: a sign, an exponent and `mantissa` bits, or, where there is no sign, an
// exponent alone.
struct Float8Format {
  int mantissa, bias;
  uint8_t largest;   // the code of the largest number
  uint8_t overflow;  // the code of what is larger, and of infinity
  uint8_t nan;
  bool has_sign = true, has_negative_zero = true;
};

namespace float8 {
constexpr Float8Format e4m3fn{3, 7, 0x7e, 0x7e, 0x7f};
constexpr Float8Format e5m2{2, 15, 0x7b, 0x7c, 0x7f};
constexpr Float8Format e4m3fnuz{3, 8, 0x7f, 0x80, 0x80, true, false};
constexpr Float8Format e5m2fnuz{2, 16, 0x7f, 0x80, 0x80, true, false};
constexpr Float8Format e8m0fnu{0, 127, 0xfe, 0xff, 0xff, false, false};

// The power of two nearest to |value|; halfway between two, the larger.
FLAMBEAU_DEVICE constexpr uint8_t encode_power(uint32_t magnitude) {
  const uint32_t exponent = magnitude >> 23;
  const bool half = magnitude & 0x400000u, more = magnitude & 0x3fffffu;
  return static_cast<uint8_t>(exponent + (exponent < 255 && half && (exponent > 0 || more)));
}

// Rounds to the nearest, halfway to the even code.
FLAMBEAU_DEVICE constexpr uint8_t encode(const Float8Format& format, float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value), magnitude = word & 0x7fffffffu;
  if (!format.has_sign) return encode_power(magnitude);
  const uint32_t cut = 23 - static_cast<uint32_t>(format.mantissa);
  const uint32_t shift = static_cast<uint32_t>(127 - format.bias) << 23;
  // Below the smallest normal number the codes count steps, which an addition rounds to.
  const uint32_t counter = (static_cast<uint32_t>(128 - format.bias) + cut) << 23;
  const float counted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(counter);
  const uint32_t small = std::bit_cast<uint32_t>(counted) - counter;
  const uint32_t moved = magnitude - shift;
  const uint32_t normal = (moved + (1u << (cut - 1)) - 1 + ((moved >> cut) & 1u)) >> cut;
  uint32_t code = magnitude < shift + (1u << 23) ? small : normal;
  code = code > format.largest ? format.overflow : code;
  code = magnitude > 0x7f800000u ? format.nan : code;
  const uint32_t sign = code != 0 || format.has_negative_zero ? word >> 24 & 0x80u : 0;
  return static_cast<uint8_t>(code | sign);
}

FLAMBEAU_DEVICE constexpr float decode(const Float8Format& format, uint8_t code) {
  // The words of infinity, of a NaN with the bits that the byte has, and of the only NaN.
  constexpr uint32_t infinity = 0x7f800000u, some_nan = 0x7fc00000u, the_nan = 0x7f800001u;
  if (code == format.nan && !format.has_negative_zero) return std::bit_cast<float>(the_nan);
  if (!format.has_sign) {
    return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23);
  }
  const uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7fu;
  const uint32_t cut = 23 - static_cast<uint32_t>(format.mantissa);
  const uint32_t shift = static_cast<uint32_t>(127 - format.bias) << 23;
  if (magnitude > format.overflow) {
    return std::bit_cast<float>(sign | some_nan | (magnitude << cut & 0x7fffffu));
  }
  if (magnitude > format.largest) return std::bit_cast<float>(sign | infinity);
  if (magnitude >> format.mantissa) {
    return std::bit_cast<float>(sign | ((magnitude << cut) + shift));
  }
  const float step =
      std::bit_cast<float>(shift - (static_cast<uint32_t>(format.mantissa - 1) << 23));
  return (sign ? -step : step) * static_cast<float>(magnitude);
}
}  // namespace float8

// For the host; device code knows the format as numbers.
template <const Float8Format& format>
struct Float8 {
  static constexpr const Float8Format& kind = format;
  uint8_t bits = 0;

  Float8() = default;
  Float8(float value) : bits(float8::encode(format, value)) {}     // NOLINT
  operator float() const { return float8::decode(format, bits); }  // NOLINT
};

// A complex number of two halves.
struct ComplexHalf {
  Half real_part, imaginary_part;

  ComplexHalf() = default;
  template <class Complex>
  FLAMBEAU_DEVICE explicit ComplexHalf(Complex value)
      : real_part(static_cast<float>(value.real())),
        imaginary_part(static_cast<float>(value.imag())) {}
  template <class Complex>
  [[nodiscard]] FLAMBEAU_DEVICE Complex to() const {
    return Complex(static_cast<float>(real_part), static_cast<float>(imaginary_part));
  }
};

}  // namespace flambeau
