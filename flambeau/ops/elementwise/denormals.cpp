// Whether numbers below the normal range are kept or become zero: a mode of the processor, a
// thread's own. Threads that are started later inherit it.
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "flambeau/ops/op.h"

namespace flambeau {
namespace {

bool set_flush_denormal([[maybe_unused]] bool mode) {
#if defined(__SSE2__)
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
  constexpr unsigned both = flush_to_zero | denormals_are_zero;
  _mm_setcsr(mode ? _mm_getcsr() | both : _mm_getcsr() & ~both);
  return true;
#else
  return false;
#endif
}
OP_FUNCTION(set_flush_denormal, "set_flush_denormal(mode)",
            "Whether denormal numbers become zero; returns whether the processor can do it.")

}  // namespace
}  // namespace flambeau
