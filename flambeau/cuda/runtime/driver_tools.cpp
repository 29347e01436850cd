#include "flambeau/cuda/runtime/driver_tools.h"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include "flambeau/base/check.h"
#include "flambeau/cuda/runtime/device.h"

#ifndef FLAMBEAU_CUDA_ARCHITECTURES
#define FLAMBEAU_CUDA_ARCHITECTURES ""
#endif

namespace flambeau::cuda {

bool can_access_peer(int device, int peer) {
  int reaches = 0;
  check(cudaDeviceCanAccessPeer(&reaches, checked_index(device), checked_index(peer)),
        "can_device_access_peer");
  return reaches != 0;
}

void profile(bool on) { check(on ? cudaProfilerStart() : cudaProfilerStop(), "profiler"); }

int range_push(const char* text) { return nvtxRangePushA(text); }
int range_pop() { return nvtxRangePop(); }
uint64_t range_start(const char* text) { return nvtxRangeStartA(text); }
void range_end(uint64_t id) { nvtxRangeEnd(id); }
void mark(const char* text) { nvtxMarkA(text); }

// From CMake's list, "80;90-real": what is compiled for machines and for none in particular.
std::string architectures() {
  std::string result;
  std::string list = FLAMBEAU_CUDA_ARCHITECTURES;
  for (char& c : list) c = c == ';' ? ' ' : c;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    const std::string entry = list.substr(at, end - at);
    at = end + 1;
    if (entry.empty()) continue;
    const bool is_virtual = entry.find("-virtual") != std::string::npos;
    if (!result.empty()) result += ' ';
    result += (is_virtual ? "compute_" : "sm_") + entry.substr(0, entry.find('-'));
  }
  return result;
}

std::atomic<int> sync_mode_value{0};

namespace {
std::atomic<Tell> tell_of_sync{nullptr};
}

void set_sync_mode(int mode, Tell tell) {
  tell_of_sync = tell;
  sync_mode_value = mode;
}

int sync_mode() { return sync_mode_value; }

void complain_of_sync() {
  constexpr const char* message = "called a synchronizing CUDA operation";
  CHECK(sync_mode_value != 2, RuntimeError, "{}", message);
  if (const Tell tell = tell_of_sync) tell(message);
}

}  // namespace flambeau::cuda
