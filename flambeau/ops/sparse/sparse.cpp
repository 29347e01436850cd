// Products of sparse matrices with dense ones, by compressed rows, and what changes indices: the
// transpose, compression.
#include "flambeau/ops/sparse/sparse.h"

#include <algorithm>

#include "flambeau/autograd/record.h"
#include "flambeau/kernels/sparse.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/tensor/shape.h"

namespace flambeau {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

void check_groups(const Tensor& index, int64_t groups) {
  CHECK(index.dim() == 1 && index.dtype() == DType::int64, RuntimeError,
        "_group_by_index: expected a vector of int64, got {} of {}", index.sizes(), index.dtype());
  CHECK(groups >= 0 && groups < INT64_MAX, RuntimeError,
        "_group_by_index: {} is no number of groups that there can be", groups);
}

// Where each value starts in the ordered index.
Tensor group_starts(const Tensor& index, int64_t groups) {
  check_groups(index, groups);
  Tensor starts = make_tensor({groups + 1}, DType::int64, index.device());
  kernels::group_by_index(index.device_type(), contiguous(index), starts, Tensor());
  return starts;
}

Pair group_by_index(const Tensor& index, int64_t groups) {
  check_groups(index, groups);
  const Tensor dense = contiguous(index);
  Tensor starts = make_tensor({groups + 1}, DType::int64, index.device());
  Tensor order = make_tensor(index.sizes(), DType::int64, index.device());
  kernels::group_by_index(index.device_type(), dense, starts, order);
  return {starts, order};
}
OP_FUNCTION(group_by_index, "_group_by_index(index, groups)",
            "Where each value starts in the ordered index, and the order.")

// The row of each element.
Tensor row_numbers(const Tensor& crow, int64_t count) {
  Tensor rows = make_tensor({count}, DType::int64, crow.device());
  kernels::csr_rows(crow.device_type(), contiguous(crow), rows);
  return rows;
}
OP_FUNCTION(row_numbers, "_csr_rows(crow, count)", "The row of each element of compressed rows.")

// The transposed matrix: its rows, columns, and which of our elements its elements are.
std::tuple<Tensor, Tensor, Tensor> transposed(const Tensor& crow, const Tensor& col,
                                              int64_t columns) {
  const NoGrad off;
  auto [starts, order] = group_by_index(col, columns);
  return {starts, index_select(row_numbers(crow, col.numel()), 0, order), order};
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
  const auto [starts, indices, order] = transposed(crow, col, columns);
  return csr_mm(starts, indices, index_select(values, 0, order), dense);
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
            "The elements of a @ b.T at the indices of a sparse matrix.")

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

struct Rows {
  Tensor starts, columns, values;  // values have the history of the matrix
};

Rows rows_of(const Tensor& matrix) {
  CHECK(matrix.dim() == 2 && dense_dim(matrix) == 0, RuntimeError,
        "sparse.mm: expected a sparse matrix of numbers, but got {} sparse and {} dense dimensions",
        sparse_dim(matrix), dense_dim(matrix));
  if (matrix.layout() == Layout::sparse_csr) {
    const SparseParts& parts = parts_of(matrix);
    return {to(parts.indices, DType::int64), to(parts.plain, DType::int64), sparse_values(matrix)};
  }
  const Tensor coo = to_coo(matrix);
  const SparseParts& parts = parts_of(coo);
  const Tensor rows = select(parts.indices, 0, 0), columns = select(parts.indices, 0, 1);
  const Tensor values = sparse_values(coo);
  // Coalesced elements stand in the order of rows already.
  if (parts.coalesced) return {group_starts(rows, matrix.size(0)), columns, values};
  const auto [starts, order] = group_by_index(rows, matrix.size(0));
  return {starts, index_select(columns, 0, order), index_select(values, 0, order)};
}

// The gradient of a sparse factor at the indices it stores.
Tensor masked_gradient(const Tensor& g, const Tensor& matrix, const Tensor& dense) {
  if (!is_coo(matrix)) {
    const Rows rows = rows_of(matrix);
    const Tensor values = sampled_dot(rows.starts, rows.columns, g, conjugated(dense));
    if (matrix.layout() == Layout::sparse_csr) return with_values(detach(matrix), values);
    const Tensor indices = parts_of(to_coo(detach(matrix))).indices;
    return sparse_coo(indices, values, matrix.sizes(), true);
  }
  const Tensor together = coalesce(detach(matrix));
  const Rows rows = rows_of(together);
  const Tensor values = sampled_dot(rows.starts, rows.columns, g, conjugated(dense));
  return sparse_coo(parts_of(together).indices, values, matrix.sizes(), false);
}

// Whether the matrix was just made of values, which take the gradient at its indices only.
bool takes_masked_gradient(const Tensor& matrix) {
  const NodePtr node = matrix.requires_grad() ? grad_fn(matrix) : NodePtr();
  return node && std::string_view(node->op()).starts_with("sparse_co");
}

Tensor sparse_mm(const Tensor& mat1, const Tensor& mat2, bool masked) {
  CHECK(mat1.is_sparse() && !mat2.is_sparse(), RuntimeError,
        "sparse.mm: expected a sparse and a dense matrix");
  wrap_dim("sparse.mm", 1, mat2.dim());
  CHECK(mat1.dim() == 2 && mat2.dim() == 2 && mat1.size(1) == mat2.size(0), RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})",
        mat1.dim() == 2 ? mat1.size(0) : -1, mat1.dim() == 2 ? mat1.size(1) : -1,
        mat2.dim() == 2 ? mat2.size(0) : -1, mat2.dim() == 2 ? mat2.size(1) : -1);
  masked = masked || takes_masked_gradient(mat1);
  Tensor out;
  {
    const NoGrad off;
    const Rows rows = rows_of(mat1);
    out = csr_mm(rows.starts, rows.columns, rows.values, mat2);
  }
  if (Record r{masked ? "sparse_addmm" : "mm", out, {mat1, mat2}}) {
    const Saved matrix = r.save(mat1);
    r.wrt(0, [matrix, dense = r.wants(0) ? r.save(mat2) : Saved(), masked](const Tensor& g) {
      return masked ? masked_gradient(g, matrix(), dense())
                    : mm(g, conjugated(transpose(dense(), 0, 1)));
    });
    r.wrt(1, [matrix](const Tensor& g) {
      const Tensor m = matrix();
      const Rows rows = rows_of(m);
      return transposed_mm(rows.starts, rows.columns, conjugated(rows.values), g, m.size(1));
    });
  }
  return out;
}
OP_FUNCTION(
    sparse_mm, "_sparse_dense_mm(mat1, mat2, masked)",
    "The product of a sparse and a dense matrix. A masked gradient of the sparse one has the "
    "same indices.",
    takes_sparse)

