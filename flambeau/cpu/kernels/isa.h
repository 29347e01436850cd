// How a kernel of this folder gets into its slot.
//
// Note [Instruction sets]
// Units in this folder are compiled once per instruction set, and those of one set are linked into
// a library of their own, which is opened (flambeau/cpu/isa.cpp) only where the processor has the
// instructions. A static initialiser may therefore use them, and an inline function or an
// instantiated template, which the linker keeps once for all units that have it, is shared within
// one set only. What units define lies in a namespace of its own per set, so that a backtrace or a
// profile shows which one ran. Units that wider registers do not make faster are compiled for the
// least set alone and are part of every library: narrow_kernels in cmake/library.cmake.
#pragma once

#include "flambeau/kernels/slot.h"

#define FLAMBEAU_ISA_v3 3
#define FLAMBEAU_ISA_v4 4
#define FLAMBEAU_ISA_JOIN_(a, b) a##b
#define FLAMBEAU_ISA_JOIN(a, b) FLAMBEAU_ISA_JOIN_(a, b)
#define FLAMBEAU_ISA_RANK FLAMBEAU_ISA_JOIN(FLAMBEAU_ISA_, FLAMBEAU_ISA)
#define ISA_NAMESPACE FLAMBEAU_ISA_JOIN(isa_, FLAMBEAU_ISA)

namespace flambeau::cpu::ISA_NAMESPACE {

struct Fill {
  template <class S>
  Fill(S& slot, typename S::Kernel kernel) {
    slot.fill(DeviceType::cpu, kernel);
  }
};

}  // namespace flambeau::cpu::ISA_NAMESPACE

// KERNEL_FOR(softmax, softmax_kernel) at namespace scope.
#define KERNEL_FOR(slot, ...) \
  static const Fill FLAMBEAU_ISA_JOIN(fill_, __COUNTER__){::flambeau::kernels::slot, __VA_ARGS__};
