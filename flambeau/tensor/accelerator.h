// What a device with queues and memory of its own offers beyond DeviceRuntime: streams, events,
// memory statistics, properties. Its backend derives from Accelerator; the rest of the library and
// the binding know only this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/tensor/device.h"
#include "flambeau/tensor/storage.h"

namespace flambeau {

class Generator;

// What a kernel found wrong with its data, raised when the device is next waited for. In Python an
// IndexError, and a RuntimeError too: that is what some ops raise on the CPU.
struct DeviceFault : IndexError {
  using IndexError::IndexError;
};

// A queue of work on a device. Work in one stream runs in order; id 0 is the device's default.
struct Stream {
  Device device;
  int64_t id = 0;
  void* handle = nullptr;  // the driver's
  bool operator==(const Stream&) const = default;
};

// A mark in a stream. The driver's object is made when the mark is first set, on the stream's
// device.
struct Event {
  void* handle = nullptr;
  int device = -1;
  bool timed = false;
  bool blocking = false;  // waiting for it sleeps instead of spinning
  bool shared = false;    // other processes may open it
};

// The allocator's numbers under the names that PyTorch's memory_stats gives them.
using MemoryNumbers = std::vector<std::pair<std::string, int64_t>>;

// Memory apart from all other: what a captured graph uses, or a program asked for. The default is
// everybody's.
struct PoolId {
  uint64_t capture = 0, user = 0;
  bool operator==(const PoolId&) const = default;
  bool operator<(const PoolId& other) const {
    return capture != other.capture ? capture < other.capture : user < other.user;
  }
};

// What ran on a device while that was traced.
struct DeviceSpan {
  std::string name;
  const char* kind = "";       // kernel, gpu_memcpy or gpu_memset: the words of traces
  int64_t begin = 0, end = 0;  // nanoseconds of the system's clock
  int device = 0;
  int64_t stream = 0, bytes = 0;
  // When the host asked for it, and in which thread, by the system's number; 0 if unknown.
  int64_t asked = 0;
  uint64_t thread = 0;
};

struct BlockInfo {
  uint64_t address;
  size_t size, requested_size;
  const char* state;  // PyTorch's word
  const char* op;     // that asked for it; null if unknown or free
};

struct SegmentInfo {
  int device = 0;
  uint64_t address = 0, stream = 0;
  size_t total_size = 0, allocated_size = 0, active_size = 0, requested_size = 0;
  bool small = false, expandable = false;
  PoolId pool{};
  std::vector<BlockInfo> blocks{};
};

struct MemoryEvent {
  enum Kind : int { alloc, free, map, unmap };
  Kind kind;
  uint64_t address;
  size_t size;
  uint64_t stream;
  const char* op;
  int64_t microseconds;  // since 1970
};

// Work that was captured from a stream instead of being run, to be run any number of times.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Captures what the current stream is given from now on, with memory of `pool`, by default a new
  // one. The mode is the driver's: global, thread_local or relaxed.
  virtual void begin(PoolId pool, const std::string& mode) = 0;
  virtual size_t end() = 0;  // the number of things to do that were captured
  virtual void instantiate() = 0;
  virtual void replay() = 0;  // in the current stream
  virtual void reset() = 0;   // forgets the work and lets its memory go
  virtual PoolId pool() = 0;
  virtual void keep_for_dump() = 0;
  virtual void dump(const std::string& path) = 0;
  virtual void* raw(bool executable) = 0;
  virtual void register_generator(Generator& generator) = 0;
};

struct DeviceProperties {
  std::string name, uuid;
  int major = 0, minor = 0;
  size_t total_memory = 0, l2_cache_size = 0, shared_memory_per_block = 0;
  int multi_processor_count = 0, warp_size = 0;
  int max_threads_per_multi_processor = 0, regs_per_multiprocessor = 0;
  bool is_integrated = false, is_multi_gpu_board = false;
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;

