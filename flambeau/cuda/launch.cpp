// Starting kernels. The runtime library finds a kernel by its address on the host in every launch;
// here every thread remembers the driver's handles of the kernels it started, and calls the driver.
#include <cuda.h>

#include <memory>

#include "flambeau/cuda/device.h"
#include "flambeau/cuda/launch.cuh"
#include "flambeau/cuda/stream.h"

namespace flambeau::cuda {
namespace {

using DriverLaunch = CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**);

// Null where the driver has no such function.
DriverLaunch find_driver_launch() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult answer{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuLaunchKernelEx", &found, 12000,
                                                             cudaEnableDefault, &answer);
  if (error != cudaSuccess) cudaGetLastError();
  const bool there = error == cudaSuccess && answer == cudaDriverEntryPointSuccess;
  return there ? reinterpret_cast<DriverLaunch>(found) : nullptr;
}

struct Known {
  const void* kernel = nullptr;
  int device = -1;
  cudaFunction_t handle = nullptr;
};
constexpr size_t known_count = 512;
thread_local std::unique_ptr<Known[]> known;

// False if the driver would not: then the runtime library is asked, which knows more ways and tells
// what is wrong.
bool launch_by_handle(const void* kernel, int device, dim3 grid, dim3 block, void** arguments,
                      cudaStream_t stream) {
  static const DriverLaunch launch = find_driver_launch();
  if (!launch) return false;
  if (!known) {
    known = std::make_unique<Known[]>(known_count);
    cudaSetDevice(device);  // a thread's first call: the driver wants a context
  }
  Known& entry = known[(reinterpret_cast<uintptr_t>(kernel) >> 4) % known_count];
  if (entry.kernel != kernel || entry.device != device) {
    const OutsideCapture outside;  // the kernel's code may have to be loaded
    cudaFunction_t handle = nullptr;
    if (cudaGetFuncBySymbol(&handle, kernel) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    entry = {kernel, device, handle};
  }
  const CUlaunchConfig config{grid.x,  grid.y, grid.z, block.x, block.y,
                              block.z, 0,      stream, nullptr, 0};
  return launch(&config, entry.handle, arguments, nullptr) == CUDA_SUCCESS;
}

}  // namespace

void start_kernel(const char* op, const void* kernel, dim3 grid, dim3 block, void** arguments) {
  const int device = current_device();
  const cudaStream_t stream = current_handle(device);
  if (!launch_by_handle(kernel, device, grid, block, arguments, stream)) [[unlikely]]
    check(cudaLaunchKernel(kernel, grid, block, arguments, 0, stream), op);
  if (launch_blocking) [[unlikely]]
    wait_for_launch(op, stream);
}

}  // namespace flambeau::cuda
