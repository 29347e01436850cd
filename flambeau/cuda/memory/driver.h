// What the caching allocator asks of a device: memory, marks in streams, and to wait. The CUDA
// driver is one answer (memory/driver.cpp); the tests have another, which needs no GPU.
#pragma once

#include <cstddef>

namespace flambeau::cuda {

using StreamHandle = void*;  // the driver's
using Mark = void*;          // an event of the driver's

class MemoryDriver {
 public:
  virtual ~MemoryDriver() = default;

  virtual size_t capacity() = 0;  // bytes of the device

  // Chunks of memory, each at addresses of its own. Null where there is no such chunk any more.
  virtual char* take(size_t bytes) = 0;
  virtual void give_back(char* data, size_t bytes) = 0;

  // Addresses apart from memory, which is put under them and taken away in whole chunks: calls for
  // several chunks equal calls for each of them.
  virtual bool has_virtual_memory() = 0;
  virtual char* reserve(size_t bytes) = 0;  // null where there are no addresses left
  virtual void unreserve(char* at, size_t bytes) = 0;
  virtual bool map(char* at, size_t bytes, size_t chunk) = 0;  // false: no memory left, none mapped
  virtual void unmap(char* at, size_t bytes, size_t chunk) = 0;

  // A mark behind the work that a stream was given. Null if none can be set: then the driver has
  // waited for the stream instead.
  virtual Mark set_mark(StreamHandle stream) = 0;
  virtual bool passed(Mark mark) = 0;
  virtual void wait_for(Mark mark) = 0;
  virtual void drop(Mark mark) = 0;

  virtual void synchronize() = 0;  // waits for all work on the device
  virtual void memory_info(size_t& free, size_t& total) = 0;
};

}  // namespace flambeau::cuda
