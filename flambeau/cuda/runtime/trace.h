// What ran on CUDA devices between two moments: kernels, copies and fills, as CUPTI tells, NVIDIA's
// library for tracing. It is loaded when the first trace begins.
#pragma once

#include <atomic>
#include <vector>

#include "flambeau/tensor/accelerator.h"

namespace flambeau::cuda {

// Whether a trace is being taken.
extern constinit std::atomic<bool> tracing;

// RuntimeError says what is missing where CUPTI was not found.
void start_trace();
// Waits for all devices first.
std::vector<DeviceSpan> stop_trace();

}  // namespace flambeau::cuda
