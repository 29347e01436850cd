// CUDA devices as the rest of this library sees them: the current one, guards, and one way to check
// what the driver answers.
#pragma once

#include <cuda_runtime_api.h>

#include "flambeau/tensor/device.h"

namespace flambeau::cuda {

[[noreturn, gnu::cold]] void fail_cuda(const char* op, cudaError_t error);

// Raises RuntimeError with the driver's words unless all went well. `op` is what was being done.
inline void check(cudaError_t error, const char* op) {
  if (error != cudaSuccess) [[unlikely]]
    fail_cuda(op, error);
}

int device_count();  // 0 without a driver
int current_device();

// Whether the host waits for every kernel, so that an error is raised where its cause is:
// FLAMBEAU_LAUNCH_BLOCKING, or the driver's own CUDA_LAUNCH_BLOCKING.
extern const bool launch_blocking;
void wait_for_launch(const char* op, cudaStream_t stream);
void set_device(int index);
void synchronize(int index);
int multiprocessors(int device);

// The device's index, where -1 stands for the current one; raises unless there is such a device.
int checked_index(int index);

// The device whose memory `data` points into. Only a machine with several devices has to look.
int device_of(const void* data);

// Makes a device current for the time of a call.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) : before_(current_device()), changed_(before_ != device) {
    if (changed_) set_device(device);
  }
  ~DeviceGuard() {
    if (changed_) cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
  bool changed_;
};

// Memory may be taken while work is captured, here or in other threads: it is no part of that work
// and must not end the capture.
class OutsideCapture {
 public:
  OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace flambeau::cuda