// The sum of all elements.
Tensor sparse_total(const Tensor& input, std::optional<DType> dtype) {
  Tensor out;
  {
    const NoGrad off;
    out = sum(parts_of(input).values, dtype);
  }
  if (Record r{"sum", out, {input}}) {
    r.wrt(0, [size = input.sizes().dims()](const Tensor& g) { return expand(g, size); });
  }
  return out;
}
OP_FUNCTION(sparse_total, "_sparse_total(input, dtype=None)", "The sum of all elements.",
            takes_sparse)

}  // namespace

DType index_dtype(const Tensor& sparse) { return parts_of(sparse).indices.dtype(); }

Tensor recompressed(const Tensor& input, Layout layout, DType index) {
  CHECK(layout == Layout::sparse_csr || layout == Layout::sparse_csc, NotImplementedError,
        "a tensor cannot be converted to layout {} here", layout_word(layout));
  CHECK(input.dim() >= 2 && sparse_dim(input) == 2, RuntimeError,
        "to_sparse_{}: only tensors of two sparse dimensions can be converted, but got {} sparse "
        "and {} dense dimensions",
        layout == Layout::sparse_csr ? "csr" : "csc", sparse_dim(input), dense_dim(input));
  const Tensor together = coalesce(to_coo(input));
  const bool rows = layout == Layout::sparse_csr;
  const Tensor& indices = parts_of(together).indices;
  const Tensor outer = select(indices, 0, rows ? 0 : 1);
  Tensor plain = contiguous(select(indices, 0, rows ? 1 : 0)), values = sparse_values(together);
  Tensor starts;
  if (rows) {
    starts = group_starts(outer, input.size(0));
  } else {
    Tensor order;
    std::tie(starts, order) = group_by_index(outer, input.size(1));
    plain = index_select(plain, 0, order), values = index_select(values, 0, order);
  }
  if (index == DType::int32 && std::max({plain.numel(), input.size(0), input.size(1)}) < INT32_MAX)
    starts = to(starts, index), plain = to(plain, index);
  return with_values(make_compressed(layout, starts, plain, detach(values), input.sizes()), values);
}
namespace {
Tensor compress(const Tensor& input, Layout layout, std::optional<DType> index) {
  return recompressed(input, layout, index.value_or(index_dtype(input)));
}
}  // namespace
OP_FUNCTION(compress, "_sparse_compress(input, layout, index=None)",
            "The same by compressed rows or columns, with indices of the dtype `index`.",
            takes_sparse | no_out)

