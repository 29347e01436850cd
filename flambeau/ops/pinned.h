// Tensors in page-locked memory of the host, from which copies to a device need not be waited for.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

// A copy of a CPU tensor in page-locked memory; the tensor itself if it is there already. No
// history.
Tensor pin_memory(const Tensor& tensor);
bool is_pinned(const Tensor& tensor);

}  // namespace flambeau
