// The whole C++ front end: tensors and ops, modules, optimizers, data. See docs/cpp.md.
#pragma once

#include "flambeau/data/data.h"
#include "flambeau/frontend/autograd.h"
#include "flambeau/nn/nn.h"
#include "flambeau/optim/optim.h"
#include "flambeau/serialize.h"
#include "flambeau/torch.h"
