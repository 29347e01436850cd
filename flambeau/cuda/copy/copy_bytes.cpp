// Bytes between host and device and between devices, in the order of the current stream.
#include "flambeau/base/check.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/driver_tools.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/cuda/runtime/stream.h"
#include "flambeau/tensor/storage.h"

namespace flambeau::cuda {
namespace {

// `then` starts only after all that has been given to `first`.
void order(const Stream& first, const Stream& then) {
  Accelerator& device = accelerator(DeviceType::cuda);
  Event mark;
  device.record_event(mark, first);
  device.stream_waits(then, mark);
  device.destroy_event(mark);
}

void copy_between_devices(void* to, int to_device, const void* from, int from_device,
                          size_t bytes) {
  const Stream source = current_stream(from_device), target = current_stream(to_device);
  order(target, source);  // what still uses the target's old contents
  check(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, native(source)), "copy_");
  order(source, target);
}

void copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (to_device.is_cuda() && from_device.is_cuda() && !(to_device == from_device)) {
    return copy_between_devices(to, to_device.index, from, from_device.index, bytes);
  }
  const int device = to_device.is_cuda() ? to_device.index : from_device.index;
  const DeviceGuard guard(device);
  const cudaStream_t stream = current_handle(device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy_");
  if (to_device.is_cuda() && from_device.is_cuda()) return;
  about_to_wait();
  check(cudaStreamSynchronize(stream), "copy_");
  raise_fault(device);
}

const bool ready = (set_device_copy(copy), true);

}  // namespace
}  // namespace flambeau::cuda
