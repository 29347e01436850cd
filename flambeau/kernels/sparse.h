// The slots of sparse matrices in compressed rows: the elements of row r are those from crow[r] to
// crow[r + 1], at the columns col. Index tensors are int64; all tensors are contiguous. Kernels
// check every index that they follow.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

// out[r] = sum over the elements e of row r of values[e] * dense[col[e]].
SLOT(csr_mm, void(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense,
                  const Tensor& out))
// out[e] = the dot product of a[row of e] and b[col[e]].
SLOT(csr_sampled_dot, void(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b,
                           const Tensor& out))
// The row of each element.
SLOT(csr_rows, void(const Tensor& crow, const Tensor& rows))
// Whether the coordinates of a matrix, a row of rows and one of columns, ascend: in one walk, which
// processors need. Others compare numbers of positions.
SLOT(matrix_ascends, void(const Tensor& indices, bool& ascends))
// The positions of `index` ordered by their values, equal ones in their order, and where each value
// starts. The order may be left undefined by who has no use for it.
SLOT(group_by_index, void(const Tensor& index, const Tensor& starts, const Tensor& order))

}  // namespace flambeau::kernels
