#include "flambeau/tensor/scalar.h"

#include <cmath>
#include <limits>

namespace flambeau {
namespace {

template <class T>
bool integer_fits(int64_t value, bool is_unsigned) {
  constexpr uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max());
  if (is_unsigned || value >= 0) return static_cast<uint64_t>(value) <= most;
  const uint64_t size = uint64_t{0} - static_cast<uint64_t>(value);
  return size <= most + (std::is_signed_v<T> ? 1 : 0);
}

// Infinity and NaN have a place in every floating type.
template <class T>
bool real_fits(double value) {
  constexpr double most = std::is_same_v<T, Half>       ? 65504.0
                          : std::is_same_v<T, BFloat16> ? 3.3895313892515355e38
                          : std::is_same_v<T, float>    ? std::numeric_limits<float>::max()
                                                        : std::numeric_limits<double>::max();
  return !(std::abs(value) > most) || std::isinf(value);
}

// Only where there is a code for what overflows has infinity a place, and only where there is a
// sign has a negative number one.
template <class T>
bool float8_fits(double value) {
  constexpr const Float8Format& format = T::kind;
  constexpr float most = float8::decode(format, format.largest);
  constexpr bool has_infinity = format.has_negative_zero && format.overflow > format.largest;
  if (std::isinf(value)) return has_infinity;
  return !(std::abs(value) > most) && (format.has_sign || !(value < 0));
}

}  // namespace

DType Scalar::natural_dtype() const {
  switch (tag_) {
    case Tag::boolean: return DType::bool_;
    case Tag::integer: return DType::int64;
    case Tag::unsigned_integer: return DType::uint64;
    case Tag::floating: return default_dtype();
    case Tag::complex: return default_complex_dtype();
  }
  return DType::int64;
}

bool Scalar::fits(DType dtype) const {
  bool result = true;
  dispatch<dtypes::AllStored>("fits", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, StoredBool>) {
      result = true;
    } else if (is_boolean()) {
      result = true;
    } else if constexpr (is_complex_type<T>) {
      using Part = typename T::value_type;
      result = real_fits<Part>(to_double()) && real_fits<Part>(imaginary_);
    } else if constexpr (std::is_same_v<T, ComplexHalf>) {
      result = real_fits<Half>(to_double()) && real_fits<Half>(imaginary_);
    } else if (is_complex() && imaginary_ != 0) {
      result = false;
    } else if constexpr (is_float8_type<T>) {
      result = float8_fits<T>(to_double());
    } else if constexpr (is_floating_type<T>) {
      result = real_fits<T>(to_double());
    } else if (is_integral()) {
      result = integer_fits<T>(integer_, tag_ == Tag::unsigned_integer);
    } else {
      // The bounds as doubles: the largest 64-bit integers round up to one that does not fit.
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      result = floating_ >= low && (sizeof(T) < 8 ? floating_ < high + 1 : floating_ < high);
    }
  });
  return result;
}

bool Scalar::operator==(const Scalar& other) const {
  if (is_complex() || other.is_complex()) {
    return to<std::complex<double>>() == other.to<std::complex<double>>();
  }
  if (is_floating() || other.is_floating()) return to_double() == other.to_double();
  return integer_ == other.integer_;
}

Scalar Scalar::operator-() const {
  if (is_complex()) return -to<std::complex<double>>();
  if (is_floating()) return -floating_;
  return static_cast<int64_t>(-static_cast<uint64_t>(integer_));
}

std::string to_text(const Scalar& scalar) {
  if (scalar.is_boolean()) return to_text(scalar.to<bool>());
  if (scalar.is_complex()) return to_text(scalar.to<std::complex<double>>());
  if (scalar.is_floating()) return to_text(scalar.to_double());
  return to_text(scalar.to_int());
}

}  // namespace flambeau
