// The slots of Fourier transforms along one dimension. Tensors may have any strides; a result may
// be its own input. Every element of the result is multiplied by `scale`.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

// Complex to complex; the sign of the exponent is minus, or plus for the inverse.
SLOT(fft_complex,
     void(const Tensor& input, const Tensor& out, int64_t dim, bool inverse, double scale))
// Real to the first half (n / 2 + 1) of its transform.
SLOT(fft_real, void(const Tensor& input, const Tensor& out, int64_t dim, double scale))
// From such a half back to n real numbers, n being the size of `out` along dim.
SLOT(fft_to_real, void(const Tensor& input, const Tensor& out, int64_t dim, double scale))

}  // namespace flambeau::kernels
