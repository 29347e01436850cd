// Elementwise kernels on operands that are stored in another dtype than the kernel computes in.
#pragma once

#include <functional>

#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// Whether an operand beside `other` is better converted a chunk at a time, while it is in the
// cache, than as a whole before: a large one that is not spread over more elements, and whose
// strides a conversion would keep. `out` is where results go, if they go into a given tensor.
bool converts_in_chunks(const Operand& operand, const Operand* other, DType dtype,
                        const Tensor& out);

// Runs an elementwise kernel that computes in `dtype` over operands as they are stored.
void run_converting(const TensorIter& stored, DType dtype,
                    const std::function<void(const TensorIter&)>& kernel);

}  // namespace flambeau
