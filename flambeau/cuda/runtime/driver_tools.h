// What programs ask of the driver besides tensors: marks for profilers, a kernel that waits,
// whether devices reach each other; and the watch over calls that wait for the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace flambeau::cuda {

bool can_access_peer(int device, int peer);
void profile(bool on);
void spin(int64_t cycles);  // keeps the current stream busy (spin.cu)

// Ranges and marks that profilers show (NVTX). Depths and ids are NVTX's.
int range_push(const char* text);
int range_pop();
uint64_t range_start(const char* text);
void range_end(uint64_t id);
void mark(const char* text);

// "sm_80 sm_90": what the library was compiled for.
std::string architectures();

// 0: ops may wait for the device, 1: they tell, 2: they raise. `tell` passes a warning on.
using Tell = void (*)(const char* message);
void set_sync_mode(int mode, Tell tell);
int sync_mode();

extern std::atomic<int> sync_mode_value;
void complain_of_sync();

// Called by ops that are about to wait for the device, though nobody asked them to.
inline void about_to_wait() {
  if (sync_mode_value.load(std::memory_order_relaxed)) [[unlikely]]
    complain_of_sync();
}

}  // namespace flambeau::cuda
