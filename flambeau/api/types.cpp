#include "flambeau/api/types.h"

#include <array>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "flambeau/api/options.h"

namespace flambeau {

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << torch::toString(dtype); }
std::ostream& operator<<(std::ostream& out, DeviceType type) {
  return out << device_type_name(type);
}
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << to_text(device); }
std::string to_text(Layout layout) {
  constexpr std::array names = {"Strided",   "Sparse",    "SparseCsr",
                                "SparseCsc", "SparseBsr", "SparseBsc"};
  return names[static_cast<size_t>(layout)];
}
std::ostream& operator<<(std::ostream& out, Layout layout) { return out << to_text(layout); }
std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  constexpr std::array names = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  return out << names[static_cast<size_t>(format)];
}
std::ostream& operator<<(std::ostream& out, const Scalar& scalar) {
  if (scalar.is_boolean()) return out << (scalar.to<bool>() ? "true" : "false");
  if (scalar.is_integral()) return out << scalar.to_int();
  if (scalar.is_floating()) return out << scalar.to_double();
  return out << scalar.to<std::complex<double>>();
}
std::ostream& operator<<(std::ostream& out, Half value) { return out << static_cast<float>(value); }
std::ostream& operator<<(std::ostream& out, BFloat16 value) {
  return out << static_cast<float>(value);
}
std::ostream& operator<<(std::ostream& out, IntSpan ints) { return out << to_text(ints); }

namespace torch {

const char* toString(ScalarType type) {
  return type == ScalarType::Undefined ? "UNKNOWN_SCALAR" : dtype_legacy_name(type).data();
}
bool isSignedType(ScalarType type) { return is_signed(type); }

std::string_view TypeMeta::name() const {
  switch (type_) {
    case kByte: return "unsigned char";
    case kChar: return "signed char";
    case kShort: return "short int";
    case kInt: return "int";
    case kLong: return "long int";
    case kHalf: return "c10::Half";
    case kFloat: return "float";
    case kDouble: return "double";
    case kComplexHalf: return "c10::complex<c10::Half>";
    case kComplexFloat: return "c10::complex<float>";
    case kComplexDouble: return "c10::complex<double>";
    case kBool: return "bool";
    case kBFloat16: return "c10::BFloat16";
    case kUInt16: return "short unsigned int";
    case kUInt32: return "unsigned int";
    case kUInt64: return "long unsigned int";
    case kFloat8_e4m3fn: return "c10::Float8_e4m3fn";
    case kFloat8_e5m2: return "c10::Float8_e5m2";
    case kFloat8_e4m3fnuz: return "c10::Float8_e4m3fnuz";
    case kFloat8_e5m2fnuz: return "c10::Float8_e5m2fnuz";
    case kFloat8_e8m0fnu: return "c10::Float8_e8m0fnu";
    case ScalarType::Undefined: break;
  }
  return "nullptr (uninitialized)";
}
size_t TypeMeta::itemsize() const { return isScalarType() ? item_size(type_) : 0; }
std::ostream& operator<<(std::ostream& out, TypeMeta type) { return out << type.name(); }

Device::Device(DeviceType type, DeviceIndex index) : flambeau::Device(type, index) {
  CHECK(index >= -1, RuntimeError, "Device index must be -1 or non-negative, got {}",
        static_cast<int>(index));
}
std::string DeviceTypeName(DeviceType type, bool lower_case) {
  std::string name(device_type_name(type));
  if (!lower_case) {
    for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
  }
  return name;
}

bool Scalar::holds(ScalarType type) const {
  if (isComplexType(type)) return true;
  const bool complex = is_complex() && flambeau::Scalar::to<std::complex<double>>().imag() != 0;
  if (!isIntegralType(type, false)) return !complex && fits(type);
  // As C++ casts do: NaN and what is too large have no integer, a fraction is cut off.
  return !complex && fits(type);
}
void Scalar::refuse(ScalarType type) const {
  constexpr std::array<std::pair<ScalarType, const char*>, 8> names = {{{kByte, "uint8_t"},
                                                                        {kChar, "int8_t"},
                                                                        {kShort, "int16_t"},
                                                                        {kLong, "int64_t"},
                                                                        {kHalf, "at::Half"},
                                                                        {kBFloat16, "at::BFloat16"},
                                                                        {kUInt16, "uint16_t"},
                                                                        {kUInt32, "uint32_t"}}};
  std::string name(TypeMeta(type).name());
  for (const auto& [which, text] : names) {
    if (which == type) name = text;
  }
  // As in PyTorch no Error of ours.
  throw std::runtime_error("value cannot be converted to type " + name + " without overflow");
}
ScalarType Scalar::type() const {
  return is_floating() ? kDouble : is_complex() ? kComplexDouble : natural_dtype();
}
Scalar Scalar::conj() const {
  return is_complex() ? Scalar(std::conj(flambeau::Scalar::to<std::complex<double>>())) : *this;
}
Scalar Scalar::log() const {
  if (is_complex()) return std::log(flambeau::Scalar::to<std::complex<double>>());
  return std::log(to_double());
}
std::string toString(const Scalar& scalar) { return to_text(scalar); }

TensorOptions::TensorOptions(const Options& options) : options_(options) {
  given_ = layout_bit | grad_bit | pin_bit;
}
void TensorOptions::set_device(const std::optional<flambeau::Device>& device) {
  options_.device = device;
}
TensorOptions TensorOptions::merge_in(const TensorOptions& other) const {
  TensorOptions merged = *this;
  if (other.has_dtype()) merged.set_dtype(other.options_.dtype);
  if (other.has_device()) merged.set_device(other.options_.device);
  if (other.has_layout()) merged.set_layout(other.layout());
  if (other.has_requires_grad()) merged.set_requires_grad(other.requires_grad());
  if (other.has_pinned_memory()) merged.set_pinned_memory(other.pinned_memory());
  if (other.has_memory_format()) merged.set_memory_format(other.memory_format_opt());
  return merged;
}

std::ostream& operator<<(std::ostream& out, const TensorOptions& options) {
  const auto default_mark = [&](bool given) -> std::ostream& {
    return given ? out : out << " (default)";
  };
  out << std::boolalpha << "TensorOptions(dtype=" << options.dtype();  // as libtorch leaves it
  default_mark(options.has_dtype()) << ", device=" << options.device();
  default_mark(options.has_device()) << ", layout=" << options.layout();
  default_mark(options.has_layout()) << ", requires_grad=" << options.requires_grad();
  default_mark(options.has_requires_grad()) << ", pinned_memory=" << options.pinned_memory();
  default_mark(options.has_pinned_memory()) << ", memory_format=";
  if (options.has_memory_format()) {
    out << *options.memory_format_opt();
  } else {
    out << "(nullopt)";
  }
  return out << ")";
}

}  // namespace torch
}  // namespace flambeau
