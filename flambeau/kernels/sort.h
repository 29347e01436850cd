// The slots of sorting and selection along a dimension. Tensors may have any strides; `indices` are
// int64. NaN counts as the largest value, and equal elements stand in the order of their indices.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::kernels {

SLOT(sort, void(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                bool descending))
// The k first of the sorted elements: values and indices have size k along dim.
SLOT(topk, void(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k,
                int64_t dim, bool largest))
// The k-th smallest, k counting from 1: values and indices have size one along dim.
SLOT(kthvalue,
     void(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t k, int64_t dim))
// The lower of the two middle elements. NaN if there is one, unless these are left out.
SLOT(median, void(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim,
                  bool ignore_nan))
// The most frequent element, the least of several, at its last index: values and indices have size
// one along dim. NaNs differ from one another; where all elements do, the first of them is taken.
// On the CPU only.
SLOT(mode, void(const Tensor& input, const Tensor& values, const Tensor& indices, int64_t dim))

}  // namespace flambeau::kernels
