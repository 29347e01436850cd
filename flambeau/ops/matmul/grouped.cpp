// Products of groups of matrices, as layers of many experts have them.
#include <algorithm>

#include "flambeau/ops/layers/call_op.h"
#include "flambeau/ops/ops.h"

namespace flambeau {
namespace {

void check_factor(const char* name, const Tensor& matrix) {
  const DType dtype = matrix.dtype();
  CHECK(dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16,
        RuntimeError, "Expected {} to be Float32, BFloat16 or Float16 matrix, got {}", name, dtype);
}

void check_strides(const Tensor& matrix) {
  const int64_t rows = matrix.stride(-2), columns = matrix.stride(-1);
  const int64_t step = rows == 1 && matrix.size(-1) != 1 ? columns : rows;
  CHECK(step * matrix.item_size() % 16 == 0, RuntimeError,
        "strides should be multiple of 16 bytes, got strides {} of {}", matrix.strides(),
        matrix.dtype());
}

void check_groups(const Tensor& a, const Tensor& b, const Tensor& offs, const Tensor& bias,
                  std::optional<DType> out_dtype) {
  check_factor("mat_a", a);
  check_factor("mat_b", b);
  CHECK(a.dtype() == b.dtype(), RuntimeError,
        "Expected mat_a and mat_b to have the same dtype, got {} and {}", a.dtype(), b.dtype());
  CHECK(a.dim() == 2 || a.dim() == 3, RuntimeError, "mat_a has to be 2 or 3d, got shape {}",
        a.sizes());
  CHECK(b.dim() == 2 || b.dim() == 3, RuntimeError, "mat_b has to be 2 or 3d, got shape {}",
        b.sizes());
  CHECK((a.dim() == 2 && b.dim() == 2) || a.size(-1) == b.size(-2), RuntimeError,
        "contraction dimension of mat_a and mat_b must match, got shapes {} and {}", a.sizes(),
        b.sizes());
  check_strides(a);
  check_strides(b);
  CHECK(offs.defined() != (a.dim() == 3 && b.dim() == 3), RuntimeError,
        "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  CHECK(!offs.defined() || (offs.dim() == 1 && offs.dtype() == DType::int32), RuntimeError,
        "Offsets have to be int32 in one dimension, got {}", offs.dtype());
  CHECK(!bias.defined(), RuntimeError, "Bias not supported yet");
  CHECK(!out_dtype || *out_dtype == a.dtype(), RuntimeError,
        "Grouped gemm output dtype must match `mat_a` dtype");
}

// Group i is what stands before offs[i] along a dimension of this length.
struct Groups {
  Groups(const Tensor& offs, int64_t length) : length(length) {
    const Tensor host = to(offs, Device());
    for (int64_t i = 0; i < host.size(0); ++i)
      ends.push_back(std::clamp<int64_t>(item(select(host, 0, i)).to_int(), 0, length));
  }
  [[nodiscard]] Tensor of(const Tensor& x, int64_t dim, size_t i) const {
    return slice(x, dim, i == 0 ? 0 : ends[i - 1], ends[i], 1);
  }
  std::vector<int64_t> ends;
  int64_t length;
};

// The products of groups side by side, and zeros behind the last one.
Tensor joined(std::vector<Tensor> parts, const Tensor& like, int64_t length, int64_t other,
              int64_t dim) {
  for (const Tensor& part : parts) length -= part.size(dim);
  const Dims rest = dim == 0 ? Dims{length, other} : Dims{other, length};
  parts.push_back(tensor_op("new_zeros", {like, rest}));
  return cat(parts, dim);
}

Tensor grouped_mm(const Tensor& a, const Tensor& b, const Tensor& offs, const Tensor& bias,
                  std::optional<DType> out_dtype) {
  check_groups(a, b, offs, bias, out_dtype);
  if (!offs.defined()) {
    CHECK(a.size(0) == b.size(0), RuntimeError, "batched dimension has to match, got {}, {}",
          a.size(0), b.size(0));
    return bmm(a, b);
  }
  const Tensor& stacked = a.dim() == 3 ? a : b;
  CHECK(stacked.dim() == 2 || stacked.size(0) == offs.size(0), RuntimeError,
        "matrix batch sizes have to match, got {}, {}", stacked.size(0), offs.size(0));
  std::vector<Tensor> parts;
  if (stacked.dim() == 2) {
    const Groups groups(offs, a.size(1));
    for (size_t i = 0; i < groups.ends.size(); ++i) {
      const Tensor left = groups.of(a, 1, i);
      parts.push_back(mm(left, groups.of(b, 0, i)));
    }
    return stack(parts, 0);
  }
  const bool of_rows = b.dim() == 3;
  const Groups groups(offs, of_rows ? a.size(0) : b.size(1));
  const std::vector<Tensor> each = unbind(stacked, 0);
  for (size_t i = 0; i < each.size(); ++i)
    parts.push_back(of_rows ? mm(groups.of(a, 0, i), each[i]) : mm(each[i], groups.of(b, 1, i)));
  return of_rows ? joined(std::move(parts), a, groups.length, b.size(2), 0)
                 : joined(std::move(parts), a, groups.length, a.size(1), 1);
}
OP_FUNCTION(grouped_mm, "_grouped_mm(mat_a, mat_b, offs=None, bias=None, out_dtype=None)",
            "Products of groups of matrices. Of a matrix of 2 dimensions, group i is what stands "
            "before offs[i] along the dimension that is not shared (or, where both have 2, along "
            "the shared one); of one of 3, it is element i.",
            composed | no_out)

}  // namespace
}  // namespace flambeau
