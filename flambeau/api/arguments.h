// What the functions of the printed header (flambeau/torch.h) take beside tensors and numbers, as
// C++ programs write it: {2, 3} for sizes, {a, b} for lists, {} or nullopt for None. of() makes
// each the value that the entry of ops takes; it borrows.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "flambeau/api/generator.h"
#include "flambeau/api/options.h"

namespace flambeau::torch {

using flambeau::Operand;

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

// Tensors in braces, in a vector, or in somebody's array of them.
class ITensorListRef {
 public:
  ITensorListRef() = default;
  ITensorListRef(std::initializer_list<flambeau::Tensor> tensors) : tensors_(tensors) {}  // NOLINT
  ITensorListRef(const flambeau::Tensor& one) : tensors_{one} {}                          // NOLINT
  template <class C>
  requires(requires(const C& c) {
    { *c.begin() } -> std::convertible_to<const flambeau::Tensor&>;
    { c.size() } -> std::convertible_to<size_t>;
  } && !std::derived_from<C, flambeau::Tensor>) ITensorListRef(const C& tensors)
      : tensors_(tensors.begin(), tensors.end()) {}  // NOLINT
  [[nodiscard]] const std::vector<flambeau::Tensor>& get() const { return tensors_; }
  [[nodiscard]] size_t size() const { return tensors_.size(); }

 private:
  std::vector<flambeau::Tensor> tensors_;
};

class Reals {
 public:
  Reals() = default;
  Reals(std::initializer_list<double> reals) : reals_(reals) {}  // NOLINT
  Reals(const std::vector<double>& reals) : reals_(reals) {}     // NOLINT
  Reals(ArrayRef<double> reals) : reals_(reals.vec()) {}         // NOLINT
  [[nodiscard]] const std::vector<double>& get() const { return reals_; }

 private:
  std::vector<double> reals_;
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
inline Value of(const flambeau::Scalar& scalar) {
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
inline Value of(IntArrayRef ints) { return of(IntSpan(ints)); }
inline Value of(const OptionalIntArrayRef& ints) { return ints ? of(*ints) : detail::given(false); }
inline Value of(const Reals& reals) {
  Value value = detail::given();
  value.reals = &reals.get();
  return value;
}
inline Value of(const ITensorListRef& tensors) {
  Value value = detail::given();
  value.tensors = &tensors.get();
  return value;
}
inline Value of(DType dtype) { return detail::coded(dtype); }
inline Value of(Layout layout) { return detail::coded(layout); }
inline Value of(MemoryFormat format) { return detail::coded(format); }
inline Value of(const flambeau::Device& device) {
  Value value = detail::given();
  value.device = &device;
  return value;
}
inline Value of(std::string_view text) {
  Value value = detail::given();
  value.span = {text.data(), text.size()};
  return value;
}
inline Value of(const Generator& generator) {
  Value value = detail::given(generator.defined());
  if (value.given) value.generator = &generator.get();
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
