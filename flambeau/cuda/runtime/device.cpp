#include "flambeau/cuda/runtime/device.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/tensor/backend.h"

namespace flambeau::cuda {

void fail_cuda(const char* op, cudaError_t error) {
  cudaGetLastError();  // an error that is not fatal must not be found again by the next call
  fail<RuntimeError>("{}: CUDA error: {}", op, cudaGetErrorString(error));
}

const bool launch_blocking = [] {
  for (const char* name : {"FLAMBEAU_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"}) {
    const char* value = std::getenv(name);
    if (value && *value && std::strcmp(value, "0") != 0) return true;
  }
  return false;
}();

void wait_for_launch(const char* op, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
      status != cudaStreamCaptureStatusNone)
    return;
  check(cudaStreamSynchronize(stream), op);
  raise_fault(current_device());
}

namespace {

// How many devices there are, and why there are none.
struct Devices {
  int count = 0;
  cudaError_t error = cudaSuccess;
  Devices() {
    error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return;
    cudaGetLastError();
    count = 0;
  }
};

const Devices& devices() {
  static const Devices found;
  return found;
}

// The driver cannot be used by a process that was forked from one that uses it.
std::atomic<bool> forked{false};
const bool watches_forks = pthread_atfork(nullptr, nullptr, [] { forked = true; }) == 0;

// One sentence about a machine whose devices cannot be used.
[[noreturn]] void fail_without_devices() {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto version = [](int number) {
    return flambeau::format("{}.{}", number / 1000, number % 1000 / 10);
  };
  CHECK(driver, RuntimeError,
        "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and "
        "installed a driver");
  CHECK(devices().error != cudaErrorInsufficientDriver, RuntimeError,
        "The NVIDIA driver on your system is too old (found version {}): it is for CUDA {}, but "
        "this library needs a driver for CUDA {}",
        driver, version(driver), version(runtime));
  CHECK(devices().error == cudaSuccess || devices().error == cudaErrorNoDevice, RuntimeError,
        "CUDA cannot be used: {}", cudaGetErrorString(devices().error));
  fail<RuntimeError>("No CUDA GPUs are available");
}

}  // namespace

int device_count() {
  static const int count = devices().count;
  return count;
}

int current_device() {
  if (device_count() == 1) return 0;  // spares every launch a question
  int device = 0;
  check(cudaGetDevice(&device), "current_device");
  return device;
}

int checked_index(int index) {
  if (device_count() == 0) fail_without_devices();
  CHECK(!forked.load(std::memory_order_relaxed), RuntimeError,
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method");
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
