// What convolutions do besides cuDNN's part: the bias.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau::cuda {

// y: (N, C, spatial...), contiguous or channels last; bias: (C) of y's dtype.
void add_bias(const Tensor& y, const Tensor& bias);
void sum_bias_gradient(const Tensor& grad_y, const Tensor& grad_bias);

}  // namespace flambeau::cuda
