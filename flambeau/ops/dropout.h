// Dropout for the ops that contain it: recurrent layers and attention.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

Tensor dropout(const Tensor& input, double p, bool train);

}  // namespace flambeau
