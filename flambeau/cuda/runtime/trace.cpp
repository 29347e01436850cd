#include "flambeau/cuda/runtime/trace.h"

#include "flambeau/base/check.h"

namespace flambeau::cuda {
constinit std::atomic<bool> tracing{false};
}

#if __has_include(<cupti_activity.h>)

#include <cupti_activity.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "flambeau/base/demangle.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/cuda/runtime/library.h"

namespace flambeau::cuda {
namespace {

struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_buffers;
  decltype(&cuptiActivityRegisterTimestampCallback) register_clock;
  decltype(&cuptiSetThreadIdType) set_thread_ids;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiGetResultString) describe;

  Cupti() {
    const Library library("CUPTI", "libcupti.so.13", "nvidia-cuda-cupti");
    library.take(register_buffers, "cuptiActivityRegisterCallbacks");
    library.take(register_clock, "cuptiActivityRegisterTimestampCallback");
    library.take(set_thread_ids, "cuptiSetThreadIdType");
    library.take(enable, "cuptiActivityEnable");
    library.take(disable, "cuptiActivityDisable");
    library.take(flush, "cuptiActivityFlushAll");
    library.take(next_record, "cuptiActivityGetNextRecord");
    library.take(describe, "cuptiGetResultString");
  }
};

const Cupti& cupti() {
  static const Cupti loaded;
  return loaded;
}

void check_cupti(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cupti().describe(result, &text);
  fail<RuntimeError>("profiler: CUPTI could not {}: {}", what, text ? text : "unknown error");
}

// When and in which thread the host called a function of the driver, by the number that this call
// shares with what it put to work.
struct HostCall {
  uint64_t begin;
  uint32_t thread;
};

struct Collected {
  std::mutex mutex;
  std::vector<std::pair<DeviceSpan, uint32_t>> spans;
  std::unordered_map<uint32_t, HostCall> calls;
};

Collected& collected() {
  static auto* const all = new Collected;  // never destroyed: CUPTI's thread may outlive it
  return *all;
}

const char* copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "Memcpy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "Memcpy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "Memcpy DtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: return "Memcpy PtoP";
    default: return "Memcpy";
  }
}

template <class Record>
void keep(Collected& all, const Record& record, const char* kind, std::string name,
          int64_t bytes = 0) {
  DeviceSpan span{.name = std::move(name),
                  .kind = kind,
                  .begin = static_cast<int64_t>(record.start),
                  .end = static_cast<int64_t>(record.end)};
  span.device = static_cast<int>(record.deviceId);
  span.stream = record.streamId;
  span.bytes = bytes;
  all.spans.emplace_back(std::move(span), record.correlationId);
}

void collect(Collected& all, const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
#if CUPTI_API_VERSION >= 130000
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
#else
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel9&>(record);
#endif
      keep(all, kernel, "kernel", demangled(kernel.name));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      keep(all, copy, "gpu_memcpy", copy_name(copy.copyKind), static_cast<int64_t>(copy.bytes));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      keep(all, fill, "gpu_memset", "Memset (Device)", static_cast<int64_t>(fill.bytes));
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(record);
      all.calls.try_emplace(call.correlationId, HostCall{call.start, call.threadId});
      break;
    }
    default: break;
  }
}

constexpr size_t buffer_bytes = size_t{4} << 20;

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(16, buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  const std::unique_ptr<uint8_t, decltype(&std::free)> owned(buffer, &std::free);
  Collected& all = collected();
  const std::lock_guard lock(all.mutex);
  CUpti_Activity* record = nullptr;
  while (used && cupti().next_record(buffer, used, &record) == CUPTI_SUCCESS) {
    collect(all, *record);
  }
}

// The clock of the profiler's own spans.
uint64_t CUPTIAPI system_nanoseconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(since).count());
}

constexpr CUpti_ActivityKind traced[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};

void set_up() {
  check_cupti(cupti().set_thread_ids(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "number threads");
  check_cupti(cupti().register_clock(system_nanoseconds), "take the system's clock");
  check_cupti(cupti().register_buffers(give_buffer, take_buffer), "take buffers");
}

}  // namespace

void start_trace() {
  static const bool ready = [] {
    set_up();
    return true;
  }();
  (void)ready;
  {
    const std::lock_guard lock(collected().mutex);
    collected().spans.clear();
    collected().calls.clear();
  }
  for (const CUpti_ActivityKind kind : traced) check_cupti(cupti().enable(kind), "begin a trace");
  tracing = true;
}

std::vector<DeviceSpan> stop_trace() {
  tracing = false;
  for (int device = 0; device < device_count(); ++device) {
    const DeviceGuard guard(device);
    check(cudaDeviceSynchronize(), "profiler");
  }
  for (const CUpti_ActivityKind kind : traced) check_cupti(cupti().disable(kind), "end a trace");
  check_cupti(cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "hand over a trace");
  Collected& all = collected();
  const std::lock_guard lock(all.mutex);
  std::vector<DeviceSpan> result;
  result.reserve(all.spans.size());
  for (auto& [span, number] : all.spans) {
    const auto call = all.calls.find(number);
    if (call != all.calls.end()) {
      span.asked = static_cast<int64_t>(call->second.begin);
      span.thread = call->second.thread;
    }
    result.push_back(std::move(span));
  }
  all.spans.clear();
  all.calls.clear();
  return result;
}

}  // namespace flambeau::cuda

#else

namespace flambeau::cuda {

void start_trace() {
  fail<RuntimeError>(
      "profiler: this library was built without CUPTI's headers, which the CUDA toolkit brings; "
      "the time of CUDA kernels cannot be recorded");
}

std::vector<DeviceSpan> stop_trace() { return {}; }

}  // namespace flambeau::cuda

#endif
