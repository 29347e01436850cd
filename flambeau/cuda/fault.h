// How a kernel complains about data that it finds on the device: an index outside its dimension, a
// class outside the logits. The first complaint is written to host memory, the kernel goes on
// without touching memory it should not, and the next call that waits for the device raises it. The
// device stays usable.
#pragma once

#include <cstdint>

namespace flambeau::cuda {

enum class FaultKind : int { none, index, target };

struct Fault {
  int kind;  // a FaultKind
  int runtime_error;
  int64_t value, dim, size;
};

// The place where kernels on this device write, in memory that host and device share.
Fault* fault_of(int device);

// Raises what a kernel complained about, if anything. The device must have been waited for.
void raise_fault(int device);

#if defined(__CUDACC__)
// Several threads may complain at once: any of them is right, so nothing but the order of the
// writes matters, and the kind, which says that there is a fault, comes last.
__device__ inline void report(Fault* fault, FaultKind kind, int64_t value, int64_t dim,
                              int64_t size, bool runtime_error = false) {
  volatile Fault* place = fault;
  if (place->kind != 0) return;
  place->runtime_error = runtime_error;
  place->value = value;
  place->dim = dim;
  place->size = size;
  __threadfence_system();
  place->kind = static_cast<int>(kind);
}
#endif

}  // namespace flambeau::cuda
