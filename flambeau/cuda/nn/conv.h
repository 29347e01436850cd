// What convolutions do besides cuDNN's part: the bias, and complex numbers.
#pragma once

#include <functional>

#include "flambeau/tensor/tensor.h"

namespace flambeau::cuda {

// y: (N, C, spatial...), contiguous or channels last; bias: (C) of y's dtype.
void add_bias(const Tensor& y, const Tensor& bias);
void sum_bias_gradient(const Tensor& grad_y, const Tensor& grad_bias);

// out = first * second (+ bias) for complex tensors, `convolve` being the same for real ones: a
// convolution or one of its adjoints.
void convolve_complex(
    const Tensor& first, const Tensor& second, const Tensor& bias, const Tensor& out,
    const std::function<void(const Tensor&, const Tensor&, const Tensor&)>& convolve);

}  // namespace flambeau::cuda
