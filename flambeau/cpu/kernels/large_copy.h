// Copies of tensors that are too large for the caches.
#pragma once

#include "flambeau/cpu/kernels/lanes.h"

namespace flambeau::cpu::ISA_NAMESPACE {

// A part of such a copy. Short pieces are not worth the lines that they share with their
// neighbours. A fence is to follow.
inline void copy_large(char* to, const char* from, int64_t n) {
  constexpr int64_t shortest = 1024;
  if (n < shortest || std::abs(to - from) < n) return copy_bytes(to, from, n);
  copy_past_cache(to, from, n);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
