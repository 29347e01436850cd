#include "flambeau/cuda/allocator.h"

#include <algorithm>

#include "flambeau/base/check.h"
#include "flambeau/cuda/device.h"
#include "flambeau/cuda/stream.h"

namespace flambeau::cuda {
namespace {

constexpr size_t unit = 512;                     // blocks are multiples of this
constexpr size_t small_limit = size_t{1} << 20;  // up to here blocks share small segments
constexpr size_t small_segment = size_t{2} << 20;
constexpr size_t large_segment = size_t{32} << 20;  // at least, unless a block is larger
constexpr size_t segment_unit = size_t{2} << 20;    // what the driver hands out anyway

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

std::string readable(size_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
  int power = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && power < 3; ++power) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, power ? "%.2f %s" : "%.0f %s", value, units[power]);
  return text;
}

// A rest worth keeping: of large blocks only what can serve a large request.
bool worth_splitting(size_t rest, bool small) { return rest >= (small ? unit : small_limit); }

}  // namespace

DeviceMemory::FreeList& DeviceMemory::free_list(const Block& block) {
  return free_[{block.stream, block.small}];
}

Block* DeviceMemory::find(size_t size, bool small, cudaStream_t stream) {
  FreeList& list = free_[{stream, small}];
  Block key;
  key.size = size;
  const auto found = list.lower_bound(&key);
  if (found == list.end()) return nullptr;
  Block* block = *found;
  list.erase(found);
  return block;
}

Block* DeviceMemory::new_segment(size_t size, bool small, cudaStream_t stream) {
  const size_t want = small ? small_segment : std::max(large_segment, round_up(size, segment_unit));
  const DeviceGuard guard(device_);
  void* data = nullptr;
  size_t got = want;
  cudaError_t error = cudaMalloc(&data, want);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    ++numbers_.retries;
    reclaim_pending(true);
    release_segments();
    error = cudaMalloc(&data, want);
    if (error == cudaErrorMemoryAllocation && !small && want > round_up(size, segment_unit)) {
      cudaGetLastError();  // nothing to spare: no more than what is needed
      got = round_up(size, segment_unit);
      error = cudaMalloc(&data, got);
    }
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, "allocate");
  auto* block = new Block;
  block->data = static_cast<char*>(data);
  block->size = got;
  block->stream = stream;
  block->small = small;
  numbers_.reserved += static_cast<int64_t>(got);
  numbers_.reserved_peak = std::max(numbers_.reserved_peak, numbers_.reserved);
  ++numbers_.segments;
  return block;
}

void DeviceMemory::split(Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (!worth_splitting(rest, block->small)) return;
  auto* tail = new Block;
  tail->data = block->data + size;
  tail->size = rest;
  tail->stream = block->stream;
  tail->small = block->small;
  tail->before = block;
  tail->after = block->after;
  if (tail->after) tail->after->before = tail;
  block->after = tail;
  block->size = size;
  free_list(*tail).insert(tail);
}

void* DeviceMemory::allocate(size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  // Beyond any device, and beyond what rounding up can hold.
  if (bytes > size_t{1} << 50) fail_out_of_memory(bytes);
  const size_t size = round_up(bytes, unit);
  const bool small = size <= small_limit;
  if (!pending_.empty()) reclaim_pending(false);
  Block* block = find(size, small, stream);
  if (!block) block = new_segment(size, small, stream);
  if (!block) fail_out_of_memory(bytes);
  split(block, size);
  block->used = true;
  used_.emplace(block->data, block);
  numbers_.allocated += static_cast<int64_t>(block->size);
  numbers_.allocated_peak = std::max(numbers_.allocated_peak, numbers_.allocated);
  ++numbers_.blocks;
  ++numbers_.allocations;
  return block->data;
}

void DeviceMemory::free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(data);
  if (found == used_.end()) return;  // nothing of ours
  Block* block = found->second;
  used_.erase(found);
  numbers_.allocated -= static_cast<int64_t>(block->size);
  --numbers_.blocks;
  if (block->other_streams.empty()) {
    give_back(block);
    return;
  }
  const DeviceGuard guard(device_);
  Pending wait{block, {}};
  for (const Stream& stream : block->other_streams) {
    cudaEvent_t event = nullptr;
    // A destructor is above us: where no mark can be set, waiting for all is as good.
    if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess ||
        cudaEventRecord(event, native(stream)) != cudaSuccess) {
      cudaDeviceSynchronize();
      continue;
    }
    wait.events.push_back(event);
  }
  block->other_streams.clear();
  pending_.push_back(std::move(wait));
}