  // Each thread has a current stream on each device, at first the default one.
  virtual Stream current_stream(int device) = 0;
  virtual Stream default_stream(int device) = 0;
  virtual void set_current_stream(const Stream& stream) = 0;
  virtual Stream new_stream(int device, int priority) = 0;        // from a pool: never destroyed
  virtual Stream stream_of_handle(int device, void* handle) = 0;  // somebody else's
  virtual Stream stream_of_id(int device, int64_t id) = 0;        // one of the above
  virtual bool stream_done(const Stream& stream) = 0;
  virtual void wait_for_stream(const Stream& stream) = 0;

  virtual void record_event(Event& event, const Stream& stream) = 0;
  virtual void stream_waits(const Stream& stream, const Event& event) = 0;
  virtual bool event_done(const Event& event) = 0;
  virtual void wait_for_event(const Event& event) = 0;
  virtual double elapsed_ms(const Event& start, const Event& end) = 0;
  virtual void destroy_event(Event& event) noexcept = 0;
  // The name by which another process opens a shared event, made on the device if need be.
  virtual std::string event_name(Event& event, int device) = 0;
  virtual Event open_event(int device, const std::string& name) = 0;

  virtual MemoryNumbers memory_statistics(int device) = 0;
  virtual void reset_peaks(int device) = 0;
  virtual void reset_accumulated(int device) = 0;
  virtual std::vector<SegmentInfo> memory_snapshot(int device) = 0;
  virtual void record_history(int device, size_t entries) = 0;  // 0 ends it
  virtual std::vector<MemoryEvent> memory_history(int device) = 0;
  virtual void set_memory_limit(int device, size_t bytes) = 0;
  virtual size_t memory_limit(int device) = 0;
  // Says that `stream` uses the block at `data`, so that it is not reused before the stream is
  // done.
  virtual void record_stream(void* data, const Stream& stream) = 0;
  virtual void memory_info(int device, size_t& free, size_t& total) = 0;

  // Page-locked memory of the host, which copies to and from the device need not wait for. Its
  // blocks are reused once the copies that were given them are done.
  virtual Allocator& pinned_allocator() = 0;
  virtual MemoryNumbers host_memory_statistics() = 0;
  virtual void reset_host_memory_statistics(bool peaks) = 0;  // or the totals
  virtual bool is_pinned(const void* data) = 0;
  // Copies between host and device in the order of the device's current stream; does not wait.
  virtual void copy_async(void* to, const void* from, size_t bytes, int device) = 0;

  // Pools live as long as somebody has retained them, or memory of theirs is in use. Between
  // use_pool and leave_pool this thread's allocations on the device come from the pool.
  virtual PoolId new_pool(bool for_capture) = 0;
  virtual void retain_pool(int device, PoolId pool) = 0;
  virtual void release_pool(int device, PoolId pool) noexcept = 0;
  virtual int64_t pool_users(int device, PoolId pool) = 0;
  virtual void use_pool(int device, PoolId pool) = 0;
  virtual void leave_pool(int device, PoolId pool) = 0;

  virtual std::unique_ptr<DeviceGraph> new_graph(bool keep) = 0;
  virtual bool is_capturing() = 0;  // the current stream of the current device

  virtual DeviceProperties properties(int device) = 0;
  virtual bool can_access_peer(int device, int peer) = 0;
  virtual std::string architectures() = 0;  // "sm_80 sm_90": what the library was compiled for

  // Ranges and marks that profilers show, and when they look.
  virtual int range_push(const char* text) = 0;
  virtual int range_pop() = 0;
  virtual uint64_t range_start(const char* text) = 0;
  virtual void range_end(uint64_t id) = 0;
  virtual void mark(const char* text) = 0;
  virtual void profile(bool on) = 0;
  // Between the two all work on devices is recorded.
  virtual void start_trace() = 0;
  virtual std::vector<DeviceSpan> stop_trace() = 0;
  virtual void spin(int64_t cycles) = 0;  // keeps the current stream busy
  // What ops do that wait for the device unasked: 0 nothing, 1 they tell, 2 they raise.
  virtual void set_sync_mode(int mode, void (*tell)(const char* message)) = 0;
  virtual int sync_mode() = 0;
};

Accelerator& accelerator(DeviceType type);  // loads the device's library if need be
void set_accelerator(DeviceType type, Accelerator* accelerator);

}  // namespace flambeau
