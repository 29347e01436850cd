// A number as Python passes it: bool, int, float or complex. It stays a number: `x * 2.0` never
// builds a tensor, and in type promotion it is weak.
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <string>

#include "flambeau/tensor/dtype.h"

namespace flambeau {

class Scalar {
 public:
  enum class Tag : uint8_t { boolean, integer, unsigned_integer, floating, complex };

  Scalar() : Scalar(int64_t{0}) {}
  Scalar(bool value) : tag_(Tag::boolean), integer_(value) {}  // NOLINT
  Scalar(std::floating_point auto value)                       // NOLINT
      : tag_(Tag::floating), floating_(static_cast<double>(value)) {}
  template <std::integral T>
  requires(!std::is_same_v<T, bool>) Scalar(T value)
      : tag_(Tag::integer), integer_(static_cast<int64_t>(value)) {  // NOLINT
    if (std::is_unsigned_v<T> && static_cast<uint64_t>(value) >> 63) tag_ = Tag::unsigned_integer;
  }
  template <class T>
  Scalar(std::complex<T> value)  // NOLINT
      : tag_(Tag::complex), floating_(value.real()), imaginary_(value.imag()) {}
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}      // NOLINT
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}  // NOLINT
  template <const Float8Format& format>
  Scalar(Float8<format> value) : Scalar(static_cast<float>(value)) {}     // NOLINT
  Scalar(ComplexHalf value) : Scalar(value.to<std::complex<float>>()) {}  // NOLINT

  [[nodiscard]] Tag tag() const { return tag_; }
  [[nodiscard]] bool is_boolean() const { return tag_ == Tag::boolean; }
  [[nodiscard]] bool is_integral(bool with_bool = false) const {
    return tag_ == Tag::integer || tag_ == Tag::unsigned_integer || (with_bool && is_boolean());
  }
  [[nodiscard]] bool is_floating() const { return tag_ == Tag::floating; }
  [[nodiscard]] bool is_complex() const { return tag_ == Tag::complex; }

  // The value in T, wrapping or truncating as a C++ cast does, without undefined behaviour.
  template <class T>
  [[nodiscard]] T to() const {
    if constexpr (is_complex_type<T>) {
      return is_complex() ? T(floating_, imaginary_) : T(to<typename T::value_type>());
    } else if constexpr (std::is_same_v<T, ComplexHalf>) {
      return T(to<std::complex<float>>());
    } else if constexpr (std::is_same_v<ComputeType<T>, bool>) {
      return is_floating()  ? floating_ != 0
             : is_complex() ? floating_ != 0 || imaginary_ != 0
                            : integer_ != 0;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(is_floating() || is_complex() ? saturate(floating_) : integer_);
    } else {
      const double value = is_floating() || is_complex()   ? floating_
                           : tag_ == Tag::unsigned_integer ? static_cast<uint64_t>(integer_)
                                                           : static_cast<double>(integer_);
      if constexpr (is_reduced_type<T> || is_float8_type<T>) {
        return T(static_cast<float>(value));
      } else {
        return static_cast<T>(value);
      }
    }
  }
  [[nodiscard]] double to_double() const { return to<double>(); }
  [[nodiscard]] int64_t to_int() const { return to<int64_t>(); }

  // The dtype a tensor made from this number has: bool, int64, the default dtype or its complex.
  [[nodiscard]] DType natural_dtype() const;
  // Whether dtype can hold the value: no overflow, no imaginary part lost. A fraction may be
  // cut off, and a negative integer may wrap in an unsigned dtype that holds its absolute value.
  [[nodiscard]] bool fits(DType dtype) const;
  bool operator==(const Scalar& other) const;
  Scalar operator-() const;

 private:
  static int64_t saturate(double value) {
    if (!(value > -9.2233720368547758e18)) return INT64_MIN;  // NaN too
    if (value >= 9.2233720368547758e18) return INT64_MIN;     // what x86 gives
    return static_cast<int64_t>(value);
  }

  Tag tag_;
  union {
    int64_t integer_;
    double floating_;
  };
  double imaginary_ = 0;
};

std::string to_text(const Scalar& scalar);

}  // namespace flambeau
