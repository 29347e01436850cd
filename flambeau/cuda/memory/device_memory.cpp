#include "flambeau/cuda/memory/device_memory.h"

#include <algorithm>

#include "flambeau/base/check.h"

namespace flambeau::cuda {

// Note [Arenas]
// Memory freed in a stream is reused in that stream, so every stream has arenas of its own: one for
// small blocks, one for large ones. An arena is a range of addresses far longer than the device's
// memory; chunks of memory are mapped into it from the start on, so that what grows is contiguous
// and any two neighbours can be joined. Where blocks of many sizes come and go, free chunks in the
// middle are taken away again and mapped where they are wanted: fragmentation costs addresses, not
// memory. Drivers without virtual memory have many short segments instead, which are cut and joined
// in the same way but neither grow nor shrink.
//
// Small blocks that are freed wait in bins by their size, unjoined, for the next request of that
// size; the bins are emptied before an arena grows.

namespace {

constexpr size_t unit = 512;  // blocks are multiples of this
constexpr size_t mebibyte = size_t{1} << 20;
constexpr size_t small_limit = mebibyte;      // up to here blocks are small
constexpr size_t small_chunk = 2 * mebibyte;  // mapped at a time
constexpr size_t large_chunk = 16 * mebibyte;
constexpr size_t large_segment = 32 * mebibyte;  // at least, where segments are fixed
constexpr int64_t bin_limit = 4096;              // blocks in an arena's bins
// Memory beyond what has been in use at a time: more than this is moved rather than added to.
constexpr double spare_part = 0.1;
constexpr size_t spare_bytes = 32 * mebibyte;
// Moving waits for the device, so it is rationed: steps that are all alike must not move the same
// chunks to and fro. What may not be moved is added.
constexpr int64_t moves_at_once = 8, allocations_per_move = 4000;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
size_t chunk_of(const Arena& arena) { return arena.small ? small_chunk : large_chunk; }
bool is_free(const Block* block) { return block && block->state == BlockState::free; }
bool is_hole(const Block* block) { return block && block->state == BlockState::hole; }

}  // namespace

// Memory of `bytes` is to be mapped at the start of `hole`.
struct DeviceMemory::Growth {
  Block* hole = nullptr;
  size_t bytes = 0;
};

DeviceMemory::DeviceMemory(int device, std::unique_ptr<MemoryDriver> driver,
                           const MemoryOptions& options)
    : device_(device),
      driver_(std::move(driver)),
      options_(options),
      expandable_(options.expandable && driver_->has_virtual_memory()),
      limit_(driver_->capacity()) {
  default_pool_ = &pool_of({});
}

DeviceMemory::~DeviceMemory() {
  reclaim_pending(true);
  for (Segment* segment : segments_) {
    for (Block* block = segment->first; block;) {
      if (expandable_ && options_.cached && block->state != BlockState::hole) {
        // What is still mapped goes with its segment, chunk by chunk, below.
        block->state = BlockState::free;
      }
      Block* next = block->after;
      if (next && is_hole(next) == is_hole(block)) {
        join(block, next);
        continue;
      }
      if (expandable_ && options_.cached && !is_hole(block)) {
        driver_->unmap(block->data, block->size, chunk_of(*segment->arena));
      }
      block = next;
    }
    if (expandable_ && options_.cached) {
      driver_->unreserve(segment->data, segment->size);
    } else {
      driver_->give_back(segment->data, segment->size);
    }
    for (Block* block = segment->first; block;) {
      Block* next = block->after;
      delete block;
      block = next;
    }
    delete segment;
  }
}

// --- Pools and arenas ----------------------------------------------------------------------------

Pool& DeviceMemory::pool_of(PoolId id) {
  const auto found = pools_.find(id);
  return found != pools_.end() ? found->second : pools_.emplace(id, Pool{id}).first->second;
}

Arena& DeviceMemory::arena_of(PoolId id, StreamHandle stream, bool small) {
  const bool is_default = id == PoolId{};
  Arena*& last = small ? last_small_ : last_large_;
  if (is_default && last && last->stream == stream) return *last;
  Pool& pool = is_default ? *default_pool_ : pool_of(id);
  std::unique_ptr<Arena>& arena = pool.arenas[{stream, small}];
  if (!arena) arena = std::make_unique<Arena>(Arena{&pool, stream, small});
  if (is_default) last = arena.get();
  return *arena;
}

void DeviceMemory::retain_pool(PoolId pool) {
  const std::lock_guard lock(mutex_);
  ++pool_of(pool).users;
}

void DeviceMemory::release_pool(PoolId pool) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(pool);
  if (found != pools_.end() && found->second.users > 0) --found->second.users;
}

