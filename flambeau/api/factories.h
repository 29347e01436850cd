// Tensors from what a program has: torch::tensor({{1, 2}, {3, 4}}), torch::from_blob(data, {2}).
#pragma once

#include <functional>

#include "flambeau/api/tensor_base.h"

namespace flambeau::torch {
namespace detail {

// Numbers in braces to any depth, of one type; or somebody's vector of them.
class TensorDataContainer {
 public:
  TensorDataContainer();
  template <class T>
  requires(requires { CppTypeToScalarType<T>::value; }) TensorDataContainer(T number)  // NOLINT
      : dtype_(CppTypeToScalarType<T>::value), numbers_{number} {}
  TensorDataContainer(std::initializer_list<TensorDataContainer> items);  // NOLINT
  template <class C>
  requires(requires(const C& c) {
    CppTypeToScalarType<std::remove_cvref_t<decltype(*c.data())>>::value;
    c.size();
  }) TensorDataContainer(const C& values)  // NOLINT
      : TensorDataContainer(
            CppTypeToScalarType<std::remove_cvref_t<decltype(*values.data())>>::value,
            values.data(), values.size()) {}
  TensorDataContainer(ScalarType dtype, const void* values, size_t size);

  [[nodiscard]] flambeau::Tensor made(const TensorOptions& options) const;

 private:
  [[nodiscard]] std::string text() const;
  std::vector<int64_t> sizes_;
  ScalarType dtype_;
  std::vector<flambeau::Scalar> numbers_;  // of a list
  flambeau::Tensor tensor_;                // of a vector
};

using Deleter = std::function<void(void*)>;
flambeau::Tensor over_blob(void* data, IntArrayRef sizes, const OptionalIntArrayRef& strides,
                           int64_t offset, Deleter deleter, const TensorOptions& options);

}  // namespace detail
}  // namespace flambeau::torch
