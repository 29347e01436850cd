// Products of sparse matrices in compressed rows with dense ones, for the Python package `sparse`,
// which keeps indices and values in tensors of their own.
#include "flambeau/kernels/sparse.h"

#include "flambeau/autograd/record.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

Pair group_by_index(const Tensor& index, int64_t groups) {
  CHECK(index.dim() == 1 && index.dtype() == DType::int64, RuntimeError,
        "_group_by_index: expected a vector of int64, got {} of {}", index.sizes(), index.dtype());
  CHECK(groups >= 0, RuntimeError, "_group_by_index: groups must not be negative, got {}", groups);
  const Tensor dense = contiguous(index);
  Tensor starts = make_tensor({groups + 1}, DType::int64, index.device());
  Tensor order = make_tensor(index.sizes(), DType::int64, index.device());
  kernels::group_by_index(index.device_type(), dense, starts, order);
  return {starts, order};
}
OP_FUNCTION(group_by_index, "_group_by_index(index, groups)",
            "Where each value starts in the ordered index, and the order.")

// The row of each element.
Tensor rows_of(const Tensor& crow, int64_t count) {
  Tensor rows = make_tensor({count}, DType::int64, crow.device());
  kernels::csr_rows(crow.device_type(), contiguous(crow), rows);
  return rows;
}
OP_FUNCTION(rows_of, "_csr_rows(crow, count)", "The row of each element of compressed rows.")

// The transposed matrix: its rows, columns, and which of our elements its elements are.
std::tuple<Tensor, Tensor, Tensor> transposed(const Tensor& crow, const Tensor& col,
                                              int64_t columns) {
  const NoGrad off;
  auto [starts, order] = group_by_index(col, columns);
  return {starts, index_select(rows_of(crow, col.numel()), 0, order), order};
}

void check(const Tensor& crow, const Tensor& col) {
  CHECK(crow.dim() == 1 && crow.numel() >= 1 && col.dim() == 1 && crow.dtype() == DType::int64 &&
            col.dtype() == DType::int64,
        RuntimeError,
        "sparse.mm: crow_indices and col_indices must be vectors of int64, got {} of {} and {} of "
        "{}",
        crow.sizes(), crow.dtype(), col.sizes(), col.dtype());
}

Tensor conjugated(const Tensor& x) { return x.is_complex() ? conj_physical(x) : x; }

Tensor csr_mm(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense);

Tensor transposed_mm(const Tensor& crow, const Tensor& col, const Tensor& values,
                     const Tensor& dense, int64_t columns) {
  const auto [starts, places, order] = transposed(crow, col, columns);
  return csr_mm(starts, places, index_select(values, 0, order), dense);
}

Tensor sampled_dot(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b) {
  check(crow, col);
  CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1) && a.size(0) == crow.numel() - 1 &&
            a.dtype() == b.dtype(),
        RuntimeError, "sparse: cannot take products of rows of {} {} and {} {}", a.sizes(),
        a.dtype(), b.sizes(), b.dtype());
  Tensor out = make_tensor(col.sizes(), a.dtype(), a.device());
  kernels::csr_sampled_dot(a.device_type(), contiguous(crow), contiguous(col),
                           contiguous(detach(a)), contiguous(detach(b)), out);
  if (Record r{"_csr_sampled_dot", out, {a, b}}) {
    r.all([crow, col, x = r.save(a), y = r.save(b)](Grads& in, Grads& to) {
      if (!in[0].defined()) return;
      const Tensor left = x(), right = y();
      to[0] = csr_mm(crow, col, in[0], conjugated(right));
      to[1] = transposed_mm(crow, col, in[0], conjugated(left), right.size(0));
    });
  }
  return out;
}
OP_FUNCTION(sampled_dot, "_csr_sampled_dot(crow, col, a, b)",
            "The elements of a @ b.T at the places of a sparse matrix.")

Tensor csr_mm(const Tensor& crow, const Tensor& col, const Tensor& values, const Tensor& dense) {
  check(crow, col);
  CHECK(values.dim() == 1 && values.numel() == col.numel(), RuntimeError,
        "sparse.mm: expected one value for each of {} elements, got {}", col.numel(),
        values.sizes());
  CHECK(dense.dim() == 2, RuntimeError, "sparse.mm: expected a dense matrix, got {}",
        dense.sizes());
  CHECK(values.dtype() == dense.dtype(), RuntimeError,
        "sparse.mm: expected both matrices to have the same dtype, but got {} and {}",
        values.dtype(), dense.dtype());
  Tensor out = make_tensor({crow.numel() - 1, dense.size(1)}, dense.dtype(), dense.device());
  kernels::csr_mm(dense.device_type(), contiguous(crow), contiguous(col),
                  contiguous(detach(values)), contiguous(detach(dense)), out);
  if (Record r{"_csr_mm", out, {values, dense}}) {
    r.all([crow, col, v = r.save(values), x = r.save(dense), wants_values = r.wants(0),
           wants_dense = r.wants(1)](Grads& in, Grads& to) {
      if (!in[0].defined()) return;
      if (wants_values) to[0] = sampled_dot(crow, col, in[0], conjugated(x()));
      if (wants_dense) to[1] = transposed_mm(crow, col, conjugated(v()), in[0], x().size(0));
    });
  }
  return out;
}
OP_FUNCTION(csr_mm, "_csr_mm(crow, col, values, dense)",
            "The product of a sparse matrix in compressed rows and a dense matrix.")

}  // namespace
}  // namespace flambeau
