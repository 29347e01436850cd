// The driver's own functions by name, for what the runtime library has no function for or a slower
// one: nothing has to be linked to the driver.
#pragma once

#include <cuda_runtime_api.h>

namespace flambeau::cuda {

// As of a version of CUDA, 12000 for 12.0; null where the driver that is installed has none.
template <class Function>
void find_driver_function(const char* name, unsigned version, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult answer{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &answer);
  if (error != cudaSuccess) cudaGetLastError();
  const bool there = error == cudaSuccess && answer == cudaDriverEntryPointSuccess;
  function = there ? reinterpret_cast<Function>(found) : nullptr;
}

}  // namespace flambeau::cuda
