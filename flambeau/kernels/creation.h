// Kernels that fill new tensors with sequences.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

SLOT(arange, void(const Tensor& out, const Scalar& start, const Scalar& step))
SLOT(linspace, void(const Tensor& out, const Scalar& start, const Scalar& end))

}  // namespace flambeau::kernels
