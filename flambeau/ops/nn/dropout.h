// Dropout for the ops that contain it: recurrent layers and attention.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

Tensor dropout(const Tensor& input, double p, bool train);

// Of attention's weights (batch, heads, queries, keys), contiguous and in float32 on a device with
// dropout in one pass.
Tensor dropout_of_weights(const Tensor& weights, double p);

}  // namespace flambeau
