// Ops on sparse tensors that other C++ code calls: what rows, copies and the engine hand over when
// they are given one. Derivatives of all of them are with respect to the sparse tensor as a whole:
// where a coordinate is stored twice, the gradient has it once.
#pragma once

#include <optional>
#include <string_view>

#include "flambeau/ops/ops.h"
#include "flambeau/tensor/sparse.h"

namespace flambeau {

struct UnaryRow;
struct BinaryRow;

// A tensor by coordinates with values that may have a history.
Tensor sparse_coo(const Tensor& indices, const Tensor& values, IntSpan size, bool coalesced);
// The stored elements, with the history of the sparse tensor.
Tensor sparse_values(const Tensor& sparse);
// The same indices with other values.
Tensor with_values(const Tensor& sparse, const Tensor& values);
Tensor coalesce(const Tensor& sparse);
Tensor to_coo(const Tensor& sparse);
// By rows (CSR) or columns (CSC), with indices of `index`, or of int64 if there are too many for
// it.
Tensor recompressed(const Tensor& sparse, Layout layout, DType index = DType::int64);
// The dtype of the indices; by coordinates it is always int64.
DType index_dtype(const Tensor& sparse);
Tensor to_dense(const Tensor& input, bool masked_grad = true);
// The values of a dense or sparse tensor at the columns of `indices`.
Tensor values_at(const Tensor& tensor, const Tensor& indices);
// A column of coordinates for each stored element of any layout, in the order of the values.
Tensor stored_coordinates(const Tensor& sparse);
// Coordinates as one number each.
Tensor coordinate_numbers(const Tensor& indices, IntSpan size);
// Where numbers stand in a list of ascending ones, -1 for those that are not there. Where it is
// known: whether all are, and whether the two lists are the same.
struct FoundNumbers {
  Tensor at;
  bool all = false, same = false;
};
FoundNumbers find_numbers(const Tensor& ascending, const Tensor& wanted);
// The gradient of a table from that of each row that was taken out of it; the padding row has none.
Tensor table_of_rows(const Tensor& indices, const Tensor& values, int64_t rows, int64_t padding);
Tensor transpose_sparse(const Tensor& input, int64_t dim0, int64_t dim1);

// What ops of the same names do with sparse tensors. `out` is undefined or the first operand.
Tensor clone_sparse(const Tensor& input);
Tensor sparse_to(const Tensor& input, Device device, DType dtype);
Tensor copy_sparse_(const Tensor& self, const Tensor& source);
Tensor zero_sparse_(const Tensor& self);
Tensor sparse_unary(const UnaryRow& row, const Tensor& input, const Scalar* params, int n_params,
                    const Tensor& out);
Tensor sparse_binary(const BinaryRow& row, const Operand& a, const Operand& b, const Tensor& out);
// a + alpha * b
Tensor sparse_sum(const char* op, const Operand& a, const Operand& b, const Scalar& alpha,
                  const Tensor& out);
Tensor sparse_pow(const Tensor& input, const Operand& exponent);

}  // namespace flambeau
