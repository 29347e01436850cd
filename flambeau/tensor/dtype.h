// Element types: the enumeration, their C++ types, sets of them, promotion, and the switch from
// a run-time dtype to a compile-time type.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "flambeau/base/check.h"
#include "flambeau/tensor/float8.h"
#include "flambeau/tensor/half.h"
#include "flambeau/tensor/stored_bool.h"

namespace flambeau {

// The dtypes that nothing computes in: see Note [Stored dtypes].
#define FLAMBEAU_STORED_DTYPES(ROW)                                                         \
  ROW(complex32, ::flambeau::ComplexHalf, "ComplexHalf")                                    \
  ROW(float8_e4m3fn, ::flambeau::Float8<::flambeau::float8::e4m3fn>, "Float8_e4m3fn")       \
  ROW(float8_e5m2, ::flambeau::Float8<::flambeau::float8::e5m2>, "Float8_e5m2")             \
  ROW(float8_e4m3fnuz, ::flambeau::Float8<::flambeau::float8::e4m3fnuz>, "Float8_e4m3fnuz") \
  ROW(float8_e5m2fnuz, ::flambeau::Float8<::flambeau::float8::e5m2fnuz>, "Float8_e5m2fnuz") \
  ROW(float8_e8m0fnu, ::flambeau::Float8<::flambeau::float8::e8m0fnu>, "Float8_e8m0fnu")

//          Python name, C++ type, the name in "torch.FloatTensor", storage in files
#define FLAMBEAU_DTYPES(ROW)                             \
  ROW(uint8, uint8_t, "Byte")                            \
  ROW(int8, int8_t, "Char")                              \
  ROW(int16, int16_t, "Short")                           \
  ROW(int32, int32_t, "Int")                             \
  ROW(int64, int64_t, "Long")                            \
  ROW(float16, ::flambeau::Half, "Half")                 \
  ROW(float32, float, "Float")                           \
  ROW(float64, double, "Double")                         \
  ROW(complex64, std::complex<float>, "ComplexFloat")    \
  ROW(complex128, std::complex<double>, "ComplexDouble") \
  ROW(bool_, ::flambeau::StoredBool, "Bool")             \
  ROW(bfloat16, ::flambeau::BFloat16, "BFloat16")        \
  ROW(uint16, uint16_t, "UInt16")                        \
  ROW(uint32, uint32_t, "UInt32")                        \
  ROW(uint64, uint64_t, "UInt64")                        \
  FLAMBEAU_STORED_DTYPES(ROW)

enum class DType : uint8_t {
#define ROW(name, type, legacy) name,
  FLAMBEAU_DTYPES(ROW)
#undef ROW

