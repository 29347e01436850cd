// What `tensor.grad = x` and `tensor.data = x` do, with their checks.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

void assign_grad(const Tensor& tensor, const Tensor& grad);  // undefined: none
// Takes over the values, outside of what autograd watches.
void assign_data(const Tensor& tensor, const Tensor& source);

}  // namespace flambeau
