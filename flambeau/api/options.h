// dtype(kFloat).requires_grad(true): what new tensors are made with, and what means one of it
// alone.
#pragma once

#include "flambeau/api/types.h"
#include "flambeau/ops/op.h"

namespace flambeau::torch {

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType dtype) { set_dtype(dtype); }                  // NOLINT
  TensorOptions(TypeMeta dtype) { set_dtype(dtype); }                    // NOLINT
  TensorOptions(const flambeau::Device& device) { set_device(device); }  // NOLINT
  TensorOptions(DeviceType type) { set_device(Device(type)); }           // NOLINT
  template <class T>                                                     // as text, and never a 0
  requires std::is_convertible_v<const T&, std::string> TensorOptions(const T& device) {  // NOLINT
    set_device(Device(std::string(device)));
  }
  TensorOptions(Layout layout) { set_layout(layout); }               // NOLINT
  TensorOptions(MemoryFormat format) { set_memory_format(format); }  // NOLINT
  TensorOptions(const Options& options);                             // NOLINT

  void set_dtype(std::optional<ScalarType> dtype) { options_.dtype = dtype; }
  void set_device(const std::optional<flambeau::Device>& device);
  void set_layout(std::optional<Layout> layout) { set(options_.layout, layout, layout_bit); }
  void set_requires_grad(std::optional<bool> on) { set(options_.requires_grad, on, grad_bit); }
  void set_pinned_memory(std::optional<bool> on) { set(options_.pin_memory, on, pin_bit); }
  void set_memory_format(std::optional<MemoryFormat> format) { format_ = format; }

  [[nodiscard]] TensorOptions dtype(ScalarType dtype) const {
    return with(&TensorOptions::set_dtype, dtype);
  }
  [[nodiscard]] TensorOptions dtype(std::optional<ScalarType> dtype) const {
    return with(&TensorOptions::set_dtype, dtype);
  }
  [[nodiscard]] TensorOptions dtype(TypeMeta dtype) const {
    return with(&TensorOptions::set_dtype, dtype);
  }
  template <class T>
  TensorOptions& dtype() {
    set_dtype(CppTypeToScalarType<T>::value);
    return *this;
  }
  template <class... A>
  requires(sizeof...(A) > 0 && std::is_constructible_v<std::optional<Device>, A...>)
      [[nodiscard]] TensorOptions device(A&&... device) const {
    return with(&TensorOptions::set_device, std::optional<Device>(std::forward<A>(device)...));
  }
  [[nodiscard]] TensorOptions device(DeviceType type, DeviceIndex index) const {
    return with(&TensorOptions::set_device, Device(type, index));
  }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const {
    return device(Device(kCUDA, index));
  }
  [[nodiscard]] TensorOptions layout(std::optional<Layout> layout) const {
    return with(&TensorOptions::set_layout, layout);
  }
  [[nodiscard]] TensorOptions requires_grad(std::optional<bool> on) const {
    return with(&TensorOptions::set_requires_grad, on);
  }
  [[nodiscard]] TensorOptions pinned_memory(std::optional<bool> on) const {
    return with(&TensorOptions::set_pinned_memory, on);
  }
  [[nodiscard]] TensorOptions memory_format(std::optional<MemoryFormat> format) const {
    return with(&TensorOptions::set_memory_format, format);
  }
  // What the other one says goes before.
  [[nodiscard]] TensorOptions merge_in(const TensorOptions& other) const;
  [[nodiscard]] TensorOptions merge_memory_format(std::optional<MemoryFormat> format) const {
    return format ? memory_format(format) : *this;
  }

  [[nodiscard]] TypeMeta dtype() const { return options_.dtype_or(default_dtype()); }
  [[nodiscard]] Device device() const { return options_.device.value_or(flambeau::Device()); }
  [[nodiscard]] DeviceIndex device_index() const { return device().index(); }
  [[nodiscard]] Layout layout() const { return options_.layout; }
  [[nodiscard]] bool requires_grad() const { return options_.requires_grad; }
  [[nodiscard]] bool pinned_memory() const { return options_.pin_memory; }
  [[nodiscard]] bool has_dtype() const { return options_.dtype.has_value(); }
  [[nodiscard]] bool has_device() const { return options_.device.has_value(); }
  [[nodiscard]] bool has_layout() const { return given_ & layout_bit; }
  [[nodiscard]] bool has_requires_grad() const { return given_ & grad_bit; }
  [[nodiscard]] bool has_pinned_memory() const { return given_ & pin_bit; }
  [[nodiscard]] bool has_memory_format() const { return format_.has_value(); }
  [[nodiscard]] bool is_sparse() const { return layout() == kSparse; }
  [[nodiscard]] std::optional<TypeMeta> dtype_opt() const {
    return has_dtype() ? std::optional<TypeMeta>(*options_.dtype) : nullopt;
  }
  [[nodiscard]] std::optional<Device> device_opt() const {
    return has_device() ? std::optional<Device>(*options_.device) : nullopt;
  }
  [[nodiscard]] std::optional<Layout> layout_opt() const {
    return has_layout() ? std::optional(layout()) : nullopt;
  }
  [[nodiscard]] std::optional<bool> requires_grad_opt() const {
    return has_requires_grad() ? std::optional(requires_grad()) : nullopt;
  }
  [[nodiscard]] std::optional<bool> pinned_memory_opt() const {
    return has_pinned_memory() ? std::optional(pinned_memory()) : nullopt;
  }
  [[nodiscard]] std::optional<MemoryFormat> memory_format_opt() const { return format_; }
  [[nodiscard]] bool type_equal(const TensorOptions& other) const {
    return dtype() == other.dtype() && device().type() == other.device().type() &&
           layout() == other.layout();
  }
  [[nodiscard]] const Options& get() const { return options_; }

 private:
  enum Given : uint8_t { layout_bit = 1, grad_bit = 2, pin_bit = 4 };
  template <class T>
  void set(T& field, const std::optional<T>& value, Given what) {
    field = value.value_or(T{});
    given_ = static_cast<uint8_t>(value ? given_ | what : given_ & ~what);
  }
  template <class T>
  [[nodiscard]] TensorOptions with(void (TensorOptions::*set)(T), const auto& value) const {
    TensorOptions changed = *this;
    (changed.*set)(value);
    return changed;
  }
  Options options_;
  std::optional<MemoryFormat> format_;
  uint8_t given_ = 0;
};
std::ostream& operator<<(std::ostream& out, const TensorOptions& options);

inline TensorOptions dtype(ScalarType type) { return type; }
inline TensorOptions dtype(TypeMeta type) { return type; }
template <class T>
TensorOptions dtype() {
  return CppTypeToScalarType<T>::value;
}
inline TensorOptions device(const Device& device) { return device; }
inline TensorOptions device_index(DeviceIndex index) { return Device(kCUDA, index); }
inline TensorOptions layout(Layout layout) { return layout; }
inline TensorOptions memory_format(MemoryFormat format) { return format; }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

}  // namespace flambeau::torch
