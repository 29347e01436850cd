// The caching allocator of CUDA memory. Memory comes from the driver in segments, which are cut
// into blocks; a freed block goes back to a list of the stream it was made for and is reused there
// without waiting, since work in a stream is in order.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include "flambeau/tensor/accelerator.h"
#include "flambeau/tensor/storage.h"

namespace flambeau::cuda {

// A piece of a segment, in use or free. Neighbours in memory are linked.
struct Block {
  char* data = nullptr;
  size_t size = 0;
  cudaStream_t stream = nullptr;  // the stream it was allocated on
  bool small = false;             // of a segment of small blocks
  bool used = false;
  Block *before = nullptr, *after = nullptr;
  std::vector<Stream> other_streams;  // that were said to use it as well
};

// One device's memory. All calls hold the mutex.
class DeviceMemory {
 public:
  explicit DeviceMemory(int device) : device_(device) {}

  void* allocate(size_t bytes, cudaStream_t stream);
  void free(void* data);
  void record_stream(void* data, const Stream& stream);
  void release_cached();
  MemoryStatistics statistics();
  void reset_peaks();

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };
  using FreeList = std::set<Block*, BySize>;
  struct Pending {  // freed, but another stream may still be at work on it
    Block* block;
    std::vector<cudaEvent_t> events;
  };

  FreeList& free_list(const Block& block);
  Block* find(size_t size, bool small, cudaStream_t stream);
  Block* new_segment(size_t size, bool small, cudaStream_t stream);
  void split(Block* block, size_t size);
  void give_back(Block* block);  // joins it with free neighbours
  void reclaim_pending(bool wait);
  size_t release_segments();
  [[noreturn]] void fail_out_of_memory(size_t bytes);

  int device_;
  std::mutex mutex_;
  std::map<std::pair<cudaStream_t, bool>, FreeList> free_;
  std::unordered_map<void*, Block*> used_;
  std::vector<Pending> pending_;
  MemoryStatistics numbers_;
};

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator();
  void* allocate(size_t bytes, Device device) override;
  void free(void* data, size_t bytes, Device device) override;
  void release_cached() override;

  MemoryStatistics statistics(int device) { return devices_[device]->statistics(); }
  void reset_peaks(int device) { devices_[device]->reset_peaks(); }
  void record_stream(void* data, const Stream& stream);

 private:
  std::vector<std::unique_ptr<DeviceMemory>> devices_;
};

CachingAllocator& caching_allocator();

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
