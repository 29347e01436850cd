// The current stream of each thread and device, and the streams there are.
#pragma once

#include <cuda_runtime_api.h>

#include "flambeau/tensor/accelerator.h"

namespace flambeau::cuda {

Stream current_stream(int device);
inline cudaStream_t native(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.handle);
}

// The driver's handle of the current stream of the current device's kernels.
cudaStream_t current_handle(int device);

}  // namespace flambeau::cuda