  // As C++ programs call them.
  Byte = uint8,
  Char = int8,
  Short = int16,
  Int = int32,
  Long = int64,
  Half = float16,
  Float = float32,
  Double = float64,
  ComplexHalf = complex32,
  ComplexFloat = complex64,
  ComplexDouble = complex128,
  Bool = bool_,
  BFloat16 = bfloat16,
  UInt16 = uint16,
  UInt32 = uint32,
  UInt64 = uint64,
  Float8_e4m3fn = float8_e4m3fn,
  Float8_e5m2 = float8_e5m2,
  Float8_e4m3fnuz = float8_e4m3fnuz,
  Float8_e5m2fnuz = float8_e5m2fnuz,
  Float8_e8m0fnu = float8_e8m0fnu,
  Undefined = 255  // of no tensor
};

#define ROW(name, type, legacy) +1
constexpr int dtype_count = 0 FLAMBEAU_DTYPES(ROW);
#undef ROW

// A set of dtypes, one bit each. Above them a row may carry a mark: what it does with other dtypes.
struct DTypeSet {
  enum Mark : uint32_t {
    refuses_integers = 1u << 24,  // instead of taking them as floating numbers
    counts_bools = 1u << 25,      // takes bool as int64
    type_error = 1u << 26,        // raises TypeError for the rest, not NotImplementedError
    no_bool_operand = 1u << 27,   // whatever the other operand makes of it
    bounds = 1u << 28,            // its numbers are a lower and an upper bound
    widens_float8 = 1u << 29,     // computes float8 in float32
    widens_complex32 = 1u << 30,  // computes complex32 in complex64
    one_dtype = 1u << 31,         // its operands must have the same
  };
  uint32_t bits = 0;
  constexpr DTypeSet() = default;
  constexpr DTypeSet(DType one) : bits(1u << static_cast<int>(one)) {}  // NOLINT
  constexpr explicit DTypeSet(uint32_t raw) : bits(raw) {}
  [[nodiscard]] constexpr bool has(DType dtype) const {
    return bits >> static_cast<int>(dtype) & 1u;
  }
  [[nodiscard]] constexpr bool marked(Mark mark) const { return bits & mark; }
  constexpr DTypeSet operator|(DTypeSet other) const { return DTypeSet(bits | other.bits); }
  constexpr DTypeSet operator-(DTypeSet other) const { return DTypeSet(bits & ~other.bits); }
};
constexpr DTypeSet operator|(DType a, DType b) { return DTypeSet(a) | DTypeSet(b); }

namespace dtypes {
constexpr DTypeSet Reduced = DType::float16 | DType::bfloat16;
constexpr DTypeSet Floating = Reduced | DType::float32 | DType::float64;
constexpr DTypeSet Complex = DType::complex64 | DType::complex128;
constexpr DTypeSet Signed = DType::int8 | DType::int16 | DTypeSet(DType::int32) | DType::int64;
constexpr DTypeSet Unsigned = DTypeSet(DType::uint16) | DType::uint32 | DType::uint64;
constexpr DTypeSet Integral = Signed | DType::uint8 | Unsigned;
constexpr DTypeSet Bool = DType::bool_;
constexpr DTypeSet FloatingComplex = Floating | Complex;
constexpr DTypeSet Real = Floating | Integral;
constexpr DTypeSet RealBool = Real | Bool;
constexpr DTypeSet Numeric = Real | Complex;
constexpr DTypeSet IntegralBool = Integral | Bool;
constexpr DTypeSet All = Numeric | Bool;

// See Note [Stored dtypes].
constexpr DTypeSet Float8 = DType::float8_e4m3fn | DType::float8_e5m2 |
                            DTypeSet(DType::float8_e4m3fnuz) | DType::float8_e5m2fnuz |
                            DType::float8_e8m0fnu;
constexpr DTypeSet Stored = Float8 | DType::complex32;
constexpr DTypeSet AllStored = All | Stored;

// Sets of rows that say what becomes of other dtypes.
constexpr DTypeSet OnlyFloating = Floating | DTypeSet(DTypeSet::refuses_integers);
constexpr DTypeSet OnlyFloatingComplex = FloatingComplex | DTypeSet(DTypeSet::refuses_integers);
constexpr DTypeSet CountingNumeric = Numeric | DTypeSet(DTypeSet::counts_bools);
constexpr DTypeSet Ordered = RealBool | DTypeSet(DTypeSet::type_error);
constexpr DTypeSet BoundedReal = Real | DTypeSet(DTypeSet::bounds);
constexpr DTypeSet WidensComplex = DTypeSet(DTypeSet::widens_complex32);
constexpr DTypeSet Widens = WidensComplex | DTypeSet(DTypeSet::widens_float8);
constexpr DTypeSet Subtractable = Numeric | DTypeSet(DTypeSet::no_bool_operand) | WidensComplex;
constexpr DTypeSet Negatable = Numeric | WidensComplex;
constexpr DTypeSet Addable = All | WidensComplex;
constexpr DTypeSet Anything = All | Widens;
constexpr DTypeSet UnmixedRealBool = RealBool | DTypeSet(DTypeSet::one_dtype);
}  // namespace dtypes

size_t item_size(DType dtype);
std::string_view dtype_name(DType dtype);         // "float32"
std::string_view dtype_legacy_name(DType dtype);  // "Float", as in torch.FloatTensor
std::string to_text(DType dtype);

constexpr bool is_floating(DType dtype) { return (dtypes::Floating | dtypes::Float8).has(dtype); }
constexpr bool is_complex(DType dtype) { return (dtypes::Complex | DType::complex32).has(dtype); }
constexpr bool is_stored(DType dtype) { return dtypes::Stored.has(dtype); }
constexpr bool is_differentiable(DType dtype) {
  return (dtypes::FloatingComplex | dtypes::Stored).has(dtype);
}
constexpr bool is_integral(DType dtype, bool with_bool = false) {
  return dtypes::Integral.has(dtype) || (with_bool && dtype == DType::bool_);
}
constexpr bool is_signed(DType dtype) {
  return dtypes::Signed.has(dtype) || (is_differentiable(dtype) && dtype != DType::float8_e8m0fnu);
}

DType promote_types(DType a, DType b);
bool can_cast(DType from, DType to);  // by category: no complex to real, no float to int, ...
DType to_real(DType dtype);           // complex64 -> float32, others themselves
DType to_complex(DType dtype);        // float32 -> complex64, complex types themselves
DType widened(DType dtype);  // float8 -> float32, complex32 -> complex64, others themselves
DType default_dtype();       // float32 unless set
void set_default_dtype(DType dtype);
inline DType default_complex_dtype() { return to_complex(default_dtype()); }

template <class T>
struct DTypeOf;
#define ROW(name, type, legacy)                 \
  template <>                                   \
  struct DTypeOf<type> {                        \
    static constexpr DType value = DType::name; \
  };
FLAMBEAU_DTYPES(ROW)
#undef ROW
template <class T>
constexpr DType dtype_of = DTypeOf<T>::value;

// The dtypes whose elements may be read as T: its own, and for an integer all of its size.
template <class T>
constexpr DTypeSet readable_as = [] {
  DTypeSet set = dtype_of<T>;
#define ROW(name, type, legacy)                                                       \
  if (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) == sizeof(type)) \
    set = set | DType::name;
  FLAMBEAU_DTYPES(ROW)
#undef ROW
  return set;
}();

