// Initial values of parameters (torch::nn::init): each function writes into its tensor, unrecorded,
// and returns it.
#pragma once

#include <tuple>

#include "flambeau/api/enum.h"
#include "flambeau/torch.h"

namespace flambeau::torch::nn::init {

using NonlinearityType =
    enumtype::OneOf<enumtype::kLinear, enumtype::kConv1D, enumtype::kConv2D, enumtype::kConv3D,
                    enumtype::kConvTranspose1D, enumtype::kConvTranspose2D,
                    enumtype::kConvTranspose3D, enumtype::kSigmoid, enumtype::kTanh,
                    enumtype::kReLU, enumtype::kLeakyReLU>;
using FanModeType = enumtype::OneOf<enumtype::kFanIn, enumtype::kFanOut>;

struct Fan {  // in and out of a weight
  explicit Fan(const Tensor& tensor);
  int64_t in, out;
};
std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor);
double calculate_gain(NonlinearityType nonlinearity, double param = 0.01);

Tensor constant_(const Tensor& tensor, const Scalar& value);
Tensor dirac_(const Tensor& tensor, int64_t groups = 1);
Tensor eye_(const Tensor& matrix);
Tensor normal_(const Tensor& tensor, double mean = 0, double std = 1);
Tensor trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double a = -2,
                     double b = 2);
Tensor ones_(const Tensor& tensor);
Tensor orthogonal_(const Tensor& tensor, double gain = 1.0);
Tensor sparse_(const Tensor& tensor, double sparsity, double std = 0.01);
Tensor uniform_(const Tensor& tensor, double low = 0, double high = 1);
Tensor kaiming_normal_(const Tensor& tensor, double a = 0, FanModeType mode = kFanIn,
                       NonlinearityType nonlinearity = kLeakyReLU);
Tensor kaiming_uniform_(const Tensor& tensor, double a = 0, FanModeType mode = kFanIn,
                        NonlinearityType nonlinearity = kLeakyReLU);
Tensor xavier_normal_(const Tensor& tensor, double gain = 1.0);
Tensor xavier_uniform_(const Tensor& tensor, double gain = 1.0);
Tensor zeros_(const Tensor& tensor);

}  // namespace flambeau::torch::nn::init

namespace flambeau::torch::nn::detail {

// What linear layers and convolutions begin with: 1 / sqrt(fan in) bounds weight and bias.
void reset_weight_and_bias(const Tensor& weight, const Tensor& bias);

}  // namespace flambeau::torch::nn::detail
