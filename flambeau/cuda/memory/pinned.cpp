#include "flambeau/cuda/memory/pinned.h"

#include <bit>

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/runtime/device.h"

namespace flambeau::cuda {

void* PinnedAllocator::allocate(size_t bytes, Device) {
  checked_index(-1);  // raises where there is no device
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 512));
  const std::lock_guard lock(mutex_);
  reclaim();
  void* data = nullptr;
  std::vector<void*>& spare = free_[size];
  if (!spare.empty()) {
    data = spare.back();
    spare.pop_back();
  } else {
    const OutsideCapture outside;
    const cudaError_t error = cudaHostAlloc(&data, size, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      fail<OutOfMemoryError>("pin_memory: the host has no {} bytes of page-locked memory", size);
    }
    check(error, "pin_memory");
    held_.add(static_cast<int64_t>(size));
  }
  blocks_.add(1);
  bytes_.add(static_cast<int64_t>(size));
  used_.emplace(static_cast<const char*>(data), Block{data, size, {}});
  return data;
}

void PinnedAllocator::free(void* data, size_t, Device) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(static_cast<const char*>(data));
  if (found == used_.end()) return;
  blocks_.remove(1);
  bytes_.remove(static_cast<int64_t>(found->second.size));
  if (!found->second.of_graph) waiting_.push_back(std::move(found->second));
  used_.erase(found);
}

void PinnedAllocator::reclaim() {
  if (waiting_.empty()) return;
  const OutsideCapture outside;  // events may be asked although some stream is captured
  std::erase_if(waiting_, [&](Block& block) {
    for (const cudaEvent_t event : block.uses) {
      if (cudaEventQuery(event) == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
      }
    }
    for (const cudaEvent_t event : block.uses) cudaEventDestroy(event);
    free_[block.size].push_back(block.data);
    return true;
  });
}

void PinnedAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  reclaim();
  for (auto& [size, blocks] : free_) {
    for (void* data : blocks) {
      cudaFreeHost(data);
      held_.remove(static_cast<int64_t>(size));
    }
  }
  free_.clear();
}

void PinnedAllocator::record_use(const void* data, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  auto after = used_.upper_bound(static_cast<const char*>(data));
  if (after == used_.begin()) return;
  Block& block = std::prev(after)->second;
  if (static_cast<const char*>(data) >= static_cast<const char*>(block.data) + block.size) return;
  if (capture_of(stream)) {
    block.of_graph = true;
    return;
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "copy_");
  block.uses.push_back(event);
  check(cudaEventRecord(event, stream), "copy_");
}

MemoryNumbers PinnedAllocator::statistics() {
  const std::lock_guard lock(mutex_);
  MemoryNumbers numbers;
  const std::pair<const char*, const Counter*> counters[] = {
      {"active_requests", &blocks_}, {"active_bytes", &bytes_}, {"allocated_bytes", &held_}};
  for (const auto& [name, counter] : counters) {
    const std::string prefix = name;
    numbers.emplace_back(prefix + ".current", counter->current);
    numbers.emplace_back(prefix + ".peak", counter->peak);
    numbers.emplace_back(prefix + ".allocated", counter->added);
    numbers.emplace_back(prefix + ".freed", counter->removed);
  }
  return numbers;
}

void PinnedAllocator::reset(bool peaks) {
  const std::lock_guard lock(mutex_);
  for (Counter* counter : {&blocks_, &bytes_, &held_}) {
    if (peaks) {
      counter->peak = counter->current;
    } else {
      counter->added = counter->removed = 0;
    }
  }
}

PinnedAllocator& pinned_memory() {
  // Never destroyed: tensors may outlive everything.
  static auto* allocator = new PinnedAllocator;
  return *allocator;
}

}  // namespace flambeau::cuda
