// What the files of indexing ops share.
#pragma once

#include "flambeau/kernels/indexing.h"
#include "flambeau/ops/ops.h"

namespace flambeau {

// Indices as Python has them.
constexpr IndexedDim python_rules{.from_end = true};

// Raises unless the tensor holds int32 or int64; the index as int64 on the device.
Tensor checked_index(const char* op, const Tensor& index, Device device);
// The same as a vector, after a check that source has a slice of self's shape for each index.
Tensor index_of_slices(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source);
// The positions of the elements that are not zero, flat: (n).
Tensor nonzero_flat(const Tensor& input);
// The same as coordinates: (rank, n).
Tensor nonzero_columns(const Tensor& input);
// Whether several elements are one place in memory, as those of an expanded tensor are.
bool overlaps_itself(const Tensor& tensor);
// Several elements of an expanded tensor are one place in memory: what is written there is unclear.
void warn_if_expanded(const char* op, const Tensor& self);
// Raises where it is certain that values lie in the memory of the target.
void check_no_overlap(const char* op, const Tensor& target, const Tensor& values);
// Values that are about to be written into `target` while they may lie in its memory.
Tensor apart_from(const Tensor& target, const Tensor& values);

// self[indices], and a write there that has been checked and is recorded by the caller.
Tensor read_at(const char* op, const Tensor& self, const std::vector<Tensor>& indices);
void write_at(const char* op, const Tensor& self, const std::vector<Tensor>& indices,
              const Tensor& values, WriteMode mode);
// The same along one dimension of a tensor that has at least one. What goes to one element is added
// up in float32 where the dtype of self would lose much of it by rounding.
Tensor read_along(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                  const IndexedDim& rules);
void write_along(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                 const IndexedDim& rules, const Tensor& values, WriteMode mode);

// Writes src along dim at the positions that index names: checked and versioned, not recorded.
void write_scattered(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                     const Operand& src, WriteMode mode);
// Where at most `per_element` of `count` values are to be added to each element of self: self
// itself, or a copy in float32 of one whose dtype would lose many of them by rounding; keep_sums
// ends that.
Tensor place_of_sums(const Tensor& self, int64_t per_element, int64_t count);
void keep_sums(const Tensor& self, const Tensor& sums);
// The corner of input that has these sizes, and its gradient: zeros around what was used.
Tensor corner(const Tensor& input, IntSpan sizes);
Tensor fill_up(const Tensor& used, IntSpan shape);

}  // namespace flambeau
