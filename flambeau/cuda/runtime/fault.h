// How a kernel complains about data that it finds on the device: an index outside its dimension, a
// class outside the logits, weights that nothing can be drawn by. The first complaint is written to
// host memory, the kernel goes on without touching memory it should not, and the next call that
// waits for the device raises it. The device stays usable.
#pragma once

#include <cstdint>

namespace flambeau::cuda {

enum class FaultKind : int {
  none,
  index,        // `value` is not among the `size` indices of dimension `dim`
  target,       // class `value` of `size`
  weight,       // element `value` of row `dim` is no weight
  weights,      // row `dim` has no weight above zero
  probability,  // element `value` of `size` is not between 0 and 1
};

struct Fault {
  int kind;        // a FaultKind
  const char* op;  // whose kernel found it: text of the host that lives on
  int64_t value, dim, size;
};

// What a kernel takes along: the place to write to, in memory that host and device share, and the
// op that started it.
struct FaultPlace {
  Fault* place;
  const char* op;
};

// For a kernel of the current op on this device.
FaultPlace fault_of(int device);

// Raises what a kernel complained about, if anything. The device must have been waited for.
void raise_fault(int device);

#if defined(__CUDACC__)
// Several threads may complain at once: any of them is right, so nothing but the order of the
// writes matters, and the kind, which says that there is a fault, comes last.
__device__ inline void report(const FaultPlace& fault, FaultKind kind, int64_t value, int64_t dim,
                              int64_t size) {
  volatile Fault* place = fault.place;
  if (place->kind != 0) return;
  place->op = fault.op;
  place->value = value;
  place->dim = dim;
  place->size = size;
  __threadfence_system();
  place->kind = static_cast<int>(kind);
}
#endif

}  // namespace flambeau::cuda
