// Streams, events and graphs of CUDA devices. Nothing here needs CUDA's headers, or a device until
// it is called.
#pragma once

#include <memory>

#include "flambeau/api/context.h"
#include "flambeau/tensor/accelerator.h"

struct CUstream_st;

namespace flambeau::torch {
namespace cuda {

class CUDAStream {
 public:
  CUDAStream(flambeau::Stream stream) : stream_(stream) {}  // NOLINT
  [[nodiscard]] int64_t id() const { return stream_.id; }
  [[nodiscard]] Device device() const { return stream_.device; }
  [[nodiscard]] DeviceIndex device_index() const { return device().index(); }
  [[nodiscard]] DeviceType device_type() const { return kCUDA; }
  [[nodiscard]] CUstream_st* stream() const { return static_cast<CUstream_st*>(stream_.handle); }
  operator CUstream_st*() const { return stream(); }  // NOLINT
  [[nodiscard]] bool query() const;
  void synchronize() const;
  [[nodiscard]] const flambeau::Stream& unwrap() const { return stream_; }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }

 private:
  flambeau::Stream stream_;
};
// Of the current device unless an index is given.
CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
CUDAStream getDefaultCUDAStream(DeviceIndex device = -1);
CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex device = -1);
CUDAStream getStreamFromExternal(CUstream_st* stream, DeviceIndex device);
void setCurrentCUDAStream(const CUDAStream& stream);
DeviceIndex current_device();
void set_device(DeviceIndex device);
const DeviceProperties* getDeviceProperties(int64_t device);
const DeviceProperties* getCurrentDeviceProperties();

// The current device while it lives.
class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device);
  explicit CUDAGuard(const Device& device);
  ~CUDAGuard();
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  void set_index(DeviceIndex device) { set_device(device); }
  [[nodiscard]] Device original_device() const { return {kCUDA, before_}; }
  [[nodiscard]] Device current_device() const { return {kCUDA, cuda::current_device()}; }

 private:
  DeviceIndex before_;
};
using OptionalCUDAGuard = std::optional<CUDAGuard>;

// The current stream, and its device, while it lives.
class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(const CUDAStream& stream);
  ~CUDAStreamGuard();
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  [[nodiscard]] CUDAStream original_stream() const { return before_; }
  [[nodiscard]] CUDAStream current_stream() const { return getCurrentCUDAStream(); }

 private:
  CUDAGuard device_;
  CUDAStream before_;
};

class CUDAEvent {
 public:
  explicit CUDAEvent(unsigned flags = 2) { event_.timed = flags != 2; }  // 2: without times
  ~CUDAEvent();
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;
  [[nodiscard]] bool isCreated() const { return event_.handle != nullptr; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream);
  void recordOnce(const CUDAStream& stream) {
    if (!isCreated()) record(stream);
  }
  void block(const CUDAStream& stream) const;
  [[nodiscard]] bool query() const;
  void synchronize() const;
  [[nodiscard]] float elapsed_time(const CUDAEvent& end) const;  // milliseconds

 private:
  Event event_;
};

// Work that is captured from a stream instead of being run, to be run any number of times.
class CUDAGraph {
 public:
  CUDAGraph();
  void capture_begin(PoolId pool = {}, const std::string& mode = "global");
  void capture_end();
  void replay();
  void reset();
  [[nodiscard]] PoolId pool();

 private:
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace cuda

// The current device of its kind while it lives; nothing where there is one only.
class DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device) {
    if (device.is_cuda() && device.has_index()) guard_.emplace(device);
  }

 private:
  std::optional<cuda::CUDAGuard> guard_;
};

}  // namespace flambeau::torch
