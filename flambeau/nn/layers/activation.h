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

using ELUFuncOptions = ELUOptions;
using CELUFuncOptions = CELUOptions;
using SELUFuncOptions = SELUOptions;
using GLUFuncOptions = GLUOptions;
using GELUFuncOptions = GELUOptions;
using HardshrinkFuncOptions = HardshrinkOptions;
using HardtanhFuncOptions = HardtanhOptions;
using LeakyReLUFuncOptions = LeakyReLUOptions;
using ReLUFuncOptions = ReLUOptions;
using ReLU6FuncOptions = ReLU6Options;
using RReLUFuncOptions = RReLUOptions;
using SoftplusFuncOptions = SoftplusOptions;
using SoftshrinkFuncOptions = SoftshrinkOptions;
using ThresholdFuncOptions = ThresholdOptions;
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

Tensor elu(const Tensor& input, const ELUFuncOptions& options = {});
Tensor celu(const Tensor& input, const CELUFuncOptions& options = {});
Tensor selu(const Tensor& input, const SELUFuncOptions& options = {});
Tensor glu(const Tensor& input, const GLUFuncOptions& options = {});
Tensor gelu(const Tensor& input, const GELUFuncOptions& options = {});
Tensor hardshrink(const Tensor& input, const HardshrinkFuncOptions& options = {});
Tensor hardtanh(const Tensor& input, const HardtanhFuncOptions& options = {});
Tensor leaky_relu(const Tensor& input, const LeakyReLUFuncOptions& options = {});
Tensor relu(const Tensor& input, const ReLUFuncOptions& options = {});
Tensor relu6(const Tensor& input, const ReLU6FuncOptions& options = {});
Tensor rrelu(const Tensor& input, const RReLUFuncOptions& options = {});
Tensor softplus(const Tensor& input, const SoftplusFuncOptions& options = {});
Tensor softshrink(const Tensor& input, const SoftshrinkFuncOptions& options = {});
Tensor threshold(const Tensor& input, const ThresholdFuncOptions& options);
Tensor softmax(const Tensor& input, const SoftmaxFuncOptions& options);
Tensor softmin(const Tensor& input, const SoftminFuncOptions& options);
Tensor log_softmax(const Tensor& input, const LogSoftmaxFuncOptions& options);
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxFuncOptions& options = {});
Tensor prelu(const Tensor& input, const Tensor& weight);
Tensor logsigmoid(const Tensor& input);
Tensor silu(const Tensor& input, const ReLUOptions& options = {});
Tensor mish(const Tensor& input, const ReLUOptions& options = {});
Tensor hardswish(const Tensor& input, const ReLUOptions& options = {});
Tensor hardsigmoid(const Tensor& input, const ReLUOptions& options = {});
Tensor softsign(const Tensor& input);
Tensor tanhshrink(const Tensor& input);

}  // namespace functional

FLAMBEAU_LAYER(ELU, const Tensor& input);
FLAMBEAU_LAYER(CELU, const Tensor& input);
FLAMBEAU_LAYER(SELU, const Tensor& input);
FLAMBEAU_LAYER(GLU, const Tensor& input);
FLAMBEAU_LAYER(GELU, const Tensor& input);
FLAMBEAU_LAYER(Hardshrink, const Tensor& input);
FLAMBEAU_LAYER(Hardtanh, const Tensor& input);
FLAMBEAU_LAYER(LeakyReLU, const Tensor& input);
FLAMBEAU_LAYER(ReLU, const Tensor& input);
FLAMBEAU_LAYER(ReLU6, const Tensor& input);
FLAMBEAU_LAYER(RReLU, const Tensor& input);
FLAMBEAU_LAYER(Softplus, const Tensor& input);
FLAMBEAU_LAYER(Softshrink, const Tensor& input);
FLAMBEAU_LAYER(Threshold, const Tensor& input);
FLAMBEAU_LAYER(Softmax, const Tensor& input);
FLAMBEAU_LAYER(Softmin, const Tensor& input);
FLAMBEAU_LAYER(LogSoftmax, const Tensor& input);
FLAMBEAU_LAYER(SiLU, const Tensor& input);
FLAMBEAU_LAYER(Mish, const Tensor& input);
FLAMBEAU_LAYER(Hardswish, const Tensor& input);
FLAMBEAU_LAYER(Hardsigmoid, const Tensor& input);
FLAMBEAU_LAYER_OF(LogSigmoid, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Sigmoid, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Softmax2d, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Softsign, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Tanh, NoOptions, const Tensor& input);
FLAMBEAU_LAYER_OF(Tanhshrink, NoOptions, const Tensor& input);

FLAMBEAU_PARAMETER_LAYER(PReLU, const Tensor& input);

}  // namespace flambeau::torch::nn
