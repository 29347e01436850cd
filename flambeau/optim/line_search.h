// A line search for the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6).
#pragma once

#include <functional>

#include "flambeau/torch.h"

namespace flambeau::torch::optim {

// A distance along the direction, with the loss, the gradient and the slope there.
struct LinePoint {
  double distance = 0, loss = 0;
  Tensor gradient;
  double slope = 0;
};

struct LineSearch {
  LinePoint found;
  int64_t evaluations = 0;
};

using Evaluate = std::function<std::pair<double, Tensor>(double distance)>;

LineSearch strong_wolfe(const Evaluate& at, double distance, const Tensor& direction,
                        const LinePoint& start, double tolerance_change, int64_t max_steps);

}  // namespace flambeau::torch::optim
