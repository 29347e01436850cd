// What the caching allocator tells about itself: numbers, a picture of all blocks, the sentence of
// an allocation that fails, and, for tests, whether everything hangs together.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>

#include "flambeau/base/check.h"
#include "flambeau/base/current_op.h"
#include "flambeau/cuda/memory/device_memory.h"

namespace flambeau::cuda {

std::string readable_bytes(size_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB"};
  int power = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && power < 3; ++power) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, power ? "%.2f %s" : "%.0f %s", value, units[power]);
  return text;
}

// --- Options -------------------------------------------------------------------------------------

MemoryOptions parse_memory_options(const char* text) {
  // What PyTorch's allocator can be told besides, and ours does by itself or has no use for.
  constexpr std::string_view known[] = {"backend",
                                        "roundup_power2_divisions",
                                        "release_lock_on_cudamalloc",
                                        "release_lock_on_hipmalloc",
                                        "pinned_use_cuda_host_register",
                                        "pinned_num_register_threads",
                                        "pinned_use_background_threads",
                                        "max_non_split_rounding_mb",
                                        "graph_capture_record_stream_reuse",
                                        "per_process_memory_fraction"};
  MemoryOptions options;
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    // Values may be lists in brackets, whose commas separate nothing.
    size_t end = 0;
    for (int depth = 0; end < rest.size() && (depth > 0 || rest[end] != ','); ++end) {
      depth += rest[end] == '[' ? 1 : rest[end] == ']' ? -1 : 0;
    }
    const std::string_view entry = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    const size_t colon = entry.find(':');
    if (entry.empty()) continue;
    CHECK(colon != entry.npos, ValueError,
          "CUDA allocator config: expected key:value, but found '{}'", entry);
    const std::string_view key = entry.substr(0, colon);
    const std::string value(entry.substr(colon + 1));
    if (key == "expandable_segments") {
      CHECK(value == "True" || value == "False", ValueError,
            "CUDA allocator config: expandable_segments must be True or False, not '{}'", value);
      options.expandable = value == "True";
    } else if (key == "max_split_size_mb") {
      const double megabytes = std::atof(value.c_str());
      CHECK(megabytes > 20, ValueError,
            "CUDA allocator config: max_split_size_mb too small, must be > 20, got {}", value);
      options.max_split = static_cast<size_t>(megabytes) << 20;
    } else if (key == "garbage_collection_threshold") {
      options.collect_above = std::atof(value.c_str());
      CHECK(options.collect_above > 0 && options.collect_above < 1, ValueError,
            "CUDA allocator config: garbage_collection_threshold must be between 0 and 1, got {}",
            value);
    } else {
      CHECK(std::find(std::begin(known), std::end(known), key) != std::end(known), ValueError,
            "Unrecognized key '{}' in CUDA allocator config.", key);
    }
  }
  return options;
}

// --- Numbers -------------------------------------------------------------------------------------

void DeviceMemory::count_used(Block& block) {
  const auto size = static_cast<int64_t>(block.size);
  const auto requested = static_cast<int64_t>(block.requested);
  for (Count* count : {&all_, block.segment->arena->small ? &small_ : &large_}) {
    count->blocks.add(1);
    count->bytes.add(size);
    count->requested.add(requested);
  }
  const auto active = static_cast<size_t>(all_.bytes.current + waiting_bytes_.current);
  high_water_ = std::max(high_water_, active);
}

void DeviceMemory::count_unused(Block& block) {
  const auto size = static_cast<int64_t>(block.size);
  const auto requested = static_cast<int64_t>(block.requested);
  for (Count* count : {&all_, block.segment->arena->small ? &small_ : &large_}) {
    count->blocks.remove(1);
    count->bytes.remove(size);
    count->requested.remove(requested);
  }
}

void DeviceMemory::count_reserved(bool small, int64_t bytes) {
  for (Count* count : {&all_, small ? &small_ : &large_}) {
    if (bytes > 0) {
      count->reserved.add(bytes);
    } else {
      count->reserved.remove(-bytes);
    }
  }
}

