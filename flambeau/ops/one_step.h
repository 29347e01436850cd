// Ops that are made of others, and are one step to PyTorch: graphs show them as one.
//
//   OP_FUNCTION((one_step<mse_loss, "mse_loss">), "mse_loss(input, target, reduction=1)", ...)
//
// The name is that of the step, as Record takes it.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "flambeau/autograd/record.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {
namespace detail {

using Inputs = InlineVector<const Tensor*, 4>;

template <size_t n>
struct StepName {
  char text[n];
  consteval StepName(const char (&name)[n]) { std::copy_n(name, n, text); }  // NOLINT
};

inline void add_inputs(Inputs& to, const Tensor& tensor) {
  if (tensor.defined()) to.push_back(&tensor);
}
inline void add_inputs(Inputs& to, const Operand& operand) {
  if (operand.is_tensor()) to.push_back(&operand.tensor());
}
inline void add_inputs(Inputs& to, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) add_inputs(to, tensor);
}
template <class T>
void add_inputs(Inputs&, const T&) {}

template <class F>
void each_result(const Tensor& result, F&& visit) {
  visit(result);
}
template <class F>
void each_result(const std::vector<Tensor>& results, F&& visit) {
  for (const Tensor& result : results) visit(result);
}
template <class F, class... T>
void each_result(const std::tuple<T...>& results, F&& visit) {
  std::apply([&](const auto&... result) { (visit(result), ...); }, results);
}

template <auto function, StepName name, class F = decltype(function)>
struct OneStep;
template <auto function, StepName name, class R, class... A>
struct OneStep<function, name, R (*)(A...)> {
  static R call(A... arguments) {
    R result = function(arguments...);
    if (!grad_enabled()) return result;
    Inputs inputs;
    (add_inputs(inputs, arguments), ...);
    each_result(result, [&](const Tensor& each) {
      show_as_step(name.text, each, inputs.data(), inputs.size());
    });
    return result;
  }
};

}  // namespace detail

template <auto function, detail::StepName name>
inline constexpr auto one_step = &detail::OneStep<function, name>::call;

}  // namespace flambeau
