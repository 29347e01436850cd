#include "flambeau/tensor/scalar.h"

#include <limits>

namespace flambeau {
namespace {

template <class T>
bool integer_fits(int64_t value, bool is_unsigned) {
  if constexpr (std::is_same_v<T, uint64_t>) {
    return is_unsigned || value >= 0;
  } else {
    return !is_unsigned && value >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
           value <= static_cast<int64_t>(std::numeric_limits<T>::max());
  }
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
  dispatch<dtypes::All>("fits", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_complex_type<T> || is_floating_type<T>) {
      result = is_complex_type<T> || !is_complex() || imaginary_ == 0;
    } else if constexpr (std::is_same_v<T, bool>) {
      result = true;
    } else if (is_integral(true)) {
      result = integer_fits<T>(integer_, tag_ == Tag::unsigned_integer);
    } else {
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = static_cast<double>(std::numeric_limits<T>::max());
      result = imaginary_ == 0 && floating_ >= low && floating_ <= high;
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
