#include "flambeau/cuda/fault.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/cuda/device.h"

namespace flambeau::cuda {
namespace {

std::mutex making;
std::vector<std::atomic<Fault*>>& places() {
  static auto* all = new std::vector<std::atomic<Fault*>>(device_count());
  return *all;
}

}  // namespace

Fault* fault_of(int device) {
  std::atomic<Fault*>& place = places()[device];
  if (Fault* made = place.load(std::memory_order_acquire)) return made;
  const std::lock_guard lock(making);
  if (!place.load()) {
    const DeviceGuard guard(device);
    const OutsideCapture outside;
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, sizeof(Fault), cudaHostAllocPortable | cudaHostAllocMapped),
          "fault_of");
    place.store(new (memory) Fault{}, std::memory_order_release);
  }
  return place.load();
}

void raise_fault(int device) {
  Fault* place = places()[device].load(std::memory_order_acquire);
  if (!place || *static_cast<volatile int*>(&place->kind) == 0) [[likely]]
    return;
  const Fault fault = *place;
  *place = Fault{};
  if (fault.kind == static_cast<int>(FaultKind::target)) {
    fail<IndexError>("Target {} is out of bounds.", fault.value);
  }
  const char* pattern = "index {} is out of bounds for dimension {} with size {}";
  if (fault.runtime_error) fail<RuntimeError>(pattern, fault.value, fault.dim, fault.size);
  fail<IndexError>(pattern, fault.value, fault.dim, fault.size);
}

}  // namespace flambeau::cuda
