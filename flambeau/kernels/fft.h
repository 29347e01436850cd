// The slots of Fourier transforms along one dimension. Tensors may have any strides; a result may
// be its own input. Every element of the result is multiplied by `scale`.
#pragma once

#include <optional>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

// Complex to complex; the sign of the exponent is minus, or plus for the inverse. On the CPU the
// input may be real.
SLOT(fft_complex,
     void(const Tensor& input, const Tensor& out, int64_t dim, bool inverse, double scale))
// Real to the first half (n / 2 + 1) of its transform.
SLOT(fft_real, void(const Tensor& input, const Tensor& out, int64_t dim, double scale))
// From such a half back to n real numbers, n being the size of `out` along dim.
SLOT(fft_to_real, void(const Tensor& input, const Tensor& out, int64_t dim, double scale))

// The plans that a device keeps: how many there are, and how many there may be. Where a number is
// given there may be as many from now on; those used longest ago go. On CUDA only.
SLOT(fft_plans, void(int64_t device, std::optional<int64_t> limit, int64_t* count, int64_t* most))

}  // namespace flambeau::kernels
