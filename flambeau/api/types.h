// What tensors are made of and where, under the names of C++ programs: dtypes, devices, layouts,
// numbers.
#pragma once

#include <iosfwd>

#include "flambeau/api/array_ref.h"
#include "flambeau/tensor/device.h"
#include "flambeau/tensor/scalar.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Found by the namespace of what they write.
std::ostream& operator<<(std::ostream& out, DType dtype);  // Float
std::ostream& operator<<(std::ostream& out, DeviceType type);
std::ostream& operator<<(std::ostream& out, const Device& device);
std::ostream& operator<<(std::ostream& out, Layout layout);
std::ostream& operator<<(std::ostream& out, MemoryFormat format);
std::ostream& operator<<(std::ostream& out, const Scalar& scalar);
std::ostream& operator<<(std::ostream& out, IntSpan ints);
std::ostream& operator<<(std::ostream& out, Half value);
std::ostream& operator<<(std::ostream& out, BFloat16 value);
std::string to_text(Layout layout);

}  // namespace flambeau

namespace flambeau::torch {

using flambeau::BFloat16;
using flambeau::DeviceType;
using flambeau::DType;
using flambeau::Half;
using flambeau::Layout;
using flambeau::MemoryFormat;
using ScalarType = DType;
using Dtype = DType;
using DeviceIndex = int8_t;
using SymInt = int64_t;  // sizes are numbers, always
using SymIntArrayRef = IntArrayRef;
using OptionalSymIntArrayRef = OptionalIntArrayRef;
using CheckedFrom = const char*;
using std::nullopt;
using std::nullopt_t;
using std::optional;

constexpr auto kByte = ScalarType::Byte, kUInt8 = kByte, kU8 = kByte;
constexpr auto kChar = ScalarType::Char, kInt8 = kChar, kI8 = kChar;
constexpr auto kShort = ScalarType::Short, kInt16 = kShort, kI16 = kShort;
constexpr auto kInt = ScalarType::Int, kInt32 = kInt, kI32 = kInt;
constexpr auto kLong = ScalarType::Long, kInt64 = kLong, kI64 = kLong;
constexpr auto kHalf = ScalarType::Half, kFloat16 = kHalf, kF16 = kHalf;
constexpr auto kFloat = ScalarType::Float, kFloat32 = kFloat, kF32 = kFloat;
constexpr auto kDouble = ScalarType::Double, kFloat64 = kDouble, kF64 = kDouble;
constexpr auto kComplexHalf = ScalarType::ComplexHalf;
constexpr auto kComplexFloat = ScalarType::ComplexFloat, kComplex64 = kComplexFloat;
constexpr auto kComplexDouble = ScalarType::ComplexDouble, kComplex128 = kComplexDouble;
constexpr auto kBool = ScalarType::Bool;
constexpr auto kBFloat16 = ScalarType::BFloat16;
constexpr auto kUInt16 = ScalarType::UInt16, kU16 = kUInt16;
constexpr auto kUInt32 = ScalarType::UInt32, kU32 = kUInt32;
constexpr auto kUInt64 = ScalarType::UInt64, kU64 = kUInt64;
constexpr auto kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e5m2 = ScalarType::Float8_e5m2,
               kFloat8_e4m3fnuz = ScalarType::Float8_e4m3fnuz,
               kFloat8_e5m2fnuz = ScalarType::Float8_e5m2fnuz,
               kFloat8_e8m0fnu = ScalarType::Float8_e8m0fnu;

constexpr auto kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta,
               kMPS = DeviceType::MPS, kXLA = DeviceType::XLA, kXPU = DeviceType::XPU,
               kHIP = DeviceType::HIP, kIPU = DeviceType::IPU, kHPU = DeviceType::HPU,
               kVE = DeviceType::VE, kFPGA = DeviceType::FPGA, kMAIA = DeviceType::MAIA,
               kMTIA = DeviceType::MTIA, kLazy = DeviceType::Lazy, kVulkan = DeviceType::Vulkan,
               kPrivateUse1 = DeviceType::PrivateUse1;

constexpr auto kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr,
               kSparseCsc = Layout::SparseCsc, kSparseBsr = Layout::SparseBsr,
               kSparseBsc = Layout::SparseBsc;

// What becomes of the losses of all samples, where a function takes a number for it.
namespace Reduction {
enum Reduction : int64_t { None, Mean, Sum, END };
}

// The dtype of C++ type T.
template <class T>
struct CppTypeToScalarType;
#define FLAMBEAU_SCALAR_TYPE(name, type, legacy)                         \
  template <>                                                            \
  struct CppTypeToScalarType<type> {                                     \
    static constexpr ScalarType value = ScalarType::name;                \
    constexpr operator ScalarType() const { return value; } /* NOLINT */ \
  };
FLAMBEAU_DTYPES(FLAMBEAU_SCALAR_TYPE)
#ifndef __CUDACC__  // whose bool is the stored one
FLAMBEAU_SCALAR_TYPE(bool_, bool, "Bool")
#endif
#undef FLAMBEAU_SCALAR_TYPE
template <ScalarType type>
struct ScalarTypeToCPPType;
#define FLAMBEAU_CPP_TYPE(name, type_, legacy)                                       \
  template <>                                                                        \
  struct ScalarTypeToCPPType<ScalarType::name> {                                     \
    using type = std::conditional_t<std::is_same_v<type_, StoredBool>, bool, type_>; \
  };
FLAMBEAU_DTYPES(FLAMBEAU_CPP_TYPE)
#undef FLAMBEAU_CPP_TYPE
template <ScalarType type>
using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<type>::type;

// The type of a part of a complex number; a real one is its own.
template <class T>
struct scalar_value_type {
  using type = T;
};
template <class T>
struct scalar_value_type<std::complex<T>> {
  using type = T;
};

const char* toString(ScalarType type);  // Float
inline size_t elementSize(ScalarType type) { return item_size(type); }
inline bool isFloatingType(ScalarType type) { return is_floating(type); }
inline bool isComplexType(ScalarType type) { return is_complex(type); }
inline bool isIntegralType(ScalarType type, bool include_bool) {
  return is_integral(type) && (include_bool || type != ScalarType::Bool);
}
bool isSignedType(ScalarType type);
inline bool isReducedFloatingType(ScalarType type) { return dtypes::Reduced.has(type); }
inline ScalarType promoteTypes(ScalarType a, ScalarType b) { return promote_types(a, b); }
inline bool canCast(ScalarType from, ScalarType to) { return can_cast(from, to); }
inline ScalarType toComplexType(ScalarType type) { return to_complex(type); }
inline ScalarType toRealValueType(ScalarType type) { return to_real(type); }
inline bool isComplexType(Layout) = delete;

// A dtype under the name of its C++ type: float, long int.
class TypeMeta {
 public:
  TypeMeta() = default;
  TypeMeta(ScalarType type) : type_(type) {}     // NOLINT
  operator ScalarType() const { return type_; }  // NOLINT
  template <class T>
  static TypeMeta Make() {
    return CppTypeToScalarType<T>::value;
  }
  static TypeMeta fromScalarType(ScalarType type) { return type; }
  template <class T>
  [[nodiscard]] bool Match() const {
    return type_ == CppTypeToScalarType<T>::value;
  }
  template <class T>
  static size_t ItemSize() {
    return sizeof(T);
  }
  [[nodiscard]] ScalarType toScalarType() const { return type_; }
  [[nodiscard]] bool isScalarType() const { return type_ != ScalarType::Undefined; }
  [[nodiscard]] bool isScalarType(ScalarType type) const { return type_ == type; }
  [[nodiscard]] std::string_view name() const;
  [[nodiscard]] size_t itemsize() const;
  friend bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend bool operator==(TypeMeta a, ScalarType b) { return a.type_ == b; }

