// A caching allocator of page-locked host memory. Taking such memory from the driver costs about a
// millisecond and waits for the device, so blocks are kept: by powers of two, and not given out
// again before the copies that used them are done.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "flambeau/cuda/memory/device_memory.h"
#include "flambeau/tensor/storage.h"

namespace flambeau::cuda {

class PinnedAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, Device device) override;
  void free(void* data, size_t bytes, Device device) override;
  void release_cached() override;

  MemoryNumbers statistics();
  void reset(bool peaks);  // the peaks, or the totals

  // Says that work in `stream`, up to now, uses memory at `data`, if that is ours.
  void record_use(const void* data, cudaStream_t stream);

 private:
  struct Block {
    void* data;
    size_t size;
    std::vector<cudaEvent_t> uses;
    bool of_graph = false;  // a captured copy uses it, at any replay: it is never free again
  };

  void reclaim();  // blocks whose uses are over become free

  std::mutex mutex_;
  Counter blocks_, bytes_, held_;              // in use, and taken from the driver
  std::map<const char*, Block> used_;          // by address
  std::vector<Block> waiting_;                 // freed, but copies may still be under way
  std::map<size_t, std::vector<void*>> free_;  // by size
};

PinnedAllocator& pinned_memory();

}  // namespace flambeau::cuda
