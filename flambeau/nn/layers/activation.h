// Activations: the value of each element, or of each along a dimension.
#pragma once

#include <string>

#include "flambeau/nn/layer.h"

namespace flambeau::torch::nn {

struct ELUOptions {
  FLAMBEAU_OPTION(double, alpha) = 1.0;
  FLAMBEAU_OPTION(bool, inplace) = false;
};
struct GLUOptions {
  GLUOptions(int64_t dim = -1) : dim_(dim) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, dim);
};
struct GELUOptions {
  FLAMBEAU_OPTION(std::string, approximate) = "none";
};
struct HardshrinkOptions {
  HardshrinkOptions(double lambda = 0.5) : lambda_(lambda) {}  // NOLINT
  FLAMBEAU_OPTION(double, lambda);
};
struct HardtanhOptions {
  FLAMBEAU_OPTION(double, min_val) = -1.0;
  FLAMBEAU_OPTION(double, max_val) = 1.0;
  FLAMBEAU_OPTION(bool, inplace) = false;
};
struct LeakyReLUOptions {
  FLAMBEAU_OPTION(double, negative_slope) = 1e-2;
  FLAMBEAU_OPTION(bool, inplace) = false;
};
struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim) : dim_(dim) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, dim);
};
struct PReLUOptions {
  FLAMBEAU_OPTION(int64_t, num_parameters) = 1;
  FLAMBEAU_OPTION(double, init) = 0.25;
};
struct ReLUOptions {
  ReLUOptions(bool inplace = false) : inplace_(inplace) {}  // NOLINT
  FLAMBEAU_OPTION(bool, inplace);
};
struct RReLUOptions {
  FLAMBEAU_OPTION(double, lower) = 1.0 / 8.0;
  FLAMBEAU_OPTION(double, upper) = 1.0 / 3.0;
  FLAMBEAU_OPTION(bool, training) = false;  // of the function: the layer knows it itself
  FLAMBEAU_OPTION(bool, inplace) = false;
};
struct SoftplusOptions {
  FLAMBEAU_OPTION(double, beta) = 1.0;
  FLAMBEAU_OPTION(double, threshold) = 20.0;
};
struct ThresholdOptions {
  ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
  FLAMBEAU_OPTION(double, threshold);
  FLAMBEAU_OPTION(double, value);
  FLAMBEAU_OPTION(bool, inplace) = false;
};
using SELUOptions = ReLUOptions;
using ReLU6Options = ReLUOptions;
using SiLUOptions = ReLUOptions;
using MishOptions = ReLUOptions;
using HardswishOptions = ReLUOptions;
using HardsigmoidOptions = ReLUOptions;
using CELUOptions = ELUOptions;
using SoftshrinkOptions = HardshrinkOptions;
using SoftminOptions = SoftmaxOptions;
using LogSoftmaxOptions = SoftmaxOptions;

namespace functional {

struct SoftmaxFuncOptions {
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}  // NOLINT
  FLAMBEAU_OPTION(int64_t, dim);
  FLAMBEAU_OPTION(std::optional<DType>, dtype) = {};
};
using SoftminFuncOptions = SoftmaxFuncOptions;
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
struct GumbelSoftmaxFuncOptions {
  FLAMBEAU_OPTION(double, tau) = 1.0;
  FLAMBEAU_OPTION(bool, hard) = false;
  FLAMBEAU_OPTION(int, dim) = -1;
};

Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options);
Tensor softmin(const Tensor& input, const SoftminFuncOptions& options);
Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options);
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options = {});
Tensor prelu(const Tensor& input, const Tensor& weight);
Tensor logsigmoid(const Tensor& input);
Tensor softsign(const Tensor& input);
Tensor tanhshrink(const Tensor& input);

}  // namespace functional

#define FLAMBEAU_ACTIVATION(Name, function) \
  FLAMBEAU_FUNCTION_LAYER(Name, function, = {}, const Tensor& input)
FLAMBEAU_ACTIVATION(ELU, elu);
FLAMBEAU_ACTIVATION(CELU, celu);
FLAMBEAU_ACTIVATION(SELU, selu);
FLAMBEAU_ACTIVATION(GLU, glu);
FLAMBEAU_ACTIVATION(GELU, gelu);
FLAMBEAU_ACTIVATION(Hardshrink, hardshrink);
FLAMBEAU_ACTIVATION(Hardtanh, hardtanh);
FLAMBEAU_ACTIVATION(LeakyReLU, leaky_relu);
FLAMBEAU_ACTIVATION(ReLU, relu);
FLAMBEAU_ACTIVATION(ReLU6, relu6);
FLAMBEAU_ACTIVATION(RReLU, rrelu);
FLAMBEAU_ACTIVATION(Softplus, softplus);
FLAMBEAU_ACTIVATION(Softshrink, softshrink);
FLAMBEAU_FUNCTION_LAYER(Threshold, threshold, , const Tensor& input);
FLAMBEAU_LAYER(Softmax, const Tensor& input);
FLAMBEAU_LAYER(Softmin, const Tensor& input);
FLAMBEAU_LAYER(LogSoftmax, const Tensor& input);
FLAMBEAU_ACTIVATION(SiLU, silu);
FLAMBEAU_ACTIVATION(Mish, mish);
FLAMBEAU_ACTIVATION(Hardswish, hardswish);
FLAMBEAU_ACTIVATION(Hardsigmoid, hardsigmoid);
#undef FLAMBEAU_ACTIVATION
FLAMBEAU_LAYER_OF(LogSigmoid, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Sigmoid, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Softmax2d, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Softsign, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Tanh, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Tanhshrink, NoOptions, const Tensor& input);

FLAMBEAU_PARAMETER_LAYER(PReLU, const Tensor& input);

}  // namespace flambeau::torch::nn