 private:
  ScalarType type_ = ScalarType::Undefined;
};
std::ostream& operator<<(std::ostream& out, TypeMeta type);
inline ScalarType typeMetaToScalarType(TypeMeta type) { return type; }
inline TypeMeta scalarTypeToTypeMeta(ScalarType type) { return type; }
inline TypeMeta get_default_dtype() { return flambeau::default_dtype(); }
inline ScalarType get_default_dtype_as_scalartype() { return flambeau::default_dtype(); }
inline void set_default_dtype(TypeMeta type) { flambeau::set_default_dtype(type); }

class Device : public flambeau::Device {
 public:
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1);                      // NOLINT
  Device(const std::string& text) : flambeau::Device(parse(text)) {}    // NOLINT
  Device(const char* text) : flambeau::Device(parse(text)) {}           // NOLINT
  Device(const flambeau::Device& device) : flambeau::Device(device) {}  // NOLINT

  [[nodiscard]] DeviceType type() const { return flambeau::Device::type; }
  [[nodiscard]] DeviceIndex index() const { return flambeau::Device::index; }
  void set_index(DeviceIndex index) { flambeau::Device::index = index; }
  [[nodiscard]] bool has_index() const { return index() != -1; }
  [[nodiscard]] bool is_mps() const { return type() == DeviceType::MPS; }
  [[nodiscard]] bool is_xla() const { return type() == DeviceType::XLA; }
  [[nodiscard]] bool is_xpu() const { return type() == DeviceType::XPU; }
  [[nodiscard]] bool is_hip() const { return type() == DeviceType::HIP; }
  [[nodiscard]] bool supports_as_strided() const { return true; }
  [[nodiscard]] std::string str() const { return to_text(*this); }
};
std::string DeviceTypeName(DeviceType type, bool lower_case = false);
inline bool isValidDeviceType(DeviceType type) {
  return type >= DeviceType::CPU && type <= DeviceType::PrivateUse1;
}

