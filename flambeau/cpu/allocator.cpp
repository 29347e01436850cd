// The CPU allocator. Freed blocks are kept by size: a fresh large block costs a page fault per
// page, which is most of the time of a large elementwise op. Small blocks wait in lists of their
// thread, large ones in one shared list that never holds more than was lately in use.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <list>
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

// More than any system will really give. A kernel that promises whatever it is asked for
// (overcommit) would end the process when it touches what is not there.
size_t beyond_reach() {
  static const size_t bytes =
      4 * static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Blocks of whole huge pages are mappings of their own: in the heap of malloc, their alignment
// would leave holes, and what is freed in its middle would not go back to the system.
void* from_system(size_t bytes) {
  if (bytes < huge_page) {
    void* data = nullptr;
    return posix_memalign(&data, alignment, bytes) == 0 ? data : nullptr;
  }
  if (bytes > beyond_reach()) return nullptr;
  const size_t mapped = bytes + huge_page;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  const size_t before = -reinterpret_cast<uintptr_t>(start) % huge_page;
  char* data = static_cast<char*>(start) + before;
  if (before > 0) munmap(start, before);
  if (before < huge_page) munmap(data + bytes, huge_page - before);
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void to_system(void* data, size_t bytes) {
  if (bytes < huge_page) return std::free(data);
  munmap(data, bytes);
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

// What is in use and what is kept stay together below what was lately in use, and a little for
// blocks whose sizes find no user: the peak of this stretch of work and of the one before. A
// stretch ends when several times the peak was freed, so that a loop, however many blocks its
// passes free, finds all of them again in the next pass.
class LargeBlocks {
 public:
  void* take(size_t bytes) {
    Dropped dropped;
    const std::lock_guard lock(mutex_);
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    const auto behind = by_size_.upper_bound(bytes);
    if (behind == by_size_.begin() || std::prev(behind)->first != bytes) {
      drop_oldest(dropped);
      return nullptr;
    }
    const auto at = std::prev(behind);  // the latest of its size: it may still be in a cache
    void* data = at->second->data;
    cached_ -= bytes;
    by_age_.erase(at->second);
    by_size_.erase(at);
    return data;
  }

  // For a block that the system did not give either.
  void failed(size_t bytes) {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    peak_ = std::min(peak_, in_use_);
  }

  void give(void* data, size_t bytes) {
    Dropped dropped;
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    freed_ += bytes;
    if (freed_ / 8 > lately()) {
      peak_before_ = std::exchange(peak_, in_use_);
      freed_ = 0;
    }
    cached_ += bytes;
    by_size_.emplace(bytes, by_age_.insert(by_age_.end(), Block{data, bytes}));
    drop_oldest(dropped);
  }

  void clear() {
    Dropped dropped;
    const std::lock_guard lock(mutex_);
    dropped.blocks.swap(by_age_);
    by_size_.clear();
    cached_ = 0;
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
  };
  // Blocks for the system. It is declared before a lock is taken and so works when that is open.
  struct Dropped {
    std::list<Block> blocks;
    ~Dropped() {
      for (const Block& block : blocks) to_system(block.data, block.bytes);
    }
  };

  [[nodiscard]] size_t lately() const { return std::max(peak_, peak_before_); }
  void drop_oldest(Dropped& dropped) {
    const size_t most = std::max(kept_at_least, lately() + lately() / 16 - in_use_);
    while (cached_ > most) {
      const auto oldest = by_age_.begin();
      cached_ -= oldest->bytes;
      by_size_.erase(by_size_.lower_bound(oldest->bytes));  // equal sizes stand by age
      dropped.blocks.splice(dropped.blocks.end(), by_age_, oldest);
    }
  }

  std::mutex mutex_;
  std::list<Block> by_age_;
  std::multimap<size_t, std::list<Block>::iterator> by_size_;
  size_t in_use_ = 0, cached_ = 0;
  size_t peak_ = 0, peak_before_ = 0, freed_ = 0;
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
    if (!data && size >= bytes && size > small_limit) large_.failed(size);
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
