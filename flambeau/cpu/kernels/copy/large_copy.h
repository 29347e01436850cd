// Copies of tensors that are too large for the caches.
#pragma once

#include "flambeau/cpu/kernels/simd/lanes.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A part of such a copy. Short parts are not worth the lines that they share with their
// neighbours. The largest ones the C library stores non-temporally itself, several pages at once,
// which Intel's processors gain from and AMD's lose by. A fence is to follow.
inline void copy_large(char* to, const char* from, int64_t n) {
  constexpr int64_t shortest = 1024, longest = int64_t{96} << 20;
  static const bool by_library = __builtin_cpu_is("intel");
  if (n < shortest || (n > longest && by_library) || std::abs(to - from) < n)
    return copy_bytes(to, from, n);
  copy_non_temporal(to, from, n);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
