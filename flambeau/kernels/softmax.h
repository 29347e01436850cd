// The slots of the softmax family. All tensors are contiguous and, but for the
// result of logsumexp, of one shape; they have one dtype.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

using SoftmaxSlot = Slot<void(const Tensor& input, const Tensor& out, int64_t dim)>;
// The gradient of the input from that of the output and the output itself.
using SoftmaxBackwardSlot =
    Slot<void(const Tensor& grad, const Tensor& output, const Tensor& out, int64_t dim)>;

namespace kernels {
inline constinit SoftmaxSlot softmax{"softmax"};
inline constinit SoftmaxSlot log_softmax{"log_softmax"};
// Without the dimension: `out` has one element for each slice.
inline constinit SoftmaxSlot logsumexp{"logsumexp"};
inline constinit SoftmaxBackwardSlot softmax_backward{"softmax_backward"};
inline constinit SoftmaxBackwardSlot log_softmax_backward{"log_softmax_backward"};
}  // namespace kernels

}  // namespace flambeau
