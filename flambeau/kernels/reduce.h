// The slots of reductions and the geometry that they work on: for each kept position one result,
// made of all reduced positions. Dimensions are merged and stand innermost first, so that most
// reductions are one kept and one reduced dimension.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {

struct Reduction {
  const char* in = nullptr;
  char* out = nullptr;
  char* second =
      nullptr;  // a second result: indices (int64), or a mean; strides as `out`, in items
  DType in_dtype;
  DType out_dtype;
  int kept_dims = 0;
  int reduced_dims = 0;
  int64_t outputs = 1;  // results
  int64_t count = 1;    // elements of each
  int64_t kept_sizes[max_dims];
  int64_t kept_in[max_dims];   // strides in bytes
  int64_t kept_out[max_dims];  // strides in items of the results
  int64_t reduced_sizes[max_dims];
  int64_t reduced_in[max_dims];  // strides in bytes
};

using ReduceSlot = Slot<void(const Reduction& r)>;

namespace kernels {
// Integers and bool add up in int64; the other dtypes keep theirs. Of unsigned integers there is
// only uint8.
inline constinit ReduceSlot sum{"sum"};
inline constinit ReduceSlot nansum{"nansum"};
inline constinit ReduceSlot mean{"mean"};
inline constinit ReduceSlot prod{"prod"};  // of integers only int64
inline constinit ReduceSlot amax{"amax"};
inline constinit ReduceSlot amin{"amin"};
// Results of type bool.
inline constinit ReduceSlot any{"any"};
inline constinit ReduceSlot all{"all"};
// Results of type int64.
inline constinit ReduceSlot count_nonzero{"count_nonzero"};
// Values in `out` and the first index of each, counted over the reduced positions, in `second`;
// `out` may be null.
inline constinit ReduceSlot max_index{"max"};
inline constinit ReduceSlot min_index{"min"};
// The norm of order p; complex inputs have real results.
inline constinit Slot<void(const Reduction& r, double p)> vector_norm{"linalg_vector_norm"};
// The variance, or its root, with `correction` taken off the count; the mean in `second` unless
// that is null.
inline constinit Slot<void(const Reduction& r, double correction, bool root)> var_mean{"var_mean"};
}  // namespace kernels

}  // namespace flambeau
