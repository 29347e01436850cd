// The two ways to convolve on the CPU; see conv.cpp for the choice.
#pragma once

#include "flambeau/kernels/conv.h"

namespace flambeau::cpu {

// oneDNN: float32, and bfloat16 where the processor can.
bool onednn_can_convolve(DType dtype);
void onednn_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                 const ConvGeometry& geometry);
void onednn_conv_input(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x,
                       const ConvGeometry& geometry);
void onednn_conv_weight(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight,
                        const Tensor& grad_bias, const ConvGeometry& geometry);

}  // namespace flambeau::cpu
