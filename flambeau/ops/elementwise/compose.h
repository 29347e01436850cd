// Elementwise ops that only compositions call, besides those of ops.h.
#pragma once

#include "flambeau/ops/ops.h"

namespace flambeau {

Tensor rsub(const Tensor& input, const Operand& other, const Scalar& alpha = 1);  // other - input
Tensor clamp_min(const Tensor& input, const Operand& min);
Tensor bitwise_not(const Tensor& input);

}  // namespace flambeau
