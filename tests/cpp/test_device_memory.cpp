// The caching allocator's host logic on a device made of nothing: addresses are numbers, memory is
// a count, streams finish when the test says so. FLAMBEAU_ALLOCATOR_OPERATIONS sets how many random
// operations are tried (10 million for a full run).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/device_memory.h"

namespace flambeau::cuda {
namespace {

constexpr size_t mebibyte = size_t{1} << 20;

// Keeps books of all that it hands out, and refuses what a driver would refuse.
class FakeDriver final : public MemoryDriver {
 public:
  struct Books {
    size_t held = 0;
    std::map<uintptr_t, size_t> allocations, ranges;
    std::set<uintptr_t> chunks;  // of 2 MiB, mapped
    std::set<uintptr_t> marks;   // not dropped yet
    std::set<uintptr_t> passed;
    int64_t calls = 0, waits = 0;
  };

  FakeDriver(Books& books, size_t capacity, bool virtual_memory)
      : books_(books), capacity_(capacity), virtual_(virtual_memory) {}

  size_t capacity() override { return capacity_; }
  bool has_virtual_memory() override { return virtual_; }

  char* take(size_t bytes) override {
    ++books_.calls;
    if (books_.held + bytes > capacity_) return nullptr;
    books_.held += bytes;
    const uintptr_t at = next(bytes);
    books_.allocations[at] = bytes;
    return reinterpret_cast<char*>(at);
  }
  void give_back(char* data, size_t bytes) override {
    ++books_.calls;
    const auto found = books_.allocations.find(reinterpret_cast<uintptr_t>(data));
    CHECK(found != books_.allocations.end() && found->second == bytes, RuntimeError,
          "no such chunk");
    books_.allocations.erase(found);
    books_.held -= bytes;
  }
  char* reserve(size_t bytes) override {
    const uintptr_t at = next(bytes);
    books_.ranges[at] = bytes;
    return reinterpret_cast<char*>(at);
  }
  void unreserve(char* at, size_t bytes) override {
    const auto begin = reinterpret_cast<uintptr_t>(at);
    CHECK(books_.ranges.at(begin) == bytes, RuntimeError, "no such range");
    const auto mapped = books_.chunks.lower_bound(begin);
    CHECK(mapped == books_.chunks.end() || *mapped >= begin + bytes, RuntimeError, "still mapped");
    books_.ranges.erase(begin);
  }
  bool map(char* at, size_t bytes, size_t chunk) override {
    ++books_.calls;
    CHECK(bytes > 0 && bytes % chunk == 0 && chunk % granule == 0, RuntimeError, "no whole chunks");
    if (books_.held + bytes > capacity_) return false;
    books_.held += bytes;
    const auto begin = reinterpret_cast<uintptr_t>(at);
    const auto range = std::prev(books_.ranges.upper_bound(begin));
    CHECK(begin + bytes <= range->first + range->second, RuntimeError, "beyond the range");
    CHECK((begin - range->first) % chunk == 0, RuntimeError, "a chunk in the wrong place");
    for (uintptr_t a = begin; a < begin + bytes; a += granule) {
      CHECK(books_.chunks.insert(a).second, RuntimeError, "mapped twice");
    }
    return true;
  }
  void unmap(char* at, size_t bytes, size_t chunk) override {
    ++books_.calls;
    CHECK(bytes > 0 && bytes % chunk == 0, RuntimeError, "no whole chunks");
    const auto begin = reinterpret_cast<uintptr_t>(at);
    for (uintptr_t a = begin; a < begin + bytes; a += granule) {
      CHECK(books_.chunks.erase(a) == 1, RuntimeError, "unmapped what was not mapped");
    }
    books_.held -= bytes;
  }
  Mark set_mark(StreamHandle) override {
    const uintptr_t mark = ++marks_made_;
    books_.marks.insert(mark);
    return reinterpret_cast<Mark>(mark);
  }
  bool passed(Mark mark) override {
    return books_.passed.count(reinterpret_cast<uintptr_t>(mark)) > 0;
  }
  void wait_for(Mark mark) override { books_.passed.insert(reinterpret_cast<uintptr_t>(mark)); }
  void drop(Mark mark) override {
    const auto key = reinterpret_cast<uintptr_t>(mark);
    CHECK(books_.marks.erase(key) == 1, RuntimeError, "a mark was dropped twice");
    CHECK(books_.passed.erase(key) == 1, RuntimeError, "a mark was dropped before it passed");
  }
  void synchronize() override {
    ++books_.waits;
    books_.passed = books_.marks;
  }
  void memory_info(size_t& free, size_t& total) override {
    free = capacity_ - books_.held;
    total = capacity_;
  }

