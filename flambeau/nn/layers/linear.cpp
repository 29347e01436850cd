#include "flambeau/nn/layers/linear.h"

#include <cmath>

#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {

Tensor functional::linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return torch::linear(input, weight, bias);
}
Tensor functional::bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight,
                            const Tensor& bias) {
  return torch::bilinear(input1, input2, weight, bias);
}

void LinearImpl::reset() {
  weight = register_empty("weight", {options.out_features(), options.in_features()});
  bias = register_empty("bias", {options.out_features()}, options.bias());
  reset_parameters();
}
void LinearImpl::reset_parameters() { detail::reset_weight_and_bias(weight, bias); }
Tensor LinearImpl::forward(const Tensor& input) { return torch::linear(input, weight, bias); }
SHOW(Linear, OPTION(in_features) OPTION(out_features) OPTION(bias))

void BilinearImpl::reset() {
  weight = register_empty("weight",
                          {options.out_features(), options.in1_features(), options.in2_features()});
  bias = register_empty("bias", {options.out_features()}, options.bias());
  reset_parameters();
}
void BilinearImpl::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(options.in1_features()));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}
Tensor BilinearImpl::forward(const Tensor& input1, const Tensor& input2) {
  return torch::bilinear(input1, input2, weight, bias);
}
SHOW(Bilinear, OPTION(in1_features) OPTION(in2_features) OPTION(out_features) OPTION(bias))

Tensor FlattenImpl::forward(const Tensor& input) {
  return input.flatten(options.start_dim(), options.end_dim());
}
SHOW(Flatten, OPTION(start_dim) OPTION(end_dim))

Tensor UnflattenImpl::forward(const Tensor& input) {
  return input.unflatten(options.dim(), options.sizes());
}
void UnflattenImpl::pretty_print(std::ostream& stream) const {
  const std::string sizes = to_text(IntSpan(options.sizes()));
  Print(stream, "Unflatten")("dim", options.dim())("unflattened_size",
                                                   '{' + sizes.substr(1, sizes.size() - 2) + '}');
}

Tensor IdentityImpl::forward(const Tensor& input) { return input; }
SHOW(Identity)

SHOW(Functional)

}  // namespace flambeau::torch::nn
