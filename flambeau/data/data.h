// All of torch::data.
#pragma once

#include "flambeau/data/loader.h"
#include "flambeau/data/mnist.h"
#include "flambeau/data/transforms.h"
