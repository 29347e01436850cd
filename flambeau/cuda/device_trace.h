// What ran on CUDA devices between two moments: kernels, copies and fills, as CUPTI tells, NVIDIA's
// library for tracing. It is loaded when the first trace begins.
#pragma once

#include <vector>

#include "flambeau/tensor/accelerator.h"

namespace flambeau::cuda {

// RuntimeError says what is missing where CUPTI was not found.
void start_trace();
// Waits for the current device first; of others it tells what has ended.
std::vector<DeviceSpan> stop_trace();

}  // namespace flambeau::cuda
