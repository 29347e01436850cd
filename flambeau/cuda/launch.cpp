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
  size_t shared_bytes = 0;  // of dynamic shared memory that it may have
};
constexpr size_t known_count = 512;
thread_local std::unique_ptr<Known[]> known;

// More than the usual has to be asked for.
constexpr size_t usual_shared_bytes = 48 << 10;
void allow_shared_bytes(const void* kernel, size_t bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "shared memory of a kernel");
}

// False if the driver would not: then the runtime library is asked, which knows more ways and tells
// what is wrong.
bool launch_by_handle(const void* kernel, int device, dim3 grid, dim3 block, size_t shared_bytes,
                      void** arguments, cudaStream_t stream) {
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
    entry = {kernel, device, handle, usual_shared_bytes};
  }
  if (shared_bytes > entry.shared_bytes) {
    allow_shared_bytes(kernel, shared_bytes);
    entry.shared_bytes = shared_bytes;
  }
  const CUlaunchConfig config{
      grid.x, grid.y,  grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared_bytes),
      stream, nullptr, 0};
  return launch(&config, entry.handle, arguments, nullptr) == CUDA_SUCCESS;
}

}  // namespace

void start_kernel(const char* op, const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                  void** arguments) {
  const int device = current_device();
  const cudaStream_t stream = current_handle(device);
  if (!launch_by_handle(kernel, device, grid, block, shared_bytes, arguments, stream))
      [[unlikely]] {
    if (shared_bytes > usual_shared_bytes) allow_shared_bytes(kernel, shared_bytes);
    check(cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream), op);
  }
  if (launch_blocking) [[unlikely]]
    wait_for_launch(op, stream);
}

}  // namespace flambeau::cuda