Tensor transpose_sparse(const Tensor& input, int64_t dim0, int64_t dim1) {
  REDIRECT(_sparse_transpose, input, dim0, dim1)
  dim0 = wrap_dim(dim0, input.dim()), dim1 = wrap_dim(dim1, input.dim());
  const SparseParts& parts = parts_of(input);
  Dims size = input.sizes().dims();
  if (dim0 == dim1 || input.dim() == 0) return input;
  std::swap(size[dim0], size[dim1]);
  Tensor out;
  if (is_coo(input)) {
    const int64_t indexed = parts.indices.size(0);
    CHECK((dim0 < indexed) == (dim1 < indexed), RuntimeError,
          "transpose: Cannot transpose a sparse and a dense dimension; got dims {} and {} of {} "
          "sparse and {} dense ones",
          dim0, dim1, indexed, dense_dim(input));
    const NoGrad off;
    if (dim0 >= indexed) {
      const Tensor values = transpose(parts.values, dim0 - indexed + 1, dim1 - indexed + 1);
      out = make_coo(parts.indices, values, size, parts.coalesced);
    } else {
      std::vector<Tensor> rows = unbind(parts.indices, 0);
      std::swap(rows[dim0], rows[dim1]);
      out = make_coo(stack(rows, 0), parts.values, size, false);
    }
  } else {
    CHECK(input.dim() == 2, NotImplementedError,
          "transpose: compressed tensors of {} dimensions are not supported", input.dim());
    const NoGrad off;
    constexpr Layout transposed[] = {Layout::sparse_csc, Layout::sparse_csr, Layout::sparse_bsc,
                                     Layout::sparse_bsr};
    const Layout layout = transposed[static_cast<int>(input.layout()) - 2];
    const Tensor values = is_blocked(layout) ? transpose(parts.values, -2, -1) : parts.values;
    out = make_compressed(layout, parts.indices, parts.plain, values, size);
  }
  if (Record r{"transpose", out, {input}}) {
    r.wrt(0, [dim0, dim1](const Tensor& g) {
      return g.is_sparse() ? transpose_sparse(g, dim0, dim1) : transpose(g, dim0, dim1);
    });
  }
  return out;
}
OP_FUNCTION(transpose_sparse, "_sparse_transpose(input, dim0, dim1)",
            "A sparse tensor with two dimensions exchanged.", takes_sparse | no_out)

}  // namespace flambeau
