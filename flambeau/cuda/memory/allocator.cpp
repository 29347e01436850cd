#include "flambeau/cuda/memory/allocator.h"

#include <cstdlib>
#include <cstring>
#include <thread>

#include "flambeau/base/check.h"
#include "flambeau/base/current_op.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/stream.h"

namespace flambeau::cuda {
namespace {

const char* first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value && *value) return value;
  }
  return nullptr;
}

MemoryOptions options_from_environment() {
  MemoryOptions options = parse_memory_options(
      first_set({"FLAMBEAU_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}));
  const char* no_cache =
      first_set({"FLAMBEAU_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING"});
  options.cached = !no_cache || std::strcmp(no_cache, "0") == 0;
  return options;
}

}  // namespace

struct CachingAllocator::Route {
  int device;
  PoolId pool;
  unsigned long long capture;
  std::thread::id thread;
};

CachingAllocator::CachingAllocator() {
  const MemoryOptions options = options_from_environment();
  for (int i = 0; i < device_count(); ++i) {
    devices_.push_back(std::make_unique<DeviceMemory>(i, cuda_memory_driver(i), options));
  }
}

void* CachingAllocator::allocate(size_t bytes, Device device) {
  const int index = checked_index(device.index);
  const cudaStream_t stream = current_handle(index);
  const PoolId pool =
      route_count_.load(std::memory_order_relaxed) ? pool_for(index, stream) : PoolId{};
  return devices_[index]->allocate(bytes, stream, pool, current_op);
}

void CachingAllocator::free(void* data, size_t, Device device) {
  devices_[device.index]->free(data);
}

void CachingAllocator::release_cached() {
  for (const auto& device : devices_) device->release_cached();
}

PoolId CachingAllocator::pool_for(int device, cudaStream_t stream) {
  const std::lock_guard lock(routing_);
  const unsigned long long capture = capture_of(stream);
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->device != device) continue;
    const bool applies =
        route->capture ? route->capture == capture : route->thread == std::this_thread::get_id();
    if (applies) return route->pool;
  }
  return {};
}

void CachingAllocator::begin_route(int device, PoolId pool, unsigned long long capture) {
  const std::lock_guard lock(routing_);
  routes_.push_back({device, pool, capture, std::this_thread::get_id()});
  route_count_.store(static_cast<int>(routes_.size()));
}

void CachingAllocator::end_route(int device, PoolId pool, unsigned long long capture) {
  const std::lock_guard lock(routing_);
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (route->device == device && route->pool == pool && route->capture == capture) {
      routes_.erase(std::next(route).base());
      break;
    }
  }
  route_count_.store(static_cast<int>(routes_.size()));
}

PoolId new_pool(bool for_capture) {
  static std::atomic<uint64_t> next{1};
  const uint64_t id = next++;
  return for_capture ? PoolId{id, 0} : PoolId{0, id};
}

unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(stream, &status, &id) != cudaSuccess) {
    cudaGetLastError();  // the default stream may not even be asked while another is captured
    return 0;
  }
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

CachingAllocator& caching_allocator() {
  // Never destroyed: tensors may outlive everything.
  static auto* allocator = new CachingAllocator;
  return *allocator;
}

namespace {

// Looks for devices only when memory is first asked for, not while the library is being loaded.
class OnDemand final : public Allocator {
 public:
  void* allocate(size_t bytes, Device device) override {
    return caching_allocator().allocate(bytes, device);
  }
  void free(void* data, size_t bytes, Device device) override {
    caching_allocator().free(data, bytes, device);
  }
  void release_cached() override { caching_allocator().release_cached(); }
};

const bool ready = [] {
  static OnDemand allocator;
  set_allocator(DeviceType::cuda, &allocator);
  return true;
}();

}  // namespace
}  // namespace flambeau::cuda