 private:
  static constexpr size_t granule = 2 * mebibyte;
  uintptr_t next(size_t bytes) {
    const uintptr_t at = addresses_;
    addresses_ += (bytes / granule + 2) * granule;
    return at;
  }

  Books& books_;
  size_t capacity_;
  bool virtual_;
  uintptr_t addresses_ = 64 * granule, marks_made_ = 0;
};

struct Device {
  FakeDriver::Books books;
  DeviceMemory memory;
  explicit Device(size_t capacity = 1024 * mebibyte, bool virtual_memory = true,
                  MemoryOptions options = {})
      : memory(0, std::make_unique<FakeDriver>(books, capacity, virtual_memory), options) {}

  int64_t number(const std::string& name) {
    for (const auto& [key, value] : memory.statistics()) {
      if (key == name) return value;
    }
    ADD_FAILURE() << "there is no number " << name;
    return -1;
  }
};

StreamHandle stream(uintptr_t id) { return reinterpret_cast<StreamHandle>(id); }

TEST(DeviceMemory, ReusesWhatWasFreedInTheSameStream) {
  Device device;
  char* a = device.memory.allocate(1000, stream(1));
  device.memory.free(a);
  EXPECT_EQ(device.memory.allocate(900, stream(1)), a);
  char* other = device.memory.allocate(900, stream(2));
  EXPECT_NE(other, a);
  EXPECT_EQ(device.number("allocated_bytes.all.current"), 2048);
  EXPECT_EQ(device.number("requested_bytes.all.current"), 1800);
  EXPECT_EQ(device.number("allocated_bytes.all.peak"), 2048);
}

TEST(DeviceMemory, JoinsNeighboursAndGrowsInPlace) {
  Device device;
  char* a = device.memory.allocate(8 * mebibyte, stream(0));
  char* b = device.memory.allocate(8 * mebibyte, stream(0));
  EXPECT_EQ(b, a + 8 * mebibyte);
  device.memory.free(a);
  device.memory.free(b);
  EXPECT_EQ(device.memory.allocate(100 * mebibyte, stream(0)), a) << "the end moved, not the start";
  EXPECT_EQ(device.number("reserved_bytes.all.current"), 112 * mebibyte);
  device.memory.check_invariants();
}

TEST(DeviceMemory, DoesNotAskTheDriverForWhatItHasDoneBefore) {
  Device device;
  int64_t after_first = 0;
  for (int iteration = 0; iteration < 10; ++iteration) {
    std::vector<char*> held;
    for (size_t i = 1; i < 40; ++i) {
      held.push_back(device.memory.allocate(i * i * 10'000, stream(0)));
    }
    for (char* data : held) device.memory.free(data);
    if (iteration == 0) after_first = device.books.calls;
  }
  EXPECT_EQ(device.books.calls, after_first);
}

TEST(DeviceMemory, WaitsForTheOtherStreamsOfABlock) {
  Device device;
  char* a = device.memory.allocate(3 * mebibyte, stream(1));
  device.memory.record_stream(a, stream(2));
  device.memory.free(a);
  EXPECT_EQ(device.number("active_bytes.all.current"), 3 * mebibyte);
  char* b = device.memory.allocate(3 * mebibyte, stream(1));
  EXPECT_NE(b, a);
  device.books.passed = device.books.marks;
  EXPECT_EQ(device.memory.allocate(3 * mebibyte, stream(1)), a);
  EXPECT_TRUE(device.books.marks.empty());
}

TEST(DeviceMemory, GivesBackBeforeItFailsAndSaysWhoHoldsMemory) {
  for (const bool virtual_memory : {true, false}) {
    Device device(256 * mebibyte, virtual_memory);
    char* a = device.memory.allocate(200 * mebibyte, stream(1));
    device.memory.free(a);
    char* b = device.memory.allocate(200 * mebibyte, stream(2), {}, "linear");
    EXPECT_EQ(device.number("num_alloc_retries"), virtual_memory ? 0 : 1) << "chunks just move";
    try {
      device.memory.allocate(100 * mebibyte, stream(2));
      FAIL() << "there is no such memory";
    } catch (const OutOfMemoryError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("Tried to allocate 100.00 MiB"), text.npos) << text;
      EXPECT_NE(text.find("linear 200.00 MiB (1)"), text.npos) << text;
    }
    EXPECT_EQ(device.number("num_ooms"), 1);
    device.memory.free(b);
    EXPECT_TRUE(device.memory.allocate(100 * mebibyte, stream(2)));
    device.memory.check_invariants();
  }
}

TEST(DeviceMemory, ScatteredFreeMemoryServesALargeRequest) {
  Device device(256 * mebibyte);
  std::vector<char*> held;
  for (int i = 0; i < 8; ++i) held.push_back(device.memory.allocate(32 * mebibyte, stream(0)));
  for (int i = 0; i < 8; i += 2) device.memory.free(held[i]);
  EXPECT_TRUE(device.memory.allocate(128 * mebibyte, stream(0)));
  device.memory.check_invariants();
  EXPECT_EQ(device.books.held, 256 * mebibyte);
}

TEST(DeviceMemory, KeepsToItsLimit) {
  Device device;
  device.memory.set_limit(100 * mebibyte);
  EXPECT_THROW(device.memory.allocate(101 * mebibyte, stream(0)), OutOfMemoryError);
  EXPECT_TRUE(device.memory.allocate(90 * mebibyte, stream(0)));
  EXPECT_THROW(device.memory.allocate(20 * mebibyte, stream(0)), OutOfMemoryError);
}

TEST(DeviceMemory, KeepsThePoolsOfGraphsApart) {
  Device device;
  const PoolId pool{1, 0};
  char* outside = device.memory.allocate(4 * mebibyte, stream(1));
  device.memory.free(outside);
  device.memory.retain_pool(pool);
  device.memory.begin_capture();
  char* inside = device.memory.allocate(4 * mebibyte, stream(1), pool);
  EXPECT_NE(inside, outside);
  device.memory.free(inside);
  EXPECT_EQ(device.memory.allocate(4 * mebibyte, stream(1), pool), inside);
  char* shared = device.memory.allocate(4 * mebibyte, stream(1), pool);
  device.memory.record_stream(shared, stream(2));
  device.memory.free(shared);
  EXPECT_TRUE(device.books.marks.empty()) << "no marks while a graph is captured";
  device.memory.free(inside);
  const int64_t waits = device.books.waits;
  device.memory.release_cached();
  EXPECT_EQ(device.books.waits, waits) << "nor waiting";
  device.memory.end_capture();
  EXPECT_EQ(device.books.marks.size(), 1u);
  device.memory.release_cached();
  EXPECT_EQ(device.books.held, 16 * mebibyte) << "the graph's memory stays";
  device.memory.release_pool(pool);
  device.memory.release_cached();
  EXPECT_EQ(device.books.held, 0u);
  EXPECT_EQ(device.books.ranges.size(), 1u) << "the pool's addresses are gone";
  device.memory.check_invariants();
}

TEST(DeviceMemory, TakesOptionsFromText) {
  const MemoryOptions options = parse_memory_options(
      "expandable_segments:False,garbage_collection_threshold:0.5,"
      "roundup_power2_divisions:[256:1,512:2],max_split_size_mb:64");
  EXPECT_FALSE(options.expandable);
  EXPECT_EQ(options.collect_above, 0.5);
  EXPECT_EQ(options.max_split, 64 * mebibyte);
  EXPECT_THROW(parse_memory_options("no_such_key:1"), ValueError);
  EXPECT_THROW(parse_memory_options("expandable_segments:maybe"), ValueError);
  EXPECT_TRUE(parse_memory_options(nullptr).expandable);
}

TEST(DeviceMemory, WithoutACacheEveryBlockIsThePieceThatWasAsked) {
  MemoryOptions options;
  options.cached = false;
  Device device(1024 * mebibyte, true, options);
  char* a = device.memory.allocate(1001, stream(0));
  EXPECT_EQ(device.books.held, 1004u) << "whole words";
  EXPECT_EQ(device.number("allocated_bytes.all.current"), 1004);
  device.memory.free(a);
  EXPECT_EQ(device.books.held, 0u);
  EXPECT_EQ(device.number("allocated_bytes.all.current"), 0);
}

TEST(DeviceMemory, ShowsItsBlocksAndItsHistory) {
  Device device;
  device.memory.record_history(3);
  char* a = device.memory.allocate(1000, stream(0), {}, "add");
  char* b = device.memory.allocate(1000, stream(0), {}, "mul");
  device.memory.free(a);
  const auto segments = device.memory.snapshot();
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].total_size, 2 * mebibyte);
  EXPECT_EQ(segments[0].allocated_size, 1024u);
  ASSERT_EQ(segments[0].blocks.size(), 3u);
  EXPECT_STREQ(segments[0].blocks[0].state, "inactive");
  EXPECT_EQ(segments[0].blocks[1].address, reinterpret_cast<uint64_t>(b));
  EXPECT_STREQ(segments[0].blocks[1].op, "mul");
  const auto events = device.memory.history();
  ASSERT_EQ(events.size(), 3u) << "the oldest, a map, was overwritten";
  EXPECT_EQ(events[0].kind, MemoryEvent::alloc);
  EXPECT_EQ(events[2].kind, MemoryEvent::free);
}

// --- Random operations ---------------------------------------------------------------------------

// Random allocations, frees, records, waits and captures; what is in use must never overlap.
class Turmoil {
 public:
  Turmoil(Device& device, unsigned seed) : device_(device), random_(seed) {}

