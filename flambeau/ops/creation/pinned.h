// Tensors in page-locked memory of the host, from which copies to a device need not be waited for.
#pragma once

#include "flambeau/ops/op.h"

namespace flambeau {

// A copy of a CPU tensor in page-locked memory; the tensor itself if it is there already.
Tensor pin_memory(const Tensor& tensor);
bool is_pinned(const Tensor& tensor);
// What was made on the host, on a device, without waiting until it is there.
Tensor sent_to(const Tensor& made, Device device);

// A new tensor with what options ask for beside dtype and device: such memory, a gradient.
Tensor finished(Tensor tensor, const Options& options);

}  // namespace flambeau
