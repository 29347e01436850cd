// Slots of the ops that put tensors together or cut them, where moving bytes is all there is to do.
#pragma once

#include <vector>

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

// Tensors of one dtype into contiguous `out`, one behind the other along `dim`: for each of the
// `rows` before it, a part of every tensor. The tensors are contiguous; on the CPU, their rows are,
// and lie one step apart.
SLOT(cat, void(const std::vector<Tensor>& tensors, const Tensor& out, int64_t rows, int64_t dim))
// The lower or upper triangle of contiguous matrices, zeros elsewhere; `out` may be the input.
SLOT(triangle, void(const Tensor& input, const Tensor& out, int64_t diagonal, bool upper))

}  // namespace flambeau::kernels
