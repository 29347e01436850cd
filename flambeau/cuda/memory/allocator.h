// The caching allocator of CUDA memory: for every device a DeviceMemory, and the choice of the pool
// that memory comes from while work is captured or a program uses a pool of its own.
#pragma once

#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "flambeau/cuda/memory/device_memory.h"
#include "flambeau/tensor/storage.h"

namespace flambeau::cuda {

std::unique_ptr<MemoryDriver> cuda_memory_driver(int device);

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator();
  void* allocate(size_t bytes, Device device) override;
  void free(void* data, size_t bytes, Device device) override;
  void release_cached() override;

  DeviceMemory& of(int device) { return *devices_[device]; }

  // From now on memory on the device comes from the pool: of streams that belong to the capture,
  // or, if that is 0, of this thread. The latest such wish that applies counts.
  void begin_route(int device, PoolId pool, unsigned long long capture);
  void end_route(int device, PoolId pool, unsigned long long capture);

 private:
  struct Route;
  [[nodiscard]] PoolId pool_for(int device, cudaStream_t stream);

  std::vector<std::unique_ptr<DeviceMemory>> devices_;
  std::atomic<int> route_count_{0};
  std::mutex routing_;
  std::vector<Route> routes_;
};

CachingAllocator& caching_allocator();

PoolId new_pool(bool for_capture);

// The capture that a stream belongs to; 0 if it belongs to none.
unsigned long long capture_of(cudaStream_t stream);

// Memory for the time of one op: freed, in the order of the stream, when it goes out of scope.
class Workspace {
 public:
  Workspace(size_t bytes, int device)
      : device_(DeviceType::cuda, device),
        data_(bytes ? caching_allocator().allocate(bytes, device_) : nullptr) {}
  ~Workspace() {
    if (data_) caching_allocator().free(data_, 0, device_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  template <class T = void>
  [[nodiscard]] T* get() const {
    return static_cast<T*>(data_);
  }

 private:
  Device device_;
  void* data_;
};

}  // namespace flambeau::cuda
