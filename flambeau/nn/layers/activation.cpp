#include "flambeau/nn/layers/activation.h"

#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {

// The op, or its form that writes into the input.
#define IN_PLACE_IF_ASKED(op, ...) \
  return options.inplace() ? torch::op##_(__VA_ARGS__) : torch::op(__VA_ARGS__)

namespace functional {

Tensor elu(const Tensor& input, const ELUFuncOptions& options) {
  IN_PLACE_IF_ASKED(elu, input, options.alpha());
}
Tensor celu(const Tensor& input, const CELUFuncOptions& options) {
  IN_PLACE_IF_ASKED(celu, input, options.alpha());
}
Tensor selu(const Tensor& input, const SELUFuncOptions& options) { IN_PLACE_IF_ASKED(selu, input); }
Tensor glu(const Tensor& input, const GLUFuncOptions& options) {
  CHECK(input.dim() != 0, RuntimeError,
        "glu does not support scalars because halving size must be even");
  return torch::glu(input, options.dim());
}
Tensor gelu(const Tensor& input, const GELUFuncOptions& options) {
  return torch::_nn_gelu(input, options.approximate());
}
Tensor hardshrink(const Tensor& input, const HardshrinkFuncOptions& options) {
  return torch::hardshrink(input, options.lambda());
}
Tensor hardtanh(const Tensor& input, const HardtanhFuncOptions& options) {
  IN_PLACE_IF_ASKED(hardtanh, input, options.min_val(), options.max_val());
}
Tensor leaky_relu(const Tensor& input, const LeakyReLUFuncOptions& options) {
  IN_PLACE_IF_ASKED(leaky_relu, input, options.negative_slope());
}
Tensor relu(const Tensor& input, const ReLUFuncOptions& options) { IN_PLACE_IF_ASKED(relu, input); }
Tensor relu6(const Tensor& input, const ReLU6FuncOptions& options) {
  IN_PLACE_IF_ASKED(relu6, input);
}
Tensor rrelu(const Tensor& input, const RReLUFuncOptions& options) {
  IN_PLACE_IF_ASKED(rrelu, input, options.lower(), options.upper(), options.training());
}
Tensor softplus(const Tensor& input, const SoftplusFuncOptions& options) {
  return torch::softplus(input, options.beta(), options.threshold());
}
Tensor softshrink(const Tensor& input, const SoftshrinkFuncOptions& options) {
  return torch::softshrink(input, options.lambda());
}
Tensor threshold(const Tensor& input, const ThresholdFuncOptions& options) {
  IN_PLACE_IF_ASKED(threshold, input, options.threshold(), options.value());
}
Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options) {
  return torch::softmax(input, options.dim(), options.dtype());
}
Tensor softmin(const Tensor& input, const SoftminFuncOptions& options) {
  return torch::_softmin(input, options.dim(), options.dtype());
}
Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options) {
  return torch::log_softmax(input, options.dim(), options.dtype());
}
Tensor prelu(const Tensor& input, const Tensor& weight) { return torch::prelu(input, weight); }
Tensor logsigmoid(const Tensor& input) { return torch::log_sigmoid(input); }
Tensor silu(const Tensor& input, const ReLUOptions& options) { IN_PLACE_IF_ASKED(silu, input); }
Tensor mish(const Tensor& input, const ReLUOptions& options) { IN_PLACE_IF_ASKED(mish, input); }
Tensor hardswish(const Tensor& input, const ReLUOptions& options) {
  IN_PLACE_IF_ASKED(hardswish, input);
}
Tensor hardsigmoid(const Tensor& input, const ReLUOptions& options) {
  IN_PLACE_IF_ASKED(hardsigmoid, input);
}
Tensor softsign(const Tensor& input) { return torch::_softsign(input); }
Tensor tanhshrink(const Tensor& input) { return torch::_tanhshrink(input); }
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options) {
  return torch::_gumbel_softmax(logits, options.tau(), options.hard(), options.dim());
}

}  // namespace functional

#undef IN_PLACE_IF_ASKED

#define CALL_LAYER(Name, call, ...)                                \
  Tensor Name##Impl::forward(const Tensor& input) { return call; } \
  SHOW(Name, __VA_ARGS__)

LAYER(ELU, elu, OPTION(alpha) INPLACE)
LAYER(CELU, celu, OPTION(alpha) INPLACE)
LAYER(SELU, selu, INPLACE)
LAYER(GLU, glu, OPTION(dim))
LAYER(GELU, gelu)
LAYER(Hardshrink, hardshrink, (options.lambda()))
LAYER(Hardtanh, hardtanh, OPTION(min_val) OPTION(max_val) INPLACE)
LAYER(LeakyReLU, leaky_relu, OPTION(negative_slope) INPLACE)
LAYER(ReLU, relu, INPLACE)
LAYER(ReLU6, relu6, INPLACE)
CALL_LAYER(RReLU, functional::rrelu(input, RReLUOptions(options).training(is_training())),
           OPTION(lower) OPTION(upper) INPLACE)
LAYER(Softplus, softplus, OPTION(beta) OPTION(threshold))
LAYER(Softshrink, softshrink, (options.lambda()))
LAYER(Threshold, threshold, OPTION(threshold) OPTION(value) INPLACE)
CALL_LAYER(Softmax, functional::softmax(input, options.dim()), OPTION(dim))
CALL_LAYER(Softmin, functional::softmin(input, options.dim()), OPTION(dim))
CALL_LAYER(LogSoftmax, functional::log_softmax(input, options.dim()), OPTION(dim))
LAYER(SiLU, silu, INPLACE)
LAYER(Mish, mish, INPLACE)
LAYER(Hardswish, hardswish, INPLACE)
LAYER(Hardsigmoid, hardsigmoid, INPLACE)
CALL_LAYER(LogSigmoid, torch::log_sigmoid(input))
CALL_LAYER(Sigmoid, torch::sigmoid(input))
CALL_LAYER(Softsign, functional::softsign(input))
CALL_LAYER(Tanh, torch::tanh(input))
CALL_LAYER(Tanhshrink, functional::tanhshrink(input))

Tensor Softmax2dImpl::forward(const Tensor& input) {
  CHECK(input.dim() == 4 || input.dim() == 3, RuntimeError,
        "Softmax2d requires a 3D or 4D tensor as input");
  return torch::softmax(input, -3);
}
SHOW(Softmax2d)

void PReLUImpl::reset() {
  weight = register_empty("weight", {options.num_parameters()});
  reset_parameters();
}
void PReLUImpl::reset_parameters() { init::constant_(weight, options.init()); }
Tensor PReLUImpl::forward(const Tensor& input) { return torch::prelu(input, weight); }
SHOW(PReLU, OPTION(num_parameters))

}  // namespace flambeau::torch::nn
