// Some results PyTorch makes by steps in place, which programs see in their version.
#pragma once

#include "flambeau/tensor/tensor.h"

namespace flambeau {

// Who such a step is told to be by: it is kept where other writes to a new result are forgotten.
inline constexpr char step_in_place[] = "a step in place";

inline void count_steps(const Tensor& made, int steps) {
  for (int i = 0; i < steps; ++i) made.bump_version(step_in_place);
}

}  // namespace flambeau
