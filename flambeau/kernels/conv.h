// The slots of convolution. A convolution is linear in its input and in its weight; the three
// kernels are the product and its two adjoints, so derivatives of any order need no others, and a
// transposed convolution is conv_input.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// x: (N, C, spatial...), weight: (O, C / groups, kernel...), y: (N, O, spatial...). The padding is
// that before each dimension; what is needed behind follows from the sizes of x and y.
struct ConvGeometry {
  Dims stride, padding, dilation;  // one entry a spatial dimension
  int64_t groups = 1;
};

namespace kernels {
// y = conv(x, weight) + bias; bias may be undefined.
SLOT(conv, void(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                const ConvGeometry& geometry))
// grad_x from the gradient of y.
SLOT(conv_input, void(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x,
                      const ConvGeometry& geometry))
// grad_weight, and grad_bias where it is defined.
SLOT(conv_weight, void(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight,
                       const Tensor& grad_bias, const ConvGeometry& geometry))
}  // namespace kernels

}  // namespace flambeau
