#include "flambeau/cuda/runtime/stream.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/memory/allocator.h"
#include "flambeau/cuda/memory/pinned.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/driver_tools.h"
#include "flambeau/cuda/runtime/fault.h"
#include "flambeau/cuda/runtime/graph.h"
#include "flambeau/cuda/runtime/trace.h"
#include "flambeau/tensor/side_stream.h"

namespace flambeau::cuda {
namespace {

// Streams are handed out round-robin from a pool and never destroyed, so that the allocator may
// keep free lists by stream.
constexpr int pool_size = 32;

struct Pool {
  std::mutex mutex;
  std::vector<Stream> streams;
  int next = 0;
};

struct DeviceStreams {
  Pool normal, urgent;
};

DeviceStreams& streams_of(int device) {
  static auto* all = new std::vector<DeviceStreams>(device_count());
  return (*all)[device];
}

Stream default_of(int device) { return {Device(DeviceType::cuda, device), 0, nullptr}; }

// This thread's current streams; null as long as all of them are the default.
thread_local std::unique_ptr<Stream[]> current;

Stream from_pool(int device, bool urgent) {
  static std::atomic<int64_t> next_id{1};
  Pool& pool = urgent ? streams_of(device).urgent : streams_of(device).normal;
  const std::lock_guard lock(pool.mutex);
  if (static_cast<int>(pool.streams.size()) < pool_size) {
    const DeviceGuard guard(device);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "Stream");
    cudaStream_t handle = nullptr;
    check(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, urgent ? greatest : 0),
          "Stream");
    pool.streams.push_back({Device(DeviceType::cuda, device), next_id++, handle});
    return pool.streams.back();
  }
  return pool.streams[pool.next++ % pool_size];
}

cudaEvent_t native(const Event& event) { return static_cast<cudaEvent_t>(event.handle); }

