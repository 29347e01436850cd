// All of torch::optim.
#pragma once

#include "flambeau/optim/lbfgs.h"
#include "flambeau/optim/optimizers.h"
#include "flambeau/optim/schedulers.h"
