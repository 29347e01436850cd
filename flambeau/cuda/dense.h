// Tensors as kernels of rows want them: the dimension that is worked along last, and no gaps.
#pragma once

#include <array>

#include "flambeau/kernels/elementwise.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau::cuda {

inline void copy_into(const char* op, const Tensor& to, const Tensor& from) {
  TensorIter iter;
  Tensor out = to;
  const DType dtype = to.dtype();
  iter.build({op, false, false}, &out, &dtype, 1, std::array{Operand(from)}.data(), 1,
             from.dtype());
  kernels::copy(DeviceType::cuda, iter);
}

// The same elements with `dim` as the last dimension.
inline Tensor dim_last(const Tensor& x, int64_t dim) {
  if (x.dim() < 2 || dim == x.dim() - 1) return x;
  Dims sizes, strides;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (d == dim) continue;
    sizes.push_back(x.sizes()[d]);
    strides.push_back(x.strides()[d]);
  }
  sizes.push_back(x.sizes()[dim]);
  strides.push_back(x.strides()[dim]);
  return make_alias(x, sizes, strides, x.offset());
}

inline Tensor dense(const char* op, const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor copy = make_tensor(x.sizes(), x.dtype(), x.device());
  copy_into(op, copy, x);
  return copy;
}

// A result to write into: the tensor itself if it has no gaps, otherwise one that is copied to it.
class DenseResult {
 public:
  explicit DenseResult(const Tensor& result)
      : result_(result),
        work_(result.is_contiguous()
                  ? result
                  : make_tensor(result.sizes(), result.dtype(), result.device())) {}
  [[nodiscard]] const Tensor& work() const { return work_; }
  void finish(const char* op) const {
    if (!work_.is_same(result_)) copy_into(op, result_, work_);
  }

 private:
  Tensor result_, work_;
};

}  // namespace flambeau::cuda