void DeviceMemory::give_back(Block* block) {
  block->used = false;
  const auto absorb = [&](Block* other) {
    if (!other || other->used) return;
    free_list(*other).erase(other);
    block->data = std::min(block->data, other->data);
    block->size += other->size;
    if (other == block->before) {
      block->before = other->before;
      if (block->before) block->before->after = block;
    } else {
      block->after = other->after;
      if (block->after) block->after->before = block;
    }
    delete other;
  };
  absorb(block->before);
  absorb(block->after);
  free_list(*block).insert(block);
}

void DeviceMemory::reclaim_pending(bool wait) {
  std::erase_if(pending_, [&](Pending& pending) {
    for (cudaEvent_t event : pending.events) {
      if (wait) cudaEventSynchronize(event);
      if (cudaEventQuery(event) == cudaErrorNotReady) {
        cudaGetLastError();
        return false;
      }
    }
    for (cudaEvent_t event : pending.events) cudaEventDestroy(event);
    give_back(pending.block);
    return true;
  });
}

void DeviceMemory::record_stream(void* data, const Stream& stream) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(data);
  if (found == used_.end()) return;  // somebody else's memory
  Block* block = found->second;
  if (native(stream) == block->stream) return;
  for (const Stream& known : block->other_streams) {
    if (known == stream) return;
  }
  block->other_streams.push_back(stream);
}

// Gives segments that are free as a whole to the driver; returns their bytes.
size_t DeviceMemory::release_segments() {
  size_t released = 0;
  cudaDeviceSynchronize();
  for (auto& [key, list] : free_) {
    std::erase_if(list, [&](Block* block) {
      if (block->before || block->after) return false;
      cudaFree(block->data);
      released += block->size;
      --numbers_.segments;
      delete block;
      return true;
    });
  }
  numbers_.reserved -= static_cast<int64_t>(released);
  return released;
}

void DeviceMemory::release_cached() {
  const std::lock_guard lock(mutex_);
  if (numbers_.segments == 0) return;
  const DeviceGuard guard(device_);
  reclaim_pending(true);
  release_segments();
}

MemoryStatistics DeviceMemory::statistics() {
  const std::lock_guard lock(mutex_);
  return numbers_;
}

void DeviceMemory::reset_peaks() {
  const std::lock_guard lock(mutex_);
  numbers_.allocated_peak = numbers_.allocated;
  numbers_.reserved_peak = numbers_.reserved;
}

void DeviceMemory::fail_out_of_memory(size_t bytes) {
  ++numbers_.out_of_memory;
  const DeviceGuard guard(device_);
  size_t free = 0, total = 0, largest = 0;
  cudaMemGetInfo(&free, &total);
  for (const auto& [key, list] : free_) {
    if (!list.empty()) largest = std::max(largest, (*list.rbegin())->size);
  }
  fail<OutOfMemoryError>(
      "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is "
      "free. "
      "This process holds {}: {} in {} tensors, and {} reserved but unallocated, in pieces of at "
      "most {}.",
      readable(bytes), device_, readable(total), readable(free),
      readable(static_cast<size_t>(numbers_.reserved)),
      readable(static_cast<size_t>(numbers_.allocated)), numbers_.blocks,
      readable(static_cast<size_t>(numbers_.reserved - numbers_.allocated)), readable(largest));
}

CachingAllocator::CachingAllocator() {
  for (int i = 0; i < device_count(); ++i) devices_.push_back(std::make_unique<DeviceMemory>(i));
}

void* CachingAllocator::allocate(size_t bytes, Device device) {
  const int index = checked_index(device.index);
  return devices_[index]->allocate(bytes, current_handle(index));
}

void CachingAllocator::free(void* data, size_t, Device device) {
  devices_[device.index]->free(data);
}

void CachingAllocator::release_cached() {
  for (const auto& device : devices_) device->release_cached();
}

void CachingAllocator::record_stream(void* data, const Stream& stream) {
  devices_[stream.device.index]->record_stream(data, stream);
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
