// New memory with contents that every run has alike.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Fills fresh memory with what nobody takes for a result, NaN or the largest number, if only
// deterministic algorithms are wanted. Gives the tensor back.
Tensor known_contents(const Tensor& fresh);

}  // namespace flambeau
