// Elements that lie apart, brought side by side. Every second one, such as the real parts of
// complex numbers, is worth vector code, which is not found where the step is not known.
#pragma once

#include "flambeau/cpu/kernels/elementwise/loops.h"

namespace flambeau::cpu::ISA_NAMESPACE {

template <size_t Size>
[[gnu::noinline]] inline void move_together(char* to, const char* from, int64_t from_step,
                                            int64_t n) {
  if constexpr (Size <= 8) {
    using Narrow = std::conditional_t<Size == 1, uint8_t, uint16_t>;
    using Wide = std::conditional_t<Size == 4, uint32_t, uint64_t>;
    typedef std::conditional_t<(Size < 4), Narrow, Wide> Item __attribute__((may_alias));
    if (from_step == 2 * static_cast<int64_t>(Size)) {
      Item* out = reinterpret_cast<Item*>(to);
      const Item* in = reinterpret_cast<const Item*>(from);
      IVDEP for (int64_t i = 0; i < n; ++i) out[i] = in[2 * i];
      return;
    }
  }
  move_strided<Size>(to, Size, from, from_step, n);
}

}  // namespace flambeau::cpu::ISA_NAMESPACE
