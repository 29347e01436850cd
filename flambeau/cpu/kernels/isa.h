// Units in this folder are compiled once per instruction set. What they define lies in a namespace
// of its own per set, and a kernel is put into its slot if this machine has the instructions.
#pragma once

#include "flambeau/kernels/slot.h"

#define FLAMBEAU_ISA_v3 3
#define FLAMBEAU_ISA_v4 4
#define FLAMBEAU_ISA_JOIN_(a, b) a##b
#define FLAMBEAU_ISA_JOIN(a, b) FLAMBEAU_ISA_JOIN_(a, b)
#define FLAMBEAU_ISA_RANK FLAMBEAU_ISA_JOIN(FLAMBEAU_ISA_, FLAMBEAU_ISA)
#define ISA_NAMESPACE FLAMBEAU_ISA_JOIN(isa_, FLAMBEAU_ISA)

namespace flambeau::cpu {

// Whether this machine runs code for x86-64-v<rank>.
bool supports(int rank);

namespace ISA_NAMESPACE {

struct Fill {
  template <class S>
  Fill(S& slot, typename S::Kernel kernel) {
    if (supports(FLAMBEAU_ISA_RANK)) slot.fill(DeviceType::cpu, kernel, FLAMBEAU_ISA_RANK);
  }
};

}  // namespace ISA_NAMESPACE
}  // namespace flambeau::cpu

// KERNEL_FOR(softmax, softmax_kernel) at namespace scope.
#define KERNEL_FOR(slot, ...) \
  static const Fill FLAMBEAU_ISA_JOIN(fill_, __COUNTER__){::flambeau::kernels::slot, __VA_ARGS__};