// Whether work is over, from the answer of a query.
bool is_done(cudaError_t answer, const char* op) {
  if (answer == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(answer, op);
  return true;
}

DeviceMemory& memory(int device) { return caching_allocator().of(checked_index(device)); }

class CudaAccelerator final : public Accelerator {
 public:
  Stream current_stream(int device) override { return cuda::current_stream(checked_index(device)); }
  Stream default_stream(int device) override { return default_of(checked_index(device)); }

  void set_current_stream(const Stream& stream) override {
    const int count = device_count();
    if (!current) {
      current = std::make_unique<Stream[]>(count);
      for (int i = 0; i < count; ++i) current[i] = default_of(i);
    }
    current[checked_index(stream.device.index)] = stream;
    uses_side_streams = false;
    for (int i = 0; i < count; ++i) uses_side_streams |= current[i].handle != nullptr;
  }

  Stream new_stream(int device, int priority) override {
    return from_pool(checked_index(device), priority < 0);
  }

  Stream stream_of_handle(int device, void* handle) override {
    // An identity that no stream of the pool has.
    return {Device(DeviceType::cuda, checked_index(device)),
            handle ? static_cast<int64_t>(reinterpret_cast<intptr_t>(handle)) : 0, handle};
  }

  Stream stream_of_id(int device, int64_t id) override {
    const int index = checked_index(device);
    if (id == 0) return default_of(index);
    for (Pool* pool : {&streams_of(index).normal, &streams_of(index).urgent}) {
      const std::lock_guard lock(pool->mutex);
      for (const Stream& stream : pool->streams) {
        if (stream.id == id) return stream;
      }
    }
    return {Device(DeviceType::cuda, index), id, reinterpret_cast<void*>(id)};  // somebody else's
  }

  bool stream_done(const Stream& stream) override {
    const DeviceGuard guard(stream.device.index);
    return is_done(cudaStreamQuery(cuda::native(stream)), "Stream.query");
  }

  void wait_for_stream(const Stream& stream) override {
    const DeviceGuard guard(stream.device.index);
    check(cudaStreamSynchronize(cuda::native(stream)), "Stream.synchronize");
    raise_fault(stream.device.index);
  }

  static void make_event(Event& event, int device) {
    const unsigned flags = (event.timed ? cudaEventDefault : cudaEventDisableTiming) |
                           (event.blocking ? cudaEventBlockingSync : cudaEventDefault) |
                           (event.shared ? cudaEventInterprocess : cudaEventDefault);
    cudaEvent_t handle = nullptr;
    check(cudaEventCreateWithFlags(&handle, flags), "Event");
    event.handle = handle;
    event.device = device;
  }

  void record_event(Event& event, const Stream& stream) override {
    const DeviceGuard guard(stream.device.index);
    if (!event.handle) make_event(event, stream.device.index);
    CHECK(event.device == stream.device.index, RuntimeError,
          "Event device cuda:{} does not match recording stream's device cuda:{}.", event.device,
          stream.device.index);
    check(cudaEventRecord(native(event), cuda::native(stream)), "Event.record");
  }

  void stream_waits(const Stream& stream, const Event& event) override {
    if (!event.handle) return;  // a mark that was never set has passed
    const DeviceGuard guard(stream.device.index);
    check(cudaStreamWaitEvent(cuda::native(stream), native(event), 0), "Stream.wait_event");
  }

  bool event_done(const Event& event) override {
    return !event.handle || is_done(cudaEventQuery(native(event)), "Event.query");
  }

  void wait_for_event(const Event& event) override {
    if (!event.handle) return;
    check(cudaEventSynchronize(native(event)), "Event.synchronize");
    raise_fault(event.device);
  }

  double elapsed_ms(const Event& start, const Event& end) override {
    CHECK(start.timed && end.timed, ValueError,
          "Both events must be created with argument 'enable_timing=True'.");
    CHECK(start.handle && end.handle, ValueError,
          "Both events must be recorded before calculating elapsed time.");
    CHECK(event_done(start) && event_done(end), RuntimeError,
          "Event.elapsed_time: both events must be completed before calculating elapsed time.");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, native(start), native(end)), "Event.elapsed_time");
    return milliseconds;
  }

  void destroy_event(Event& event) noexcept override {
    if (event.handle) cudaEventDestroy(native(event));
    event.handle = nullptr;
  }

  std::string event_name(Event& event, int device) override {
    CHECK(event.shared, RuntimeError,
          "Event.ipc_handle: only events made with interprocess=True have one");
    const DeviceGuard guard(event.handle ? event.device : checked_index(device));
    if (!event.handle) make_event(event, checked_index(device));
    cudaIpcEventHandle_t name;
    check(cudaIpcGetEventHandle(&name, native(event)), "Event.ipc_handle");
    return {name.reserved, sizeof name.reserved};
  }

  Event open_event(int device, const std::string& name) override {
    cudaIpcEventHandle_t given;
    CHECK(name.size() == sizeof given.reserved, ValueError,
          "Event.from_ipc_handle: expected a handle of {} bytes, got {}", sizeof given.reserved,
          name.size());
    std::memcpy(given.reserved, name.data(), name.size());
    const DeviceGuard guard(checked_index(device));
    cudaEvent_t handle = nullptr;
    check(cudaIpcOpenEventHandle(&handle, given), "Event.from_ipc_handle");
    return {handle, checked_index(device), false, false, true};
  }

  MemoryNumbers memory_statistics(int device) override { return memory(device).statistics(); }
  void reset_peaks(int device) override { memory(device).reset_peaks(); }
  void reset_accumulated(int device) override { memory(device).reset_accumulated(); }
  std::vector<SegmentInfo> memory_snapshot(int device) override {
    return memory(device).snapshot();
  }
  void record_history(int device, size_t entries) override {
    memory(device).record_history(entries);
  }
  std::vector<MemoryEvent> memory_history(int device) override { return memory(device).history(); }
  void set_memory_limit(int device, size_t bytes) override { memory(device).set_limit(bytes); }
  size_t memory_limit(int device) override { return memory(device).limit(); }
  void record_stream(void* data, const Stream& stream) override {
    memory(stream.device.index).record_stream(data, stream.handle);
  }
  void memory_info(int device, size_t& free, size_t& total) override {
    const DeviceGuard guard(checked_index(device));
    check(cudaMemGetInfo(&free, &total), "mem_get_info");
  }

  Allocator& pinned_allocator() override { return pinned_memory(); }
  MemoryNumbers host_memory_statistics() override { return pinned_memory().statistics(); }
  void reset_host_memory_statistics(bool peaks) override { pinned_memory().reset(peaks); }

  bool can_access_peer(int device, int peer) override {
    return cuda::can_access_peer(device, peer);
  }
  std::string architectures() override { return cuda::architectures(); }
  int range_push(const char* text) override { return cuda::range_push(text); }
  int range_pop() override { return cuda::range_pop(); }
  uint64_t range_start(const char* text) override { return cuda::range_start(text); }
  void range_end(uint64_t id) override { cuda::range_end(id); }
  void mark(const char* text) override { cuda::mark(text); }
  void profile(bool on) override { cuda::profile(on); }
  void start_trace() override { cuda::start_trace(); }
  std::vector<DeviceSpan> stop_trace() override { return cuda::stop_trace(); }
  void spin(int64_t cycles) override {
    checked_index(-1);
    cuda::spin(cycles);
  }
  void set_sync_mode(int mode, Tell tell) override { cuda::set_sync_mode(mode, tell); }
  int sync_mode() override { return cuda::sync_mode(); }

  bool is_pinned(const void* data) override {
    if (device_count() == 0) return false;
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, data) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    return found.type == cudaMemoryTypeHost;
  }

  void copy_async(void* to, const void* from, size_t bytes, int device) override {
    const DeviceGuard guard(device);
    const cudaStream_t stream = current_handle(device);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy_");
    pinned_memory().record_use(to, stream);
    pinned_memory().record_use(from, stream);
  }

  PoolId new_pool(bool for_capture) override { return cuda::new_pool(for_capture); }
  void retain_pool(int device, PoolId pool) override { memory(device).retain_pool(pool); }
  void release_pool(int device, PoolId pool) noexcept override {
    caching_allocator().of(device).release_pool(pool);
  }
  int64_t pool_users(int device, PoolId pool) override { return memory(device).pool_users(pool); }
  void use_pool(int device, PoolId pool) override {
    memory(device).retain_pool(pool);
    caching_allocator().begin_route(checked_index(device), pool, 0);
  }
  void leave_pool(int device, PoolId pool) override {
    caching_allocator().end_route(checked_index(device), pool, 0);
    memory(device).release_pool(pool);
  }

  std::unique_ptr<DeviceGraph> new_graph(bool keep) override {
    checked_index(-1);  // raises where there is no device
    return std::make_unique<Graph>(keep);
  }
  bool is_capturing() override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(current_handle(checked_index(-1)), &status),
          "is_current_stream_capturing");
    return status != cudaStreamCaptureStatusNone;
  }

  DeviceProperties properties(int device) override {
    cudaDeviceProp found;
    check(cudaGetDeviceProperties(&found, checked_index(device)), "get_device_properties");
    DeviceProperties p;
    p.name = found.name;
    p.major = found.major;
    p.minor = found.minor;
    p.total_memory = found.totalGlobalMem;
    p.l2_cache_size = found.l2CacheSize;
    p.shared_memory_per_block = found.sharedMemPerBlock;
    p.multi_processor_count = found.multiProcessorCount;
    p.warp_size = found.warpSize;
    p.max_threads_per_multi_processor = found.maxThreadsPerMultiProcessor;
    p.regs_per_multiprocessor = found.regsPerMultiprocessor;
    p.is_integrated = found.integrated != 0;
    p.is_multi_gpu_board = found.isMultiGpuBoard != 0;
    for (const char byte : found.uuid.bytes) {
      constexpr const char* digits = "0123456789abcdef";
      const size_t so_far = p.uuid.size();
      if (so_far == 8 || so_far == 13 || so_far == 18 || so_far == 23) p.uuid += '-';
      p.uuid += digits[static_cast<unsigned char>(byte) >> 4];
      p.uuid += digits[byte & 15];
    }
    return p;
  }
};

const bool ready = [] {
  static CudaAccelerator accelerator;
  set_accelerator(DeviceType::cuda, &accelerator);
  return true;
}();

}  // namespace

Stream current_stream(int device) { return current ? current[device] : default_of(device); }

cudaStream_t current_handle(int device) {
  return current ? native(current[device]) : cudaStream_t{};
}

}  // namespace flambeau::cuda