int64_t DeviceMemory::pool_users(PoolId pool) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(pool);
  return found == pools_.end() ? 0 : found->second.users;
}

void DeviceMemory::drop_empty_pools() {
  std::erase_if(pools_, [&](const auto& entry) {
    const Pool& pool = entry.second;
    if (&pool == default_pool_ || pool.users > 0) return false;
    std::vector<Segment*> own;
    for (Segment* segment : segments_) {
      if (segment->arena->pool != &pool) continue;
      if (!is_hole(segment->first) || segment->first->after) return false;
      own.push_back(segment);
    }
    for (Segment* segment : own) {
      driver_->unreserve(segment->data, segment->size);
      by_address_.erase(segment->data);
      segments_.erase(segment);
      delete segment->first;
      delete segment;
    }
    return true;
  });
}

// --- Blocks --------------------------------------------------------------------------------------

Block* DeviceMemory::new_block(Segment* segment, char* data, size_t size, BlockState state) {
  auto* block = new Block;
  block->segment = segment;
  block->data = data;
  block->size = size;
  block->state = state;
  return block;
}

Segment* DeviceMemory::new_segment(Arena& arena, char* data, size_t size) {
  auto* segment = new Segment{&arena, data, size, nullptr};
  segment->first = new_block(segment, data, size, BlockState::free);
  segments_.insert(segment);
  (arena.small ? small_ : large_).segments.add(1);
  all_.segments.add(1);
  return segment;
}

Block* DeviceMemory::cut(Block* block, size_t size) {
  Block* rest = new_block(block->segment, block->data + size, block->size - size, block->state);
  rest->before = block;
  rest->after = block->after;
  if (rest->after) rest->after->before = rest;
  block->after = rest;
  block->size = size;
  return rest;
}

void DeviceMemory::join(Block* lower, Block* upper) {
  lower->size += upper->size;
  lower->after = upper->after;
  if (lower->after) lower->after->before = lower;
  by_address_.erase(upper->data);
  delete upper;
}

void DeviceMemory::give_back(Block* block) {
  Arena& arena = *block->segment->arena;
  block->state = BlockState::free;
  if (is_free(block->after)) {
    arena.free.erase(block->after);
    join(block, block->after);
  }
  if (is_free(block->before)) {
    block = block->before;
    arena.free.erase(block);
    join(block, block->after);
  }
  arena.free.insert(block);
}

void DeviceMemory::put_away(Block* block) {
  Arena& arena = *block->segment->arena;
  if (arena.small && block->size <= Arena::bin_count * unit) {
    if (arena.binned >= bin_limit) empty_bins(arena);
    block->state = BlockState::binned;
    Block*& bin = arena.bins[block->size / unit];
    block->next_in_bin = bin;
    bin = block;
    ++arena.binned;
    return;
  }
  give_back(block);
}

void DeviceMemory::empty_bins(Arena& arena) {
  for (Block*& bin : arena.bins) {
    while (Block* block = bin) {
      bin = block->next_in_bin;
      give_back(block);
    }
  }
  arena.binned = 0;
}

Block* DeviceMemory::find(Arena& arena, size_t size) {
  Block key;
  key.size = size;
  const auto found = arena.free.lower_bound(&key);
  if (found == arena.free.end()) return nullptr;
  Block* block = *found;
  if (!expandable_ && block->size >= options_.max_split) {
    // A block that is not to be cut serves only requests nearly as large.
    if (size < options_.max_split || block->size >= size + 20 * mebibyte) return nullptr;
  }
  arena.free.erase(found);
  return block;
}