MemoryNumbers DeviceMemory::statistics() {
  const std::lock_guard lock(mutex_);
  MemoryNumbers numbers;
  const auto put = [&](const std::string& name, const Counter& counter) {
    numbers.emplace_back(name + ".current", counter.current);
    numbers.emplace_back(name + ".peak", counter.peak);
    numbers.emplace_back(name + ".allocated", counter.added);
    numbers.emplace_back(name + ".freed", counter.removed);
  };
  const std::pair<const char*, const Count*> pools[] = {
      {"all", &all_}, {"small_pool", &small_}, {"large_pool", &large_}};
  for (const auto& [pool, count] : pools) {
    const std::string name = pool;
    put("allocation." + name, count->blocks);
    put("allocated_bytes." + name, count->bytes);
    put("requested_bytes." + name, count->requested);
    put("segment." + name, count->segments);
    put("reserved_bytes." + name, count->reserved);
    // Blocks that wait for other streams are counted with all of them only.
    Counter active = count->blocks, active_bytes = count->bytes, inactive, inactive_bytes;
    if (count == &all_) {
      active.current += waiting_.current;
      active_bytes.current += waiting_bytes_.current;
      active.peak = std::max(active.peak, active.current);
      active_bytes.peak = std::max(active_bytes.peak, active_bytes.current);
    }
    put("active." + name, active);
    put("active_bytes." + name, active_bytes);
    for (const auto& [id, held] : pools_) {
      for (const auto& [key, arena] : held.arenas) {
        if (count == &all_ || arena->small == (count == &small_)) {
          inactive.add(static_cast<int64_t>(arena->free.size()) + arena->binned);
        }
      }
    }
    inactive_bytes.add(count->reserved.current - active_bytes.current);
    put("inactive_split." + name, inactive);
    put("inactive_split_bytes." + name, inactive_bytes);
  }
  const std::pair<const char*, int64_t> single[] = {{"num_alloc_retries", retries_},
                                                    {"num_ooms", out_of_memory_},
                                                    {"num_sync_all_streams", waits_},
                                                    {"num_device_alloc", taken_},
                                                    {"num_device_free", given_back_}};
  for (const auto& [name, value] : single) numbers.emplace_back(name, value);
  const bool limited = options_.max_split != SIZE_MAX;
  numbers.emplace_back("max_split_size", limited ? static_cast<int64_t>(options_.max_split) : -1);
  put("oversize_allocations", {});
  put("oversize_segments", {});
  return numbers;
}

void DeviceMemory::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (Count* count : {&all_, &small_, &large_}) {
    for (Counter* counter :
         {&count->blocks, &count->bytes, &count->requested, &count->segments, &count->reserved})
      counter->peak = counter->current;
  }
}

void DeviceMemory::reset_accumulated() {
  const std::lock_guard lock(mutex_);
  for (Count* count : {&all_, &small_, &large_}) {
    for (Counter* counter :
         {&count->blocks, &count->bytes, &count->requested, &count->segments, &count->reserved})
      counter->added = counter->removed = 0;
  }
  moves_ = 0;
  retries_ = out_of_memory_ = waits_ = taken_ = given_back_ = 0;
}

// --- Pictures ------------------------------------------------------------------------------------

std::vector<SegmentInfo> DeviceMemory::snapshot() {
  const std::lock_guard lock(mutex_);
  std::vector<SegmentInfo> result;
  for (const Segment* segment : segments_) {
    SegmentInfo info;
    info.device = device_;
    info.address = reinterpret_cast<uint64_t>(segment->data);
    info.stream = reinterpret_cast<uint64_t>(segment->arena->stream);
    info.small = segment->arena->small;
    info.expandable = expandable_ && options_.cached;
    info.pool = segment->arena->pool->id;
    for (const Block* block = segment->first; block; block = block->after) {
      if (block->state == BlockState::hole) continue;
      const bool used = block->state == BlockState::used;
      const char* state = used                                  ? "active_allocated"
                          : block->state == BlockState::pending ? "active_pending_free"
                                                                : "inactive";
      info.blocks.push_back({reinterpret_cast<uint64_t>(block->data), block->size,
                             used ? block->requested : 0, state, used ? block->op : nullptr});
      info.total_size += block->size;
      if (used) info.allocated_size += block->size, info.requested_size += block->requested;
      if (used || block->state == BlockState::pending) info.active_size += block->size;
    }
    if (!info.blocks.empty()) result.push_back(std::move(info));
  }
  std::sort(result.begin(), result.end(),
            [](const SegmentInfo& a, const SegmentInfo& b) { return a.address < b.address; });
  return result;
}

void DeviceMemory::record_history(size_t entries) {
  const std::lock_guard lock(mutex_);
  history_size_ = entries;
  history_next_ = 0;
  history_.clear();
}

void DeviceMemory::note(MemoryEvent::Kind kind, const char* data, size_t size, StreamHandle stream,
                        const char* op) {
  using namespace std::chrono;
  const int64_t now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  const MemoryEvent event{
      kind, reinterpret_cast<uint64_t>(data), size, reinterpret_cast<uint64_t>(stream), op, now};
  if (history_.size() < history_size_) {
    history_.push_back(event);
  } else {
    history_[history_next_++ % history_size_] = event;  // the oldest is overwritten
  }
}

std::vector<MemoryEvent> DeviceMemory::history() {
  const std::lock_guard lock(mutex_);
  std::vector<MemoryEvent> result = history_;
  if (history_next_) {
    std::rotate(result.begin(),
                result.begin() + static_cast<ptrdiff_t>(history_next_ % history_size_),
                result.end());
  }
  return result;
}

// --- Out of memory -------------------------------------------------------------------------------

