// What a device with queues and memory of its own offers beyond DeviceRuntime: streams, events,
// memory statistics, properties. Its backend derives from Accelerator; the rest of the library and
// the binding know only this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "flambeau/tensor/device.h"
#include "flambeau/tensor/storage.h"

namespace flambeau {

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
};

struct MemoryStatistics {
  int64_t allocated = 0, allocated_peak = 0;  // bytes in blocks that tensors use
  int64_t reserved = 0, reserved_peak = 0;    // bytes taken from the driver
  int64_t blocks = 0, segments = 0;           // their numbers
  int64_t allocations = 0;                    // calls so far
  int64_t retries = 0, out_of_memory = 0;     // cached memory given back to go on; and not enough
};

struct DeviceProperties {
  std::string name;
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
  virtual bool stream_done(const Stream& stream) = 0;
  virtual void wait_for_stream(const Stream& stream) = 0;

  virtual void record_event(Event& event, const Stream& stream) = 0;
  virtual void stream_waits(const Stream& stream, const Event& event) = 0;
  virtual bool event_done(const Event& event) = 0;
  virtual void wait_for_event(const Event& event) = 0;
  virtual double elapsed_ms(const Event& start, const Event& end) = 0;
  virtual void destroy_event(Event& event) noexcept = 0;

  virtual MemoryStatistics memory_statistics(int device) = 0;
  virtual void reset_peaks(int device) = 0;
  // Says that `stream` uses the block at `data`, so that it is not reused before the stream is
  // done.
  virtual void record_stream(void* data, const Stream& stream) = 0;
  virtual void memory_info(int device, size_t& free, size_t& total) = 0;

  // Page-locked memory of the host, which copies to and from the device need not wait for. Its
  // blocks are reused once the copies that were given them are done.
  virtual Allocator& pinned_allocator() = 0;
  virtual bool is_pinned(const void* data) = 0;
  // Copies between host and device in the order of the device's current stream; does not wait.
  virtual void copy_async(void* to, const void* from, size_t bytes, int device) = 0;

  virtual DeviceProperties properties(int device) = 0;
};

Accelerator& accelerator(DeviceType type);  // loads the device's library if need be
void set_accelerator(DeviceType type, Accelerator* accelerator);

}  // namespace flambeau
