// Rows of a TensorIter one after the other on the calling thread. Random draws need it: what an
// element gets depends on how many came before.
#pragma once

#include <algorithm>

#include "flambeau/tensor/tensor_iter.h"

namespace flambeau::cpu {

// Moves data on by one along the dimensions from `first` on; false if it was at their last place.
inline bool next_place(const TensorIter& iter, int first, int64_t* index, char** data) {
  for (int d = first; d < iter.ndim; ++d) {
    for (int k = 0; k < iter.count; ++k) data[k] += iter.strides[k][d];
    if (++index[d] < iter.shape[d]) return true;
    for (int k = 0; k < iter.count; ++k) data[k] -= iter.shape[d] * iter.strides[k][d];
    index[d] = 0;
  }
  return false;
}

// Calls body(data, n) for each row, with iter.strides[k][0] bytes between elements of operand k.
template <class Body>
void for_each_row_in_order(const TensorIter& iter, Body&& body) {
  if (iter.numel == 0) return;
  int64_t index[max_dims] = {};
  char* data[TensorIter::max_operands];
  std::copy_n(iter.data, iter.count, data);
  do body(data, iter.shape[0]);
  while (next_place(iter, 1, index, data));
}

}  // namespace flambeau::cpu
