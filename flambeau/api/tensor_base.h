// What torch::Tensor has that is no op; its ops are printed from the registry (flambeau/torch.h).
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "flambeau/api/op.h"

namespace flambeau::torch {

class Tensor;

// Converts to and from the tensor of the core, of which it is a handle as well. (`Tensor` alone is
// that one's name in here.)
class TensorBase : public flambeau::Tensor {
 public:
  TensorBase() = default;
  TensorBase(flambeau::Tensor tensor) : flambeau::Tensor(std::move(tensor)) {}  // NOLINT

  [[nodiscard]] torch::Tensor operator[](int64_t index) const;
  [[nodiscard]] torch::Tensor slice(int64_t dim = 0, std::optional<int64_t> start = {},
                                    std::optional<int64_t> end = {}, int64_t step = 1) const;
  template <class T>
  [[nodiscard]] T item() const;

  [[nodiscard]] bool is_leaf() const;
  [[nodiscard]] torch::Tensor grad() const;  // undefined if there is none
  torch::Tensor& requires_grad_(bool requires_grad = true) const;
  // Adds the gradients of this tensor to those of the leaves it was computed from.
  void backward(const OptionalTensor& gradient = {}, std::optional<bool> retain_graph = {},
                bool create_graph = false) const;
};

namespace detail {

flambeau::Tensor gradient_of(const flambeau::Tensor& tensor);
void want_gradient(const flambeau::Tensor& tensor, bool wants);

std::vector<Tensor> list(std::vector<flambeau::Tensor> tensors);
template <class Tuple>
Tuple tuple(std::vector<flambeau::Tensor> tensors) {
  return [&]<size_t... I>(std::index_sequence<I...>) { return Tuple(std::move(tensors.at(I))...); }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>());
}
Tensor& written(const TensorBase& tensor);  // as in-place forms give what they wrote to

}  // namespace detail
}  // namespace flambeau::torch
