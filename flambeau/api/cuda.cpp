#include "flambeau/api/cuda.h"

#include <deque>
#include <mutex>

#include "flambeau/tensor/backend.h"

namespace flambeau::torch::cuda {
namespace {

Accelerator& gpus() { return accelerator(kCUDA); }
int at(DeviceIndex device) { return device < 0 ? current_device() : device; }

}  // namespace

DeviceIndex current_device() {
  return static_cast<DeviceIndex>(device_runtime(kCUDA).current_device());
}
void set_device(DeviceIndex device) { device_runtime(kCUDA).set_device(device); }

bool CUDAStream::query() const { return gpus().stream_done(stream_); }
void CUDAStream::synchronize() const { gpus().wait_for_stream(stream_); }
CUDAStream getCurrentCUDAStream(DeviceIndex device) { return gpus().current_stream(at(device)); }
CUDAStream getDefaultCUDAStream(DeviceIndex device) { return gpus().default_stream(at(device)); }
CUDAStream getStreamFromPool(bool high_priority, DeviceIndex device) {
  return gpus().new_stream(at(device), high_priority ? -1 : 0);
}
CUDAStream getStreamFromExternal(CUstream_st* stream, DeviceIndex device) {
  return gpus().stream_of_handle(at(device), stream);
}
void setCurrentCUDAStream(const CUDAStream& stream) { gpus().set_current_stream(stream.unwrap()); }

const DeviceProperties* getDeviceProperties(int64_t device) {
  static std::mutex mutex;
  static std::deque<std::optional<DeviceProperties>> known;
  const auto index = static_cast<size_t>(at(static_cast<DeviceIndex>(device)));
  const std::lock_guard lock(mutex);
  while (known.size() <= index) known.emplace_back();
  if (!known[index]) known[index] = gpus().properties(static_cast<int>(index));
  return &*known[index];
}
const DeviceProperties* getCurrentDeviceProperties() { return getDeviceProperties(-1); }

CUDAGuard::CUDAGuard(DeviceIndex device) : before_(cuda::current_device()) {
  if (device >= 0) set_device(device);
}
CUDAGuard::CUDAGuard(const Device& device) : CUDAGuard(device.index()) {
  CHECK(device.is_cuda(), RuntimeError, "CUDAGuard: expected a CUDA device, got {}",
        to_text(device));
}
CUDAGuard::~CUDAGuard() { set_device(before_); }

CUDAStreamGuard::CUDAStreamGuard(const CUDAStream& stream)
    : device_(stream.device()), before_(getCurrentCUDAStream()) {
  setCurrentCUDAStream(stream);
}
CUDAStreamGuard::~CUDAStreamGuard() { setCurrentCUDAStream(before_); }

CUDAEvent::~CUDAEvent() {
  if (isCreated()) gpus().destroy_event(event_);
}
void CUDAEvent::record(const CUDAStream& stream) { gpus().record_event(event_, stream.unwrap()); }
void CUDAEvent::block(const CUDAStream& stream) const {
  if (isCreated()) gpus().stream_waits(stream.unwrap(), event_);
}
bool CUDAEvent::query() const { return !isCreated() || gpus().event_done(event_); }
void CUDAEvent::synchronize() const {
  if (isCreated()) gpus().wait_for_event(event_);
}
float CUDAEvent::elapsed_time(const CUDAEvent& end) const {
  CHECK(isCreated() && end.isCreated(), RuntimeError,
        "Both events must be recorded before calculating elapsed time.");
  return static_cast<float>(gpus().elapsed_ms(event_, end.event_));
}

CUDAGraph::CUDAGraph() : graph_(gpus().new_graph(false)) {}
void CUDAGraph::capture_begin(PoolId pool, const std::string& mode) { graph_->begin(pool, mode); }
void CUDAGraph::capture_end() { static_cast<void>(graph_->end()); }
void CUDAGraph::replay() { graph_->replay(); }
void CUDAGraph::reset() { graph_->reset(); }
PoolId CUDAGraph::pool() { return graph_->pool(); }

}  // namespace flambeau::torch::cuda
