// The CPU allocator. Freed blocks are kept by size: a fresh large block costs a page fault per
// page, which is most of the time of a large elementwise op. Small blocks wait in lists of their
// thread, large ones in one shared list that never holds more than was lately in use.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>

#include "flambeau/base/check.h"
#include "flambeau/base/profiler.h"
#include "flambeau/tensor/storage.h"

namespace flambeau {
namespace {

constexpr size_t alignment = 64;
constexpr size_t small_limit = size_t{1} << 16;
constexpr size_t huge_page = size_t{1} << 21;
constexpr size_t kept_at_least = size_t{64} << 20;

// Sizes are rounded to one of four steps in each doubling, so that blocks find new users.
size_t rounded(size_t bytes) {
  if (bytes <= alignment) return alignment;
  const size_t step = std::max(alignment, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

// The number of a rounded size up to small_limit.
int class_of(size_t bytes) {
  if (bytes <= 512) return static_cast<int>(bytes / alignment);
  const int power = std::bit_width(bytes - 1) - 1;
  const size_t base = size_t{1} << power;
  return 8 + (power - 9) * 4 + static_cast<int>((bytes - base) / (base / 4));
}
constexpr int classes = 8 + 7 * 4 + 1;

void* from_system(size_t bytes) {
  void* data = nullptr;
  const size_t align = bytes >= huge_page ? huge_page : alignment;
  if (posix_memalign(&data, align, bytes) != 0) return nullptr;
  if (bytes >= huge_page) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

struct Link {
  Link* next;
};

// The lists of one thread. What is left at its end goes back to the system.
struct ThreadLists {
  struct List {
    Link* first = nullptr;
    uint32_t count = 0;
  };
  std::array<List, classes> lists;
  ~ThreadLists() { clear(); }
  void clear() {
    for (List& list : lists) {
      while (list.first) std::free(std::exchange(list.first, list.first->next));
      list.count = 0;
    }
  }
  // About a quarter of a megabyte of each size, and never fewer than four blocks.
  static uint32_t most(size_t bytes) {
    return static_cast<uint32_t>(std::max<size_t>(4, (size_t{1} << 18) / bytes));
  }
};

// A thread's lists die before its last tensors may: then blocks go straight to the system.
thread_local bool lists_alive = false;
struct ListsHolder {
  ThreadLists lists;
  ListsHolder() { lists_alive = true; }
  ~ListsHolder() { lists_alive = false; }
};
ThreadLists* thread_lists() {
  static thread_local ListsHolder holder;
  return lists_alive ? &holder.lists : nullptr;
}

class LargeBlocks {
 public:
  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    const auto at = free_.find(bytes);
    if (at == free_.end()) return nullptr;
    void* data = at->second;
    cached_ -= bytes;
    free_.erase(at);
    return data;
  }

  void give(void* data, size_t bytes) {
    std::unique_lock lock(mutex_);
    in_use_ -= bytes;
    // The bound follows use: it decays towards what is live now.
    peak_ -= (peak_ - in_use_) / 64;
    if (cached_ + bytes > std::max(kept_at_least, peak_ - in_use_)) {
      lock.unlock();
      std::free(data);
      return;
    }
    cached_ += bytes;
    free_.emplace(bytes, data);
  }

  void clear() {
    std::multimap<size_t, void*> blocks;
    {
      const std::lock_guard lock(mutex_);
      blocks.swap(free_);
      cached_ = 0;
    }
    for (const auto& [bytes, data] : blocks) std::free(data);
  }

 private:
  std::mutex mutex_;
  std::multimap<size_t, void*> free_;
  size_t in_use_ = 0, peak_ = 0, cached_ = 0;
};

class CpuAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, Device) override {
    if (profiling()) [[unlikely]]
      count_profiled_bytes(static_cast<int64_t>(bytes));
    const size_t size = rounded(bytes);
    if (size <= small_limit) {
      if (ThreadLists* lists = thread_lists()) {
        auto& list = lists->lists[class_of(size)];
        if (list.first) {
          --list.count;
          return std::exchange(list.first, list.first->next);
        }
      }
    } else if (size >= bytes) {
      if (void* data = large_.take(size)) return data;
    }
    void* data = size >= bytes ? from_system(size) : nullptr;
    if (!data && size >= bytes) {
      release_cached();
      data = from_system(size);
    }
    CHECK(data, RuntimeError,
          "DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes.", bytes);
    return data;
  }

  void free(void* data, size_t bytes, Device) override {
    if (profiling()) [[unlikely]]
      count_profiled_bytes(-static_cast<int64_t>(bytes));
    const size_t size = rounded(bytes);
    if (size > small_limit) return large_.give(data, size);
    if (ThreadLists* lists = thread_lists()) {
      auto& list = lists->lists[class_of(size)];
      if (list.count < ThreadLists::most(size)) {
        list.first = new (data) Link{list.first};
        ++list.count;
        return;
      }
    }
    std::free(data);
  }

  void release_cached() override {
    large_.clear();
    if (ThreadLists* lists = thread_lists()) lists->clear();
  }

 private:
  LargeBlocks large_;
};

// Never destroyed: tensors of static duration may be freed after it would be.
const bool registered = [] {
  set_allocator(DeviceType::cpu, new CpuAllocator);
  return true;
}();

}  // namespace
}  // namespace flambeau
