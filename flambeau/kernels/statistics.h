// The slots of counting, ordering by rows, and distances between points. Tensors are contiguous
// unless a line says otherwise; the ops around them have widened dtypes to those named here.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"
#include "flambeau/tensor/tensor_iter.h"

namespace flambeau::kernels {

// Where each value would stand among ascending boundaries, which are one row for all values or one
// a row of values. int64, float32 or float64; `sorter` (int64) may be undefined; `out` is int64.
SLOT(searchsorted, void(const Tensor& boundaries, const Tensor& values, const Tensor& sorter,
                        const Tensor& out, bool right))
// counts[positions[i]] += weights[i], or one. Positions are int64 and in range; counts are zeros.
SLOT(bincount, void(const Tensor& positions, const Tensor& weights, const Tensor& counts))
// counts[k] += weights[i], or one, where edges[k] <= values[i] < edges[k + 1]; the last edge counts
// as inside. Edges are about evenly spaced. Values, edges and weights are float32 or float64,
// counts float64 zeros.
SLOT(even_histogram,
     void(const Tensor& values, const Tensor& edges, const Tensor& weights, const Tensor& counts))
// counts[k] += 1 for the part k, of the equal ones between low and high, that each value lies in;
// those outside are counted behind the last one. Values are float32 or float64, counts int64 zeros.
SLOT(count_parts, void(const Tensor& values, double low, double high, const Tensor& counts))
// The indices (int64) that put the rows of a matrix of int64 or float64 in lexicographic order.
SLOT(row_order, void(const Tensor& rows, const Tensor& order))
// Fraction and power of two (int32) of each element: two outputs, one input.
SLOT(frexp, void(const TensorIter& iter))
// out[b, i, j]: the p-distance of x1[b, i, :] and x2[b, :, j]; float32 or float64.
SLOT(cdist, void(const Tensor& x1, const Tensor& x2, const Tensor& out, double p))
// out[i]: what g[b, i, j] changes of x1[b, i, :] by the 2-distances d[b, i, j] to x2[b, j, :]. On
// the CPU only.
SLOT(cdist_backward,
     void(const Tensor& g, const Tensor& x1, const Tensor& x2, const Tensor& d, const Tensor& out))
// The p-distances of the columns i < j of points[:, i], row after row. On the CPU only.
SLOT(pdist, void(const Tensor& points, const Tensor& out, double p))
// Vector products. Operands are the first elements of vectors, whose others follow in `steps`
// (bytes): out, a, b. On the CPU only.
SLOT(cross, void(const TensorIter& iter, const int64_t* steps))

}  // namespace flambeau::kernels