char* DeviceMemory::allocate(size_t bytes, StreamHandle stream, PoolId pool, const char* op) {
  const std::lock_guard lock(mutex_);
  // Beyond any device, and beyond what rounding up can hold.
  if (bytes > size_t{1} << 50) fail_out_of_memory(bytes);
  if (!options_.cached) return allocate_uncached(bytes, stream, op);
  const size_t size = round_up(std::max<size_t>(bytes, 1), unit);
  Arena& arena = arena_of(pool, stream, size <= small_limit);
  if (!pending_.empty()) reclaim_pending(false);
  Block* block = nullptr;
  if (arena.binned && size <= Arena::bin_count * unit) {
    if (Block*& bin = arena.bins[size / unit]; bin) {
      block = bin;
      bin = block->next_in_bin;
      --arena.binned;
    }
  }
  if (!block) {
    block = find(arena, size);
    if (!block && arena.binned) {
      empty_bins(arena);
      block = find(arena, size);
    }
    if (!block) block = grow(arena, size);
    if (!block) fail_out_of_memory(bytes);
    const size_t rest = block->size - size;
    const bool cuts = expandable_ || arena.small
                          ? rest > 0
                          : rest >= small_limit && block->size < options_.max_split;
    if (cuts) arena.free.insert(cut(block, size));
    by_address_[block->data] = block;
  }
  block->state = BlockState::used;
  block->requested = bytes;
  block->op = op;
  count_used(*block);
  if (history_size_) note(MemoryEvent::alloc, block->data, block->size, stream, op);
  return block->data;
}

// An allocation of the driver's for itself, as long as was asked for: a sanitizer sees its ends.
// Whole words, since atomic operations on bytes exchange the word that they are in.
char* DeviceMemory::allocate_uncached(size_t bytes, StreamHandle stream, const char* op) {
  Arena& arena = arena_of({}, stream, bytes <= small_limit);
  const size_t size = round_up(std::max<size_t>(bytes, 1), sizeof(uint32_t));
  char* data = within_limit(size) ? driver_->take(size) : nullptr;
  if (!data) fail_out_of_memory(bytes);
  ++taken_;
  Block* block = new_segment(arena, data, size)->first;
  count_reserved(arena.small, static_cast<int64_t>(size));
  block->state = BlockState::used;
  block->requested = bytes;
  block->op = op;
  by_address_[data] = block;
  count_used(*block);
  return data;
}

void DeviceMemory::free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = by_address_.find(data);
  if (found == by_address_.end() || found->second->state != BlockState::used) return;
  Block* block = found->second;
  if (history_size_) {
    note(MemoryEvent::free, block->data, block->size, block->segment->arena->stream, block->op);
  }
  count_unused(*block);
  if (!options_.cached) {
    if (captures_) return;  // a graph may hold it: it stays
    driver_->synchronize();
    release_chunks(block);
    return;
  }
  if (block->other_streams.empty()) {
    put_away(block);
    return;
  }
  block->state = BlockState::pending;
  waiting_.add(1);
  waiting_bytes_.add(static_cast<int64_t>(block->size));
  if (captures_) {
    deferred_.push_back(block);
  } else {
    mark_pending(block);
  }
}

// --- Blocks that several streams use -------------------------------------------------------------

void DeviceMemory::record_stream(void* data, StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  const auto found = by_address_.find(data);
  if (found == by_address_.end() || found->second->state != BlockState::used) return;
  Block* block = found->second;
  std::vector<StreamHandle>& known = block->other_streams;
  if (stream == block->segment->arena->stream) return;
  if (std::find(known.begin(), known.end(), stream) == known.end()) known.push_back(stream);
}

void DeviceMemory::mark_pending(Block* block) {
  Pending wait{block, {}};
  for (StreamHandle stream : block->other_streams) {
    if (const Mark mark = driver_->set_mark(stream)) wait.marks.push_back(mark);
  }
  block->other_streams.clear();
  pending_.push_back(std::move(wait));
}

void DeviceMemory::reclaim_pending(bool wait) {
  if (captures_) return;
  std::erase_if(pending_, [&](Pending& pending) {
    for (const Mark mark : pending.marks) {
      if (wait) driver_->wait_for(mark);
      if (!wait && !driver_->passed(mark)) return false;
    }
    for (const Mark mark : pending.marks) driver_->drop(mark);
    waiting_.remove(1);
    waiting_bytes_.remove(static_cast<int64_t>(pending.block->size));
    put_away(pending.block);
    return true;
  });
}