// Which ops the tensors that are held came from: "linear 1.50 GiB (12), relu 512.00 MiB (12)".
std::string DeviceMemory::largest_users() const {
  std::map<std::string_view, std::pair<size_t, int>> by_op;
  for (const auto& [address, block] : by_address_) {
    if (block->state != BlockState::used) continue;
    auto& [bytes, count] = by_op[op_name(block->op)];
    bytes += block->size;
    ++count;
  }
  std::vector<std::pair<std::string_view, std::pair<size_t, int>>> ranked(by_op.begin(),
                                                                          by_op.end());
  std::sort(ranked.begin(), ranked.end(),
            [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::string text;
  for (size_t i = 0; i < ranked.size() && i < 5; ++i) {
    const auto& [op, held] = ranked[i];
    text += flambeau::format("{}{} {} ({})", i ? ", " : "", op, readable_bytes(held.first),
                             held.second);
  }
  return text;
}

void DeviceMemory::fail_out_of_memory(size_t bytes) {
  ++out_of_memory_;
  size_t free = 0, total = 0, largest = 0;
  driver_->memory_info(free, total);
  for (const auto& [id, pool] : pools_) {
    for (const auto& [key, arena] : pool.arenas) {
      if (!arena->free.empty()) largest = std::max(largest, (*arena->free.rbegin())->size);
    }
  }
  const std::string allowed =
      limit_ < driver_->capacity() ? flambeau::format(" {} allowed;", readable_bytes(limit_)) : "";
  const std::string users = largest_users();
  const auto held = static_cast<size_t>(all_.reserved.current);
  const auto used = static_cast<size_t>(all_.bytes.current);
  fail<OutOfMemoryError>(
      "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is "
      "free.{} This process holds {}: {} in {} tensors, and {} reserved but unallocated, in chunks "
      "of at most {}.{}",
      readable_bytes(bytes), device_, readable_bytes(total), readable_bytes(free), allowed,
      readable_bytes(held), readable_bytes(used), all_.blocks.current,
      readable_bytes(held - std::min(held, used)), readable_bytes(largest),
      users.empty() ? "" : flambeau::format(" Most of it was asked for by: {}.", users));
}

// --- Invariants ----------------------------------------------------------------------------------

void DeviceMemory::check_invariants() {
  const std::lock_guard lock(mutex_);
  size_t reserved = 0, used = 0, pending = 0, used_blocks = 0;
  std::map<const Arena*, std::pair<size_t, size_t>> lists;  // blocks: free, holes
  std::map<const Arena*, int64_t> binned;
  for (const Segment* segment : segments_) {
    const char* at = segment->data;
    const Arena* arena = segment->arena;
    for (Block *block = segment->first, *before = nullptr; block;
         before = block, block = block->after) {
      CHECK(block->data == at && block->size > 0, RuntimeError, "blocks leave a gap");
      CHECK(block->before == before && block->segment == segment, RuntimeError, "a link is wrong");
      at += block->size;
      if (block->state != BlockState::hole) reserved += block->size;
      const bool joins = before && before->state == block->state &&
                         (block->state == BlockState::free || block->state == BlockState::hole);
      CHECK(!joins, RuntimeError, "two free neighbours were not joined");
      if (block->state == BlockState::used) {
        used += block->size;
        ++used_blocks;
        const auto found = by_address_.find(block->data);
        CHECK(found != by_address_.end() && found->second == block, RuntimeError,
              "a block in use is not known by its address");
        CHECK(block->requested <= block->size, RuntimeError, "a block is too short");
      } else if (block->state == BlockState::pending) {
        pending += block->size;
      } else if (block->state == BlockState::binned) {
        ++binned[arena];
      } else if (block->state == BlockState::free) {
        ++lists[arena].first;
        CHECK(arena->free.count(block), RuntimeError, "a free block is in no list");
      } else {
        ++lists[arena].second;
        CHECK(arena->holes.count(block), RuntimeError, "a hole is in no list");
      }
    }
    CHECK(at == segment->data + segment->size, RuntimeError, "blocks do not fill their segment");
  }
  for (const auto& [id, pool] : pools_) {
    for (const auto& [key, arena] : pool.arenas) {
      CHECK(lists[arena.get()] == std::pair(arena->free.size(), arena->holes.size()), RuntimeError,
            "a list holds blocks of no segment");
      CHECK(binned[arena.get()] == arena->binned, RuntimeError, "bins are counted wrong");
    }
  }
  CHECK(reserved == static_cast<size_t>(all_.reserved.current), RuntimeError,
        "reserved bytes are counted wrong");
  CHECK(used == static_cast<size_t>(all_.bytes.current) &&
            used_blocks == static_cast<size_t>(all_.blocks.current),
        RuntimeError, "bytes in use are counted wrong");
  CHECK(pending == static_cast<size_t>(waiting_bytes_.current), RuntimeError,
        "pending bytes are counted wrong");
}

}  // namespace flambeau::cuda
