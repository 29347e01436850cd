#include "flambeau/nn/layers/activation.h"

#include "flambeau/nn/init.h"
#include "flambeau/nn/print.h"

namespace flambeau::torch::nn {
namespace functional {

#define FUNCTION(name, Name, call) \
  Tensor name(const Tensor& input, const Name##FuncOptions& options) { return call; }
// The op, or its form that writes into the input.
#define IN_PLACE(op, Name, ...) \
  FUNCTION(op, Name, options.inplace() ? torch::op##_(__VA_ARGS__) : torch::op(__VA_ARGS__))

IN_PLACE(elu, ELU, input, options.alpha())
IN_PLACE(celu, CELU, input, options.alpha())
IN_PLACE(selu, SELU, input)
IN_PLACE(hardtanh, Hardtanh, input, options.min_val(), options.max_val())
IN_PLACE(leaky_relu, LeakyReLU, input, options.negative_slope())
IN_PLACE(relu, ReLU, input)
IN_PLACE(relu6, ReLU6, input)
IN_PLACE(rrelu, RReLU, input, options.lower(), options.upper(), options.training())
IN_PLACE(threshold, Threshold, input, options.threshold(), options.value())
IN_PLACE(silu, SiLU, input)
IN_PLACE(mish, Mish, input)
IN_PLACE(hardswish, Hardswish, input)
IN_PLACE(hardsigmoid, Hardsigmoid, input)
FUNCTION(gelu, GELU, torch::_nn_gelu(input, options.approximate()))
FUNCTION(hardshrink, Hardshrink, torch::hardshrink(input, options.lambda()))
FUNCTION(softplus, Softplus, torch::softplus(input, options.beta(), options.threshold()))
FUNCTION(softshrink, Softshrink, torch::softshrink(input, options.lambda()))
FUNCTION(softmax, Softmax, torch::softmax(input, options.dim(), options.dtype()))
FUNCTION(softmin, Softmin, torch::_softmin(input, options.dim(), options.dtype()))
FUNCTION(log_softmax, LogSoftmax, torch::log_softmax(input, options.dim(), options.dtype()))

Tensor glu(const Tensor& input, const GLUFuncOptions& options) {
  CHECK(input.dim() != 0, RuntimeError,
        "glu does not support scalars because halving size must be even");
  return torch::glu(input, options.dim());
}
Tensor prelu(const Tensor& input, const Tensor& weight) { return torch::prelu(input, weight); }
Tensor logsigmoid(const Tensor& input) { return torch::log_sigmoid(input); }
Tensor softsign(const Tensor& input) { return torch::_softsign(input); }
Tensor tanhshrink(const Tensor& input) { return torch::_tanhshrink(input); }
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options) {
  return torch::_gumbel_softmax(logits, options.tau(), options.hard(), options.dim());
}

}  // namespace functional

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
