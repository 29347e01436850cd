#include "flambeau/cuda/runtime/fault.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "flambeau/base/check.h"
#include "flambeau/base/current_op.h"
#include "flambeau/cuda/runtime/device.h"
#include "flambeau/tensor/accelerator.h"

namespace flambeau::cuda {
namespace {

std::mutex making;
std::vector<std::atomic<Fault*>>& reports() {
  static auto* all = new std::vector<std::atomic<Fault*>>(device_count());
  return *all;
}

// What a fault is, in the words that the CPU has for it.
std::string words_of(const Fault& fault) {
  switch (static_cast<FaultKind>(fault.kind)) {
    case FaultKind::target: return flambeau::format("Target {} is out of bounds.", fault.value);
    case FaultKind::weight: return "probability tensor contains either `inf`, `nan` or element < 0";
    case FaultKind::probability: return "all elements of input should be between 0 and 1";
    case FaultKind::weights: return "invalid multinomial distribution (sum of probabilities <= 0)";
    default:
      return flambeau::format("index {} is out of bounds for dimension {} with size {}",
                              fault.value, fault.dim, fault.size);
  }
}

// What the CPU would not have to tell: how many there are, or where.
std::string details_of(const Fault& fault) {
  switch (static_cast<FaultKind>(fault.kind)) {
    case FaultKind::target: return flambeau::format(", of {} classes,", fault.size);
    case FaultKind::weight:
      return flambeau::format(" at element {} of {} of row {},", fault.value, fault.size,
                              fault.dim);
    case FaultKind::probability:
      return flambeau::format(" at element {} of {},", fault.value, fault.size);
    case FaultKind::weights: return flambeau::format(" in row {}", fault.dim);
    default: return "";
  }
}

}  // namespace

FaultPlace fault_of(int device) {
  std::atomic<Fault*>& place = reports()[device];
  if (Fault* made = place.load(std::memory_order_acquire)) return {made, current_op};
  const std::lock_guard lock(making);
  if (!place.load()) {
    const DeviceGuard guard(device);
    const OutsideCapture outside;
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, sizeof(Fault), cudaHostAllocPortable | cudaHostAllocMapped),
          "fault_of");
    place.store(new (memory) Fault{}, std::memory_order_release);
  }
  return {place.load(), current_op};
}

void raise_fault(int device) {
  Fault* place = reports()[device].load(std::memory_order_acquire);
  if (!place || *static_cast<volatile int*>(&place->kind) == 0) [[likely]]
    return;
  const Fault fault = *place;
  *place = Fault{};
  std::string_view name = op_name(fault.op);
  if (name.starts_with("_nn_")) name.remove_prefix(4);  // nn.functional's, under its own name
  fail<DeviceFault>("{} (found by {}{} on cuda:{})", words_of(fault), name, details_of(fault),
                    device);
}

}  // namespace flambeau::cuda
