// What normalisations share: the dtype of their statistics and which parameters go with an input.
#pragma once

#include <initializer_list>

#include "flambeau/base/check.h"
#include "flambeau/ops/ops.h"

namespace flambeau {

// Means, variances and sums of losses are kept in single precision at least.
inline DType stat_dtype(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

inline Tensor as_stat(const Tensor& x) {
  if (!x.defined()) return x;
  const DType dtype = stat_dtype(x.dtype());
  return contiguous(x.dtype() == dtype ? x : to(x, dtype));
}

// Parameters have the dtype of the input; to half precision, all may be of single precision.
inline void check_parameter_types(const char* op, const Tensor& input,
                                  std::initializer_list<const Tensor*> parameters) {
  DType wanted = input.dtype();
  bool first = true;
  for (const Tensor* parameter : parameters) {
    if (!parameter->defined()) continue;
    const DType dtype = parameter->dtype();
    if (first && dtypes::Reduced.has(wanted) && dtype == DType::float32) wanted = dtype;
    first = false;
    CHECK(dtype == wanted, RuntimeError,
          "mixed dtype (CPU): all inputs must share same datatype. ({}: input {}, parameter {})",
          op, input.dtype(), dtype);
  }
}

}  // namespace flambeau
