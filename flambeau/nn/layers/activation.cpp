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

// A layer is the function of these names, shown with its options.
#define LAYER(Name, call, show)                                    \
  Tensor Name##Impl::forward(const Tensor& input) { return call; } \
  void Name##Impl::pretty_print(std::ostream& stream) const {      \
    Print print(stream, #Name);                                    \
    show;                                                          \
  }
#define FUNCTION(Name, function, show) LAYER(Name, functional::function(input, options), show)
#define INPLACE unless(false, "inplace", options.inplace())

FUNCTION(ELU, elu, print("alpha", options.alpha()).INPLACE)
FUNCTION(CELU, celu, print("alpha", options.alpha()).INPLACE)
FUNCTION(SELU, selu, print.INPLACE)
FUNCTION(GLU, glu, print("dim", options.dim()))
FUNCTION(GELU, gelu, static_cast<void>(print))
FUNCTION(Hardshrink, hardshrink, print(options.lambda()))
FUNCTION(Hardtanh, hardtanh,
         print("min_val", options.min_val())("max_val", options.max_val()).INPLACE)
FUNCTION(LeakyReLU, leaky_relu, print("negative_slope", options.negative_slope()).INPLACE)
FUNCTION(ReLU, relu, print.INPLACE)
FUNCTION(ReLU6, relu6, print.INPLACE)
LAYER(RReLU, functional::rrelu(input, RReLUOptions(options).training(is_training())),
      print("lower", options.lower())("upper", options.upper()).INPLACE)
FUNCTION(Softplus, softplus, print("beta", options.beta())("threshold", options.threshold()))
FUNCTION(Softshrink, softshrink, print(options.lambda()))
FUNCTION(Threshold, threshold,
         print("threshold", options.threshold())("value", options.value()).INPLACE)
LAYER(Softmax, functional::softmax(input, options.dim()), print("dim", options.dim()))
LAYER(Softmin, functional::softmin(input, options.dim()), print("dim", options.dim()))
LAYER(LogSoftmax, functional::log_softmax(input, options.dim()), print("dim", options.dim()))
FUNCTION(SiLU, silu, print.INPLACE)
FUNCTION(Mish, mish, print.INPLACE)
FUNCTION(Hardswish, hardswish, print.INPLACE)
FUNCTION(Hardsigmoid, hardsigmoid, print.INPLACE)
LAYER(LogSigmoid, torch::log_sigmoid(input), static_cast<void>(print))
LAYER(Sigmoid, torch::sigmoid(input), static_cast<void>(print))
LAYER(Softsign, functional::softsign(input), static_cast<void>(print))
LAYER(Tanh, torch::tanh(input), static_cast<void>(print))
LAYER(Tanhshrink, functional::tanhshrink(input), static_cast<void>(print))

Tensor Softmax2dImpl::forward(const Tensor& input) {
  CHECK(input.dim() == 4 || input.dim() == 3, RuntimeError,
        "Softmax2d requires a 3D or 4D tensor as input");
  return torch::softmax(input, -3);
}
void Softmax2dImpl::pretty_print(std::ostream& stream) const { Print(stream, "Softmax2d"); }

void PReLUImpl::reset() {
  weight = register_parameter("weight", torch::empty({options.num_parameters()}));
  reset_parameters();
}
void PReLUImpl::reset_parameters() { init::constant_(weight, options.init()); }
Tensor PReLUImpl::forward(const Tensor& input) { return torch::prelu(input, weight); }
void PReLUImpl::pretty_print(std::ostream& stream) const {
  Print(stream, "PReLU")("num_parameters", options.num_parameters());
}

}  // namespace flambeau::torch::nn
