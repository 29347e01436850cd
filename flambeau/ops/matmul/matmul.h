// Products of matrices for the op library: matrices as strides, so that transposes, vectors and
// batches cost no views, and one differentiable product that the ops are made of.
#pragma once

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/matmul.h"
#include "flambeau/tensor/tensor.h"

namespace flambeau {

// A tensor read as a matrix, or as a batch of them.
struct MatrixView {
  const Tensor* tensor = nullptr;  // none: no matrix
  int64_t rows = 1, cols = 1;
  int64_t row = 0, col = 0;  // strides
  IntSpan batch, batch_strides;
};
MatrixView as_matrix(const Tensor& tensor, bool transposed = false);  // of at least 2 dimensions
MatrixView as_row(const Tensor& vector);
MatrixView as_column(const Tensor& vector);
// The tensor broadcast to the shape of `out`, which was made from a tensor of shape `shape`.
MatrixView as_addend(const Tensor& tensor, const MatrixView& out);

// Computes out = alpha * a @ b + beta * addend. Batches broadcast to that of out. No history.
void multiply(const char* op, const MatrixView& out, const MatrixView& a, const MatrixView& b,
              const MatrixView& addend = {}, const Scalar& beta = 0.0, const Scalar& alpha = 1.0);

// a @ b with either side transposed, batches broadcast; recorded under the name `op`. Shapes and
// dtypes have been checked.
Tensor product(const char* op, const Tensor& a, bool transpose_a, const Tensor& b,
               bool transpose_b);

// Keeps an operand of a product for the gradient of `input`: unless it is a matrix, a view of it,
// so that detach_() on the operand does not touch what was kept.
Saved save_operand(const Record& r, size_t input, const Tensor& operand);

// All but the last dimension as one: the rows of a product.
Tensor as_rows(const Tensor& x);

// Raises in PyTorch's words unless both have one dtype and device.
void check_same_dtype(const Tensor& a, const Tensor& b);
// An out= argument, resized; raises if its dtype differs.
void prepare_out(const char* op, const Tensor& out, IntSpan sizes, DType dtype);
Tensor dot(const Tensor& input, const Tensor& tensor);

// Kernels write while they read: an output in the memory of an input needs a copy first.
bool shares_memory(const Tensor& out, const Tensor& a, const Tensor& b);
Tensor write_out(const char* op, const Tensor& out, const Tensor& result);

// input + value * tensor1 * tensor2, element by element.
Tensor addcmul(const Tensor& input, const Tensor& tensor1, const Tensor& tensor2,
               const Scalar& value);

// "float", "long int": how messages of matrix products spell dtypes.
std::string_view cpp_type_name(DType dtype);

}  // namespace flambeau
