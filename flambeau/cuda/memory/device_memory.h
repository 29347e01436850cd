// The host's side of the caching allocator: one device's memory, as segments of addresses that are
// cut into blocks. A freed block goes back to the arena of the stream it was made for and is reused
// there without waiting, since work in a stream is in order. Knows no CUDA: what it needs of the
// device it asks a MemoryDriver for. See Note [Arenas] in device_memory.cpp.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flambeau/cuda/memory/driver.h"
#include "flambeau/tensor/accelerator.h"

namespace flambeau::cuda {

struct Arena;

enum class BlockState : unsigned char {
  used,
  pending,  // freed, but another stream may still be at work on it
  binned,   // free and kept for a request of the same size
  free,
  hole,  // addresses without memory
};

struct Segment {
  Arena* arena;
  char* data;
  size_t size;  // addresses, with or without memory
  struct Block* first;
};

// A part of a segment. Neighbours are linked; the lower of two that are joined survives, so that a
// segment's first block never changes.
struct Block {
  char* data = nullptr;
  size_t size = 0, requested = 0;
  Segment* segment = nullptr;
  BlockState state = BlockState::free;
  Block *before = nullptr, *after = nullptr;
  Block* next_in_bin = nullptr;
  const char* op = nullptr;                 // who asked for it
  std::vector<StreamHandle> other_streams;  // that were said to use it as well
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    return a->size != b->size ? a->size < b->size : a->data < b->data;
  }
};
struct ByAddress {
  bool operator()(const Block* a, const Block* b) const { return a->data < b->data; }
};

struct Pool;

// The memory of one pool, stream and class of sizes.
struct Arena {
  static constexpr int bin_count = 128;

  Pool* pool;
  StreamHandle stream;
  bool small;
  std::set<Block*, BySize> free{};
  std::set<Block*, ByAddress> holes{};
  std::array<Block*, bin_count + 1> bins{};  // by multiples of the unit
  int64_t binned = 0;                        // blocks in bins
};

// What captures and programs may ask for: memory that is apart from all other.
struct Pool {
  PoolId id;
  int64_t users = 0;  // as long as there are any, its memory is never given back
  std::map<std::pair<StreamHandle, bool>, std::unique_ptr<Arena>> arenas{};
};

struct MemoryOptions {
  bool expandable = true;    // segments that memory is mapped into, where the driver can
  bool cached = true;        // false: every block is an allocation of the driver's, for sanitizers
  double collect_above = 0;  // of the limit: cached memory is given back rather than more taken
  size_t max_split = SIZE_MAX;  // larger free blocks are not cut, where segments are fixed
};

// From the text of PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:False,max_split_size_mb:128".
MemoryOptions parse_memory_options(const char* text);

// A counter as PyTorch shows it.
struct Counter {
  int64_t current = 0, peak = 0, added = 0, removed = 0;
  void add(int64_t n) {
    current += n;
    added += n;
    if (current > peak) peak = current;
  }
  void remove(int64_t n) {
    current -= n;
    removed += n;
  }
};

// All calls hold the mutex.
class DeviceMemory {
 public:
  DeviceMemory(int device, std::unique_ptr<MemoryDriver> driver, const MemoryOptions& options);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Raises OutOfMemoryError. `op` is remembered for it and must live on.
  char* allocate(size_t bytes, StreamHandle stream, PoolId pool = {}, const char* op = nullptr);
  void free(void* data);  // of others' memory nothing
  void record_stream(void* data, StreamHandle stream);
  void release_cached();

  void retain_pool(PoolId pool);
  void release_pool(PoolId pool);
  int64_t pool_users(PoolId pool);

  // Between these the device must not be waited for, nor events be asked.
  void begin_capture();
  void end_capture();

  void set_limit(size_t bytes);
  size_t limit();
  size_t capacity() { return driver_->capacity(); }

  MemoryNumbers statistics();
  void reset_peaks();
  void reset_accumulated();
  std::vector<SegmentInfo> snapshot();

  void record_history(size_t entries);  // 0: none
  std::vector<MemoryEvent> history();

  void check_invariants();  // for tests: raises RuntimeError saying what is wrong

 private:
  struct Pending {
    Block* block;
    std::vector<Mark> marks;
  };
  struct Growth;  // where an arena can grow
  struct Count {
    Counter blocks, bytes, requested, segments, reserved;
  };

  Pool& pool_of(PoolId id);
  Arena& arena_of(PoolId pool, StreamHandle stream, bool small);

  char* allocate_uncached(size_t bytes, StreamHandle stream, const char* op);
  Block* find(Arena& arena, size_t size);
  Block* grow(Arena& arena, size_t size);
  Block* grow_segment(Arena& arena, size_t size);
  Block* take_segment(Arena& arena, size_t size);
  Growth find_growth(Arena& arena, size_t size);
  bool within_limit(size_t more) const;
  void make_space();
  void move_chunks(size_t size, const Growth& growth);
  Block* new_block(Segment* segment, char* data, size_t size, BlockState state);
  Segment* new_segment(Arena& arena, char* data, size_t size);
  Block* cut(Block* block, size_t size);  // the rest behind `size`, in no list yet
  void join(Block* lower, Block* upper);
  void give_back(Block* block);  // joins it with free neighbours
  void put_away(Block* block);   // into a bin, or back
  void empty_bins(Arena& arena);
  void reclaim_pending(bool wait);
  void mark_pending(Block* block);
  size_t release_chunks(Block* block);
  size_t release_free(Arena& arena);
  size_t release_all();
  void drop_empty_pools();
  void count_used(Block& block);
  void count_unused(Block& block);
  void count_reserved(bool small, int64_t bytes);
  void note(MemoryEvent::Kind kind, const char* data, size_t size, StreamHandle stream,
            const char* op);
  [[noreturn]] void fail_out_of_memory(size_t bytes);
  [[nodiscard]] std::string largest_users() const;

  int device_;
  std::unique_ptr<MemoryDriver> driver_;
  MemoryOptions options_;
  bool expandable_;
  std::mutex mutex_;
  size_t limit_;
  int captures_ = 0;
  std::map<PoolId, Pool> pools_;
  Pool* default_pool_;
  Arena* last_small_ = nullptr;  // the default pool's arenas that were asked last
  Arena* last_large_ = nullptr;
  // Blocks that have been given out, from then until they are joined to others.
  std::unordered_map<void*, Block*> by_address_;
  std::set<Segment*> segments_;
  std::vector<Pending> pending_;
  std::vector<Block*> deferred_;  // freed while a capture forbade marks
  Count all_, small_, large_;
  Counter waiting_, waiting_bytes_;  // blocks that are pending
  size_t high_water_ = 0;            // the most bytes that have been in use at a time
  int64_t moves_ = 0;                // of chunks, of those that allocations have earned
  int64_t retries_ = 0, out_of_memory_ = 0, waits_ = 0, taken_ = 0, given_back_ = 0;
  size_t history_size_ = 0, history_next_ = 0;
  std::vector<MemoryEvent> history_;
};

std::string readable_bytes(size_t bytes);

}  // namespace flambeau::cuda
