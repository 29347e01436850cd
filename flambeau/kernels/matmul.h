// The slot of matrix products: out = alpha * a @ b + beta * addend, for a batch of matrices with
// any strides. Ops fill a Gemm; backends choose a library or a loop of their own by its size.
#pragma once

#include "flambeau/kernels/slot.h"
#include "flambeau/tensor/int_span.h"
#include "flambeau/tensor/scalar.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// A matrix, or one for each index of the batch. Strides are in elements.
struct Matrix {
  void* data = nullptr;
  int64_t row = 0, col = 0;  // from one row to the next, from one column to the next
  Dims batch;
};

struct Gemm {
  const char* op = "mm";  // for messages
  DType dtype = DType::float32;
  int64_t m = 0, n = 0, k = 0;
  Dims batch;  // sizes, outermost first, merged as far as the strides allow
  Matrix a, b, out;
  Matrix addend;  // no data: none. May be `out` itself, may have strides of 0.
  Scalar alpha = 1.0;
  Scalar beta = 0.0;  // with 0 the addend is not read, so its NaNs do not spread

  [[nodiscard]] int64_t batch_count() const {
    int64_t count = 1;
    for (const int64_t size : batch) count *= size;
    return count;
  }
};

namespace kernels {
SLOT(gemm, void(const Gemm& product))
// out = gelu, in its form with tanh, or relu of alpha * a @ b + bias, in one kernel. The bias is
// added to every row; all are of one floating dtype, out and bias contiguous. Devices need not have
// it, and `done` is false where theirs has no algorithm.
SLOT(gemm_activation, void(const Tensor& out, const Tensor& bias, const Tensor& a, const Tensor& b,
                           const Scalar& alpha, bool gelu, bool& done))
}  // namespace kernels

}  // namespace flambeau