void DeviceMemory::begin_capture() {
  const std::lock_guard lock(mutex_);
  ++captures_;
}

void DeviceMemory::end_capture() {
  const std::lock_guard lock(mutex_);
  if (--captures_ > 0) return;
  for (Block* block : deferred_) mark_pending(block);
  deferred_.clear();
}

// --- More memory ---------------------------------------------------------------------------------

bool DeviceMemory::within_limit(size_t more) const {
  return static_cast<size_t>(all_.reserved.current) + more <= limit_;
}

Block* DeviceMemory::grow(Arena& arena, size_t size) {
  if (options_.collect_above > 0 && !captures_) {
    const double after = static_cast<double>(all_.reserved.current) + static_cast<double>(size);
    if (after > options_.collect_above * static_cast<double>(limit_)) {
      make_space();
      if (Block* block = find(arena, size)) return block;
    }
  }
  return expandable_ ? grow_segment(arena, size) : take_segment(arena, size);
}

DeviceMemory::Growth DeviceMemory::find_growth(Arena& arena, size_t size) {
  const size_t chunk = chunk_of(arena);
  Growth best;
  for (Block* hole : arena.holes) {
    const size_t below = is_free(hole->before) ? hole->before->size : 0;
    const size_t above = is_free(hole->after) ? hole->after->size : 0;
    size_t bytes = 0;
    if (below + hole->size >= size) {
      bytes = round_up(size - below, chunk);
    } else if (below + hole->size + above >= size) {
      bytes = hole->size;
    } else {
      continue;
    }
    if (!best.hole || bytes < best.bytes) best = {hole, bytes};
  }
  if (best.hole) return best;
  // Addresses cost nothing: twice the device's memory leaves addresses for holes.
  const size_t range = round_up(std::max(2 * driver_->capacity(), size), large_chunk);
  char* data = driver_->reserve(range);
  if (!data) return {};
  Block* hole = new_segment(arena, data, range)->first;
  hole->state = BlockState::hole;
  arena.holes.insert(hole);
  return {hole, round_up(size, chunk)};
}

Block* DeviceMemory::grow_segment(Arena& arena, size_t size) {
  const size_t chunk = chunk_of(arena);
  for (int attempt = 0; attempt < 2; ++attempt) {
    Growth growth = find_growth(arena, size);
    if (!growth.hole) return nullptr;
    if (attempt == 0) {
      move_chunks(size, growth);
      growth = find_growth(arena, size);
    }
    if (within_limit(growth.bytes) && driver_->map(growth.hole->data, growth.bytes, chunk)) {
      taken_ += static_cast<int64_t>(growth.bytes / chunk);
      count_reserved(arena.small, static_cast<int64_t>(growth.bytes));
      if (history_size_) {
        note(MemoryEvent::map, growth.hole->data, growth.bytes, arena.stream, nullptr);
      }
      arena.holes.erase(growth.hole);
      if (growth.bytes < growth.hole->size) arena.holes.insert(cut(growth.hole, growth.bytes));
      give_back(growth.hole);
      return find(arena, size);
    }
    if (attempt == 0) make_space();
  }
  return nullptr;
}

// Takes free chunks away where growing would leave the device with much more memory in reserve than
// has ever been in use: they are wanted elsewhere. Costs a wait for the device, while growing.
void DeviceMemory::move_chunks(size_t size, const Growth& growth) {
  const int64_t earned = all_.blocks.added / allocations_per_move + moves_at_once;
  moves_ = std::max(moves_, earned - moves_at_once);
  if (captures_ || moves_ >= earned) return;
  const auto active = static_cast<size_t>(waiting_bytes_.current + all_.bytes.current);
  const auto most = static_cast<double>(std::max(high_water_, active + size));
  const double enough = most * (1 + spare_part) + spare_bytes;
  if (static_cast<double>(all_.reserved.current) + static_cast<double>(growth.bytes) <= enough)
    return;
  std::vector<Block*> spare;
  for (auto& [id, pool] : pools_) {
    if (pool.users > 0) continue;
    for (auto& [key, arena] : pool.arenas) {
      for (Block* block : arena->free) {
        if (block->size >= chunk_of(*arena) && block != growth.hole->before &&
            block != growth.hole->after)
          spare.push_back(block);
      }
    }
  }
  if (spare.empty()) return;
  ++moves_;
  std::sort(spare.begin(), spare.end(), [](Block* a, Block* b) { return BySize()(b, a); });
  driver_->synchronize();
  ++waits_;
  size_t moved = 0;
  for (Block* block : spare) {
    if (moved >= growth.bytes) break;
    moved += release_chunks(block);
  }
}

