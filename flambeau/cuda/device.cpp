#include "flambeau/cuda/device.h"

#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/fault.h"
#include "flambeau/tensor/backend.h"

namespace flambeau::cuda {

void fail_cuda(const char* op, cudaError_t error) {
  cudaGetLastError();  // an error that is not fatal must not be found again by the next call
  fail<RuntimeError>("{}: CUDA error: {}", op, cudaGetErrorString(error));
}

int device_count() {
  static const int count = [] {
    int found = 0;
    if (cudaGetDeviceCount(&found) != cudaSuccess) {
      cudaGetLastError();
      return 0;
    }
    return found;
  }();
  return count;
}

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "current_device");
  return device;
}

int checked_index(int index) {
  if (device_count() == 0) {
    int version = 0;
    cudaDriverGetVersion(&version);
    CHECK(version, RuntimeError,
          "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
          "installed a driver");
    fail<RuntimeError>("No CUDA GPUs are available");
  }
  if (index < 0) return current_device();
  CHECK(index < device_count(), RuntimeError,
        "CUDA error: invalid device ordinal: cuda:{} was asked for, but there are {} devices",
        index, device_count());
  return index;
}

void set_device(int index) {
  if (index >= 0) check(cudaSetDevice(checked_index(index)), "set_device");
}

void synchronize(int index) {
  const int device = checked_index(index);
  const DeviceGuard guard(device);
  check(cudaDeviceSynchronize(), "synchronize");
  raise_fault(device);
}

int multiprocessors(int device) {
  static const std::vector<int> counts = [] {
    std::vector<int> found(device_count());
    for (int i = 0; i < device_count(); ++i) {
      check(cudaDeviceGetAttribute(&found[i], cudaDevAttrMultiProcessorCount, i), "properties");
    }
    return found;
  }();
  return counts[device];
}

int device_of(const void* data) {
  if (device_count() == 1 || !data) return current_device();
  cudaPointerAttributes attributes;
  check(cudaPointerGetAttributes(&attributes, data), "device_of");
  return attributes.device;
}

namespace {
const DeviceRuntime runtime = {device_count, [] { return checked_index(-1); }, set_device,
                               synchronize};
const bool ready = (set_device_runtime(DeviceType::cuda, &runtime), true);
}  // namespace

}  // namespace flambeau::cuda