// A number, and never a text: C++ would make true of "fro".
class Scalar : public flambeau::Scalar {
 public:
  Scalar() = default;
  Scalar(const flambeau::Scalar& scalar) : flambeau::Scalar(scalar) {}  // NOLINT
  template <class T>
  requires(std::is_constructible_v<flambeau::Scalar, const T&> &&
           !std::is_pointer_v<std::decay_t<T>> && !std::is_base_of_v<flambeau::Scalar, T>)
      Scalar(const T& value)
      : flambeau::Scalar(value) {}  // NOLINT

  // Raises where T can't hold the value.
  template <class T>
  [[nodiscard]] T to() const {
    using Stored = std::conditional_t<std::is_same_v<T, bool>, StoredBool, T>;
    if (!holds(CppTypeToScalarType<Stored>::value)) [[unlikely]]
      refuse(CppTypeToScalarType<Stored>::value);
    return flambeau::Scalar::to<T>();
  }
#define FLAMBEAU_TO(name, type) \
  [[nodiscard]] type to##name() const { return to<type>(); }
  FLAMBEAU_TO(Byte, uint8_t)
  FLAMBEAU_TO(Char, int8_t)
  FLAMBEAU_TO(Short, int16_t)
  FLAMBEAU_TO(Int, int)
  FLAMBEAU_TO(Long, int64_t)
  FLAMBEAU_TO(Half, flambeau::Half)
  FLAMBEAU_TO(BFloat16, flambeau::BFloat16)
  FLAMBEAU_TO(Float, float)
  FLAMBEAU_TO(Double, double)
  FLAMBEAU_TO(ComplexFloat, std::complex<float>)
  FLAMBEAU_TO(ComplexDouble, std::complex<double>)
  FLAMBEAU_TO(Bool, bool)
  FLAMBEAU_TO(UInt16, uint16_t)
  FLAMBEAU_TO(UInt32, uint32_t)
  FLAMBEAU_TO(UInt64, uint64_t)
#undef FLAMBEAU_TO
  [[nodiscard]] bool isFloatingPoint() const { return is_floating(); }
  [[nodiscard]] bool isIntegral(bool include_bool) const { return is_integral(include_bool); }
  [[nodiscard]] bool isComplex() const { return is_complex(); }
  [[nodiscard]] bool isBoolean() const { return is_boolean(); }
  [[nodiscard]] bool isSymbolic() const { return false; }
  [[nodiscard]] ScalarType type() const;
  template <class T>
  [[nodiscard]] bool equal(T value) const {
    return *this == flambeau::Scalar(value);
  }
  Scalar operator-() const { return flambeau::Scalar::operator-(); }
  [[nodiscard]] Scalar conj() const;
  [[nodiscard]] Scalar log() const;

 private:
  [[nodiscard]] bool holds(ScalarType type) const;
  [[noreturn]] void refuse(ScalarType type) const;
};
std::string toString(const Scalar& scalar);

}  // namespace flambeau::torch

template <>
struct std::hash<flambeau::torch::Device> {
  size_t operator()(const flambeau::torch::Device& device) const noexcept {
    return static_cast<size_t>(device.type()) << 8 | static_cast<uint8_t>(device.index());
  }
};
