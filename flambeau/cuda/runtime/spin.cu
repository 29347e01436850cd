// A kernel that does nothing for a while: tests let the host run ahead of it.
#include "flambeau/cuda/runtime/driver_tools.h"
#include "flambeau/cuda/runtime/launch.cuh"

namespace flambeau::cuda {
namespace {

__global__ void spin_kernel(int64_t cycles) {
  const int64_t start = clock64();
  while (clock64() - start < cycles) {
  }
}

}  // namespace

void spin(int64_t cycles) { launch("_sleep", spin_kernel, 1, 1, cycles); }

}  // namespace flambeau::cuda