// What arithmetic on stored T is done in.
template <class T>
struct ComputeTypeOf {
  using type = T;
};
template <>
struct ComputeTypeOf<StoredBool> {
  using type = bool;
};
template <>
struct ComputeTypeOf<Half> {
  using type = float;
};
template <>
struct ComputeTypeOf<BFloat16> {
  using type = float;
};
template <const Float8Format& format>
struct ComputeTypeOf<Float8<format>> {
  using type = float;
};
template <class T>
using ComputeType = typename ComputeTypeOf<T>::type;

template <class T>
constexpr bool is_complex_type = false;
template <class T>
constexpr bool is_complex_type<std::complex<T>> = true;
template <class T>
constexpr bool is_reduced_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
constexpr bool is_float8_type = false;
template <const Float8Format& format>
constexpr bool is_float8_type<Float8<format>> = true;
template <class T>
constexpr bool is_floating_type = std::is_floating_point_v<T> || is_reduced_type<T>;

template <class T>
struct TypeTag {
  using type = T;
};

// Calls body(TypeTag<T>{}) for the dtype if Set has it; otherwise raises PyTorch's sentence. Only
// the types of the set are instantiated.
template <DTypeSet Set, class Body>
void dispatch(std::string_view op, DType dtype, Body&& body) {
  switch (dtype) {
#define ROW(name, type, legacy)                                       \
  case DType::name:                                                   \
    if constexpr (Set.has(DType::name)) return body(TypeTag<type>{}); \
    break;
    FLAMBEAU_DTYPES(ROW)
#undef ROW
    case DType::Undefined: break;
  }
  fail<NotImplementedError>("\"{}\" not implemented for '{}'", op, dtype_legacy_name(dtype));
}

// Bytes only, for copies, gathers and the like, where the meaning of an element does not matter.
template <class Body>
void dispatch_size(size_t bytes, Body&& body) {
  switch (bytes) {
    case 1: return body(TypeTag<uint8_t>{});
    case 2: return body(TypeTag<uint16_t>{});
    case 4: return body(TypeTag<uint32_t>{});
    case 8: return body(TypeTag<uint64_t>{});
    default: return body(TypeTag<std::complex<double>>{});
  }
}

}  // namespace flambeau
