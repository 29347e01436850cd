// Slots of indexing: reading and writing the elements that index tensors name. All of them see an
// iteration space in which the indexed tensor stands still along the indexed dimensions (stride 0);
// the place comes from an operand of byte offsets or of indices. They never trust an index.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau {

// What a write does to the value that is there.
enum class WriteMode : uint8_t { assign, add, multiply, maximum, minimum };

// One indexed dimension of a tensor, and how to complain about an index outside it.
struct IndexedDim {
  int64_t dim = 0;
  int64_t size = 0;
  int64_t stride = 0;          // in bytes
  bool from_end = false;       // negative indices count from the end
  bool runtime_error = false;  // raise RuntimeError instead of IndexError
};

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_index(int64_t index, const IndexedDim& at) {
  const char* pattern = "index {} is out of bounds for dimension {} with size {}";
  if (at.runtime_error) fail<RuntimeError>(pattern, index, at.dim, at.size);
  fail<IndexError>(pattern, index, at.dim, at.size);
}

// Whether rows lie side by side in the first two operands of index_read or index_write, and an
// offset counts for a whole one.
inline bool takes_whole_rows(const TensorIter& iter) {
  const auto item = static_cast<int64_t>(item_size(iter.dtypes[0]));
  return iter.ndim == 2 && iter.strides[0][0] == item && iter.strides[1][0] == item &&
         iter.strides[2][0] == 0;
}

namespace kernels {

// offsets (+)= index * stride, all int64; indices are checked. Operands: offsets, index.
SLOT(index_offsets, void(const TensorIter& iter, const IndexedDim& at, bool add))
// Operands: out, source, offsets.
SLOT(index_read, void(const TensorIter& iter))
// Operands: target, values, offsets. Several writes to one place are done one after the other,
// except by assign, where any one of them wins. On the CPU whole rows of half precision are added
// in float, and rounded once.
SLOT(index_write, void(const TensorIter& iter, WriteMode mode))
// Operands: out, source, index.
SLOT(gather, void(const TensorIter& iter, const IndexedDim& at))
// Operands: target, source, index.
SLOT(scatter, void(const TensorIter& iter, const IndexedDim& at, WriteMode mode))
// Makes `out`: the positions of elements that are not zero, in order; either flat (n) or as
// coordinates (rank, n). The input is contiguous.
SLOT(nonzero, void(const Tensor& input, bool flat, Tensor& out))
// Makes `out`: the elements of input where the mask, of the same shape, is true, as a vector. Both
// are contiguous. On the CPU only.
SLOT(masked_select, void(const Tensor& input, const Tensor& mask, Tensor& out))
// To which run (int64) each element belongs, counting from 0; `starts` says where one begins, the
// first of them at the first element. Elsewhere than on the CPU a running sum tells.
SLOT(number_runs, void(const Tensor& starts, const Tensor& numbers))

}  // namespace kernels
}  // namespace flambeau