  void run(int64_t operations) {
    for (int64_t i = 0; i < operations; ++i) {
      step();
      if (i % 20'000 == 0) device_.memory.check_invariants();
    }
    while (!held_.empty()) drop(0);
    if (capturing_) device_.memory.end_capture();
    for (const PoolId& pool : {PoolId{1, 0}, PoolId{2, 0}}) device_.memory.release_pool(pool);
    device_.memory.release_cached();
    device_.memory.check_invariants();
    EXPECT_EQ(device_.books.held, 0u) << "everything is given back";
    EXPECT_TRUE(device_.books.marks.empty());
  }

 private:
  size_t draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  void step() {
    const size_t kind = draw(1000);
    if (kind < 480) {
      allocate();
    } else if (kind < 950) {
      if (!held_.empty()) drop(draw(held_.size()));
    } else if (kind < 980) {
      if (!held_.empty()) {
        device_.memory.record_stream(held_[draw(held_.size())].data, stream(draw(4)));
      }
    } else if (kind < 990) {
      device_.books.passed = device_.books.marks;
    } else if (kind < 993) {
      capturing_ ? device_.memory.end_capture() : device_.memory.begin_capture();
      capturing_ = !capturing_;
    } else if (kind < 994) {
      device_.memory.release_cached();
    } else if (kind < 997) {
      const PoolId pool{1 + draw(2), 0};
      if (device_.memory.pool_users(pool) == 0) device_.memory.retain_pool(pool);
    } else {
      device_.memory.set_limit((200 + draw(400)) * mebibyte);
    }
  }

  void allocate() {
    const size_t magnitude = draw(100);
    const size_t bytes = magnitude < 60   ? draw(40'000)
                         : magnitude < 85 ? draw(2 * mebibyte)
                         : magnitude < 99 ? draw(30 * mebibyte)
                                          : draw(150 * mebibyte);
    PoolId pool{draw(8) ? 0 : 1 + draw(2), 0};
    if (pool.capture && device_.memory.pool_users(pool) == 0) pool = {};
    try {
      char* data = device_.memory.allocate(bytes, stream(draw(4)), pool, "turmoil");
      const auto begin = reinterpret_cast<uintptr_t>(data);
      const auto above = used_.lower_bound(begin);
      ASSERT_TRUE(above == used_.end() || above->first >= begin + bytes);
      ASSERT_TRUE(above == used_.begin() || std::prev(above)->second <= begin);
      used_[begin] = begin + std::max<size_t>(bytes, 1);
      held_.push_back({data});
    } catch (const OutOfMemoryError&) {
      // Under a limit this happens. What was held may as well go.
      for (int i = 0; i < 20 && !held_.empty(); ++i) drop(draw(held_.size()));
    }
  }

  void drop(size_t index) {
    char* data = held_[index].data;
    held_[index] = held_.back();
    held_.pop_back();
    used_.erase(reinterpret_cast<uintptr_t>(data));
    device_.memory.free(data);
  }

  struct Held {
    char* data;
  };
  Device& device_;
  std::mt19937_64 random_;
  std::vector<Held> held_;
  std::map<uintptr_t, uintptr_t> used_;
  bool capturing_ = false;
};

int64_t operations() {
  const char* text = std::getenv("FLAMBEAU_ALLOCATOR_OPERATIONS");
  return text ? std::atoll(text) : 200'000;
}

TEST(DeviceMemory, RandomOperationsKeepItsInvariants) {
  Device device(600 * mebibyte);
  Turmoil(device, 1).run(operations());
}

TEST(DeviceMemory, RandomOperationsOnFixedSegmentsKeepItsInvariants) {
  Device device(600 * mebibyte, false);
  Turmoil(device, 2).run(operations() / 4);
}

TEST(DeviceMemory, RandomOperationsWithCollectionKeepItsInvariants) {
  MemoryOptions options;
  options.collect_above = 0.6;
  Device device(600 * mebibyte, true, options);
  Turmoil(device, 3).run(operations() / 4);
}

// Training on sequences of varying length: a model's forward keeps activations, backward frees
// them in the reverse order, and no two steps have the same sizes.
TEST(DeviceMemory, VaryingLengthsLeaveLittleMemoryUnused) {
  Device device(size_t{64} << 30);
  std::mt19937 random(4);
  std::vector<char*> parameters;
  for (int i = 0; i < 3 * 48; ++i) {
    parameters.push_back(device.memory.allocate(4 * mebibyte + 4096 * (i % 7), stream(0)));
  }
  int64_t waits_at_half = 0;
  for (int step = 0; step < 2000; ++step) {
    if (step == 1000) waits_at_half = device.number("num_sync_all_streams");
    const size_t tokens = 16 * (32 + random() % 993);  // 16 sequences of 32 to 1024
    std::vector<char*> kept;
    for (int layer = 0; layer < 12; ++layer) {
      for (const size_t width : {768, 2304, 768, 768, 3072, 3072, 768}) {
        char* passing = device.memory.allocate(tokens * width * 4, stream(0));
        kept.push_back(device.memory.allocate(tokens * width * 4, stream(0)));
        device.memory.free(passing);
      }
    }
    while (!kept.empty()) {
      char* gradient = device.memory.allocate(tokens * 3072 * 4, stream(0));
      device.memory.free(kept.back());
      kept.pop_back();
      device.memory.free(gradient);
    }
  }
  const double used = static_cast<double>(device.number("allocated_bytes.all.peak"));
  const double reserved = static_cast<double>(device.number("reserved_bytes.all.peak"));
  EXPECT_LE(reserved, 1.15 * used);
  const int64_t later_waits = device.number("num_sync_all_streams") - waits_at_half;
  EXPECT_LE(later_waits, 20) << "a wait is rare once the largest step has been seen";
}

// A step that takes and frees blocks of 1 to 800 MiB in a wild order, the same for the same seed.
void take_a_step(Device& device, int seed) {
  std::mt19937 random(seed);
  std::vector<char*> kept;
  const auto take = [&](size_t times) {
    return device.memory.allocate(times * (1 + random() % 400) * mebibyte, stream(0));
  };
  const auto drop = [&] {
    const size_t i = random() % kept.size();
    device.memory.free(kept[i]);
    kept.erase(kept.begin() + static_cast<int64_t>(i));
  };
  for (int i = 0; i < 40; ++i) {
    char* workspace = random() % 3 ? nullptr : take(2);
    kept.push_back(take(1));
    device.memory.free(workspace);
    if (random() % 3 == 0) drop();
  }
  while (!kept.empty()) {
    char* gradient = take(1);
    if (random() % 3 == 0) kept.push_back(take(1));
    device.memory.free(gradient);
    for (int i = 0; i < 2 && !kept.empty(); ++i) drop();
  }
}

// Blocks that cannot lie tight must not be moved to and fro for ever.
TEST(DeviceMemory, StepsThatAreAlikeSoonAskNothingOfTheDriver) {
  for (int seed = 0; seed < 100; ++seed) {
    Device device(size_t{64} << 30);
    for (int step = 0; step < 20; ++step) take_a_step(device, seed);
    const int64_t calls = device.books.calls;
    for (int step = 0; step < 20; ++step) take_a_step(device, seed);
    EXPECT_EQ(device.books.calls, calls) << "seed " << seed;
    const double used = static_cast<double>(device.number("allocated_bytes.all.peak"));
    const double reserved = static_cast<double>(device.number("reserved_bytes.all.peak"));
    EXPECT_LE(reserved, 1.35 * used) << "seed " << seed;
  }
}

}  // namespace
}  // namespace flambeau::cuda
