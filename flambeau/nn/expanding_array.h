// A size for each of D dimensions, where one stands for all: 3, {3, 5}.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <vector>

#include "flambeau/torch.h"

namespace flambeau::torch {

template <size_t D, class T = int64_t>
class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list) : ExpandingArray(list.begin(), list.size()) {}
  ExpandingArray(const std::vector<T>& values)
      : ExpandingArray(values.data(), values.size()) {}  // NOLINT
  template <std::same_as<IntArrayRef> Span>
  ExpandingArray(Span values) : ExpandingArray(values.data(), values.size()) {}  // NOLINT
  ExpandingArray(T one) { values_.fill(one); }                                   // NOLINT
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}            // NOLINT

  std::array<T, D>& operator*() { return values_; }
  const std::array<T, D>& operator*() const { return values_; }
  std::array<T, D>* operator->() { return &values_; }
  const std::array<T, D>* operator->() const { return &values_; }
  operator IntArrayRef() const requires(std::is_same_v<T, int64_t>) {  // NOLINT
    return {values_.data(), D};
  }
  [[nodiscard]] const T* data() const noexcept { return values_.data(); }
  [[nodiscard]] size_t size() const noexcept { return D; }
  bool operator==(const ExpandingArray& other) const = default;

 protected:
  template <class From>
  ExpandingArray(const From* values, size_t size) {
    CHECK(size == D, RuntimeError, "Expected {} values, but instead got {}", D, size);
    std::copy_n(values, D, values_.begin());
  }

  std::array<T, D> values_{};
};

// Where each may be left open: an adaptive pool keeps the size of such a dimension.
template <size_t D, class T = int64_t>
class ExpandingArrayWithOptionalElem : public ExpandingArray<D, std::optional<T>> {
  using Base = ExpandingArray<D, std::optional<T>>;

 public:
  using Base::Base;
  ExpandingArrayWithOptionalElem(std::initializer_list<T> list) : Base(list.begin(), list.size()) {}
  ExpandingArrayWithOptionalElem(const std::vector<T>& values)  // NOLINT
      : Base(values.data(), values.size()) {}
  ExpandingArrayWithOptionalElem(T one) : Base(std::optional<T>(one)) {}  // NOLINT
};

template <size_t D, class T>
std::ostream& operator<<(std::ostream& stream, const ExpandingArray<D, T>& array) {
  if (D == 1) return stream << (*array)[0];
  for (size_t i = 0; i < D; ++i) stream << (i ? ", " : "[") << (*array)[i];
  return stream << ']';
}
template <size_t D, class T>
std::ostream& operator<<(std::ostream& stream, const ExpandingArrayWithOptionalElem<D, T>& array) {
  const auto text = [](const auto& one) { return one ? std::to_string(*one) : "None"; };
  if (D == 1) return stream << text((*array)[0]);
  for (size_t i = 0; i < D; ++i) stream << (i ? ", " : "[") << text((*array)[i]);
  return stream << ']';
}

}  // namespace flambeau::torch