Block* DeviceMemory::take_segment(Arena& arena, size_t size) {
  const size_t exact = round_up(size, small_chunk);
  const size_t wanted = arena.small ? small_chunk : std::max(large_segment, exact);
  size_t got = wanted;
  char* data = within_limit(wanted) ? driver_->take(wanted) : nullptr;
  if (!data) {
    make_space();
    data = within_limit(wanted) ? driver_->take(wanted) : nullptr;
    if (!data && wanted > exact) {  // nothing to spare: no more than what is needed
      got = exact;
      data = within_limit(exact) ? driver_->take(exact) : nullptr;
    }
  }
  if (!data) return nullptr;
  ++taken_;
  count_reserved(arena.small, static_cast<int64_t>(got));
  return new_segment(arena, data, got)->first;
}

// --- Less memory ---------------------------------------------------------------------------------

// Gives the chunks, or the segment, that a free block covers back to the device; returns their
// bytes. The device must have been waited for.
size_t DeviceMemory::release_chunks(Block* block) {
  Segment* segment = block->segment;
  Arena& arena = *segment->arena;
  if (!expandable_ || !options_.cached) {
    if (block->before || block->after) return 0;
    const size_t bytes = segment->size;
    arena.free.erase(block);
    driver_->give_back(segment->data, bytes);
    ++given_back_;
    count_reserved(arena.small, -static_cast<int64_t>(bytes));
    (arena.small ? small_ : large_).segments.remove(1);
    all_.segments.remove(1);
    by_address_.erase(block->data);
    segments_.erase(segment);
    delete block;
    delete segment;
    return bytes;
  }
  const size_t chunk = chunk_of(arena);
  const auto begin = static_cast<size_t>(block->data - segment->data);
  const size_t first = round_up(begin, chunk), last = (begin + block->size) / chunk * chunk;
  if (first >= last) return 0;
  arena.free.erase(block);
  if (first > begin) {
    Block* rest = cut(block, first - begin);
    arena.free.insert(block);
    block = rest;
  }
  if (block->size > last - first) arena.free.insert(cut(block, last - first));
  driver_->unmap(block->data, last - first, chunk);
  if (history_size_) note(MemoryEvent::unmap, block->data, last - first, arena.stream, nullptr);
  given_back_ += static_cast<int64_t>((last - first) / chunk);
  count_reserved(arena.small, -static_cast<int64_t>(last - first));
  block->state = BlockState::hole;
  if (is_hole(block->after)) {
    arena.holes.erase(block->after);
    join(block, block->after);
  }
  if (is_hole(block->before)) {
    join(block->before, block);
  } else {
    arena.holes.insert(block);
  }
  return last - first;
}

size_t DeviceMemory::release_free(Arena& arena) {
  empty_bins(arena);
  const std::vector<Block*> blocks(arena.free.begin(), arena.free.end());
  size_t released = 0;
  for (Block* block : blocks) released += release_chunks(block);
  return released;
}

size_t DeviceMemory::release_all() {
  driver_->synchronize();
  ++waits_;
  size_t released = 0;
  for (auto& [id, pool] : pools_) {
    if (pool.users > 0) continue;
    for (auto& [key, arena] : pool.arenas) released += release_free(*arena);
  }
  return released;
}

// The last resort before an allocation fails. While work is being captured nothing can be waited
// for, and nothing is known to be over.
void DeviceMemory::make_space() {
  if (captures_) return;
  ++retries_;
  reclaim_pending(true);
  release_all();
}

void DeviceMemory::release_cached() {
  const std::lock_guard lock(mutex_);
  if (segments_.empty() || captures_) return;
  reclaim_pending(true);
  release_all();
  drop_empty_pools();
}

void DeviceMemory::set_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

size_t DeviceMemory::limit() {
  const std::lock_guard lock(mutex_);
  return limit_;
}

}  // namespace flambeau::cuda
