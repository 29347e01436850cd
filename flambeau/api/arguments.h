// What the functions of the printed header (flambeau/torch.h) take beside tensors and numbers, as
// C++ programs write it: {2, 3} for sizes, {a, b} for lists, {} or nullopt for None. of() makes
// each the value that the entry of ops takes; it borrows.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "flambeau/ops/op.h"

namespace flambeau::torch {

using flambeau::Device;
using flambeau::DeviceType;
using flambeau::DType;
using flambeau::Generator;
using flambeau::IntSpan;
using flambeau::Layout;
using flambeau::MemoryFormat;
using flambeau::Operand;
using flambeau::Scalar;
using std::nullopt;

// dtype(kFloat).requires_grad(true), and what means one of them alone.
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(DType dtype) { options_.dtype = dtype; }           // NOLINT
  TensorOptions(Device device) { options_.device = device; }       // NOLINT
  TensorOptions(DeviceType type) : TensorOptions(Device(type)) {}  // NOLINT
  TensorOptions(Layout layout) { options_.layout = layout; }       // NOLINT
  TensorOptions(const Options& options) : options_(options) {}     // NOLINT

  [[nodiscard]] TensorOptions dtype(DType dtype) const { return with(&Options::dtype, dtype); }
  [[nodiscard]] TensorOptions device(Device device) const { return with(&Options::device, device); }
  [[nodiscard]] TensorOptions layout(Layout layout) const { return with(&Options::layout, layout); }
  [[nodiscard]] TensorOptions pinned_memory(bool pin) const {
    return with(&Options::pin_memory, pin);
  }
  [[nodiscard]] TensorOptions requires_grad(bool wants) const {
    return with(&Options::requires_grad, wants);
  }
  [[nodiscard]] const Options& get() const { return options_; }

 private:
  template <class Member, class T>
  [[nodiscard]] TensorOptions with(Member member, T value) const {
    TensorOptions changed = *this;
    changed.options_.*member = value;
    return changed;
  }
  Options options_;
};

// A number, and never a text: C++ would make true of "fro".
class Number : public Scalar {
 public:
  template <class T>
  requires(std::is_constructible_v<Scalar, const T&> && !std::is_pointer_v<std::decay_t<T>>)
      Number(const T& value)  // NOLINT
      : Scalar(value) {}
};

class OptionalTensor {
 public:
  OptionalTensor() = default;
  OptionalTensor(std::nullopt_t) {}                                    // NOLINT
  OptionalTensor(const flambeau::Tensor& tensor) : tensor_(tensor) {}  // NOLINT
  template <std::derived_from<flambeau::Tensor> T>
  OptionalTensor(const std::optional<T>& tensor) {  // NOLINT
    if (tensor) tensor_ = *tensor;
  }
  [[nodiscard]] const flambeau::Tensor& get() const { return tensor_; }

 private:
  flambeau::Tensor tensor_;
};

class TensorList {
 public:
  TensorList() = default;
  TensorList(std::initializer_list<flambeau::Tensor> tensors) : tensors_(tensors) {}  // NOLINT
  template <std::derived_from<flambeau::Tensor> T>
  TensorList(const std::vector<T>& tensors) : tensors_(tensors.begin(), tensors.end()) {}  // NOLINT
  [[nodiscard]] const std::vector<flambeau::Tensor>& get() const { return tensors_; }

 private:
  std::vector<flambeau::Tensor> tensors_;
};

class OptionalInts {
 public:
  OptionalInts() = default;
  OptionalInts(std::nullopt_t) {}                                     // NOLINT
  OptionalInts(IntSpan ints) : ints_(ints) {}                         // NOLINT
  OptionalInts(std::initializer_list<int64_t> ints) : ints_(ints) {}  // NOLINT
  OptionalInts(const std::vector<int64_t>& ints) : ints_(ints) {}     // NOLINT
  OptionalInts(const int64_t& one) : ints_(one) {}                    // NOLINT
  OptionalInts(const std::optional<std::vector<int64_t>>& ints) {     // NOLINT
    if (ints) ints_ = *ints;
  }
  [[nodiscard]] const std::optional<IntSpan>& get() const { return ints_; }

 private:
  std::optional<IntSpan> ints_;
};

// --- Values --------------------------------------------------------------------------------------

namespace detail {
inline Value given(bool is = true) {
  Value value;
  value.given = is;
  return value;
}
template <class T>
Value coded(T code) {
  Value value = given();
  value.code = static_cast<uint8_t>(code);
  return value;
}
}  // namespace detail

inline Value of(const flambeau::Tensor& tensor) {
  Value value = detail::given(tensor.defined());
  value.tensor = &tensor;
  return value;
}
inline Value of(const OptionalTensor& tensor) { return of(tensor.get()); }
inline Value of(const Operand& operand) {
  Value value = detail::given();
  value.operand = &operand;
  return value;
}
inline Value of(const Scalar& scalar) {
  Value value = detail::given();
  value.scalar = &scalar;
  return value;
}
inline Value of(int64_t integer) {
  Value value = detail::given();
  value.integer = integer;
  return value;
}
inline Value of(double real) {
  Value value = detail::given();
  value.real = real;
  return value;
}
inline Value of(bool flag) {
  Value value = detail::given();
  value.flag = flag;
  return value;
}
inline Value of(IntSpan ints) {
  Value value = detail::given();
  value.span = {ints.data(), ints.size()};
  return value;
}
inline Value of(const OptionalInts& ints) {
  return ints.get() ? of(*ints.get()) : detail::given(false);
}
inline Value of(const std::vector<double>& reals) {
  Value value = detail::given();
  value.reals = &reals;
  return value;
}
inline Value of(const TensorList& tensors) {
  Value value = detail::given();
  value.tensors = &tensors.get();
  return value;
}
inline Value of(DType dtype) { return detail::coded(dtype); }
inline Value of(Layout layout) { return detail::coded(layout); }
inline Value of(MemoryFormat format) { return detail::coded(format); }
inline Value of(const Device& device) {
  Value value = detail::given();
  value.device = &device;
  return value;
}
inline Value of(std::string_view text) {
  Value value = detail::given();
  value.span = {text.data(), text.size()};
  return value;
}
inline Value of(Generator* generator) {
  Value value = detail::given(generator != nullptr);
  value.generator = generator;
  return value;
}
inline Value of(const TensorOptions& options) {
  Value value = detail::given();
  value.options = &options.get();
  return value;
}
template <class T>
Value of(const std::optional<T>& value) {
  return value ? of(*value) : detail::given(false);
}

}  // namespace flambeau::torch
