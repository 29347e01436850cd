// Norms of matrices, and linalg.norm, which chooses between them and those of vectors.
#include <cmath>

#include "flambeau/ops/linalg/linalg.h"

namespace flambeau {
namespace {

void check_norm(const Tensor& a, IntSpan dim, std::optional<DType> dtype) {
  constexpr const char* op = "linalg.matrix_norm";
  check_matrix(op, a);
  check_float(op, a);
  CHECK(dim.size() == 2, RuntimeError, "{}: dim must be a 2-tuple. Got {}", op,
        dim.size() == 1 ? to_text(dim[0]) : to_text(dim));
  CHECK(wrap_dim(dim[0], a.dim()) != wrap_dim(dim[1], a.dim()), RuntimeError,
        "{}: dims must be different. Got ({}, {})", op, dim[0], dim[1]);
  if (dtype) {
    CHECK(is_differentiable(*dtype), RuntimeError,
          "{}: dtype should be floating point or complex. Got {}", op, dtype_legacy_name(*dtype));
    CHECK(is_complex(*dtype) == a.is_complex(), RuntimeError,
          "{}: dtype should be {} for {} inputs. Got {}", op, a.is_complex() ? "complex" : "real",
          a.is_complex() ? "complex" : "real", dtype_legacy_name(*dtype));
  }
}

// With the two dimensions last.
Tensor matrices(const Tensor& a, IntSpan dim, std::optional<DType> dtype) {
  const Tensor x = dtype && *dtype != a.dtype() ? to(a, *dtype) : a;
  return movedim(x, dim, IntSpan{-2, -1});
}

Tensor keep(const Tensor& reduced, IntSpan dim, int64_t rank, bool keepdim) {
  if (!keepdim) return reduced;
  const Dims to{wrap_dim(dim[0], rank), wrap_dim(dim[1], rank)};
  return movedim(unsqueeze(unsqueeze(reduced, -1), -1), IntSpan{-2, -1}, to);
}

}  // namespace

Tensor linalg_matrix_norm(const Tensor& a, const Scalar& ord, IntSpan dim, bool keepdim,
                          std::optional<DType> dtype) {
  check_norm(a, dim, dtype);
  CHECK(!ord.is_complex(), RuntimeError,
        "linalg.matrix_norm: Expected a non-complex scalar as the order of norm, but got {}", ord);
  const double order = ord.to_double(), size = std::abs(order);
  CHECK(size == 1 || size == 2 || std::isinf(size), RuntimeError,
        "linalg.matrix_norm: Order {} not supported.", order);
  // The largest of no values is zero, and a function of nothing; the smallest is an error.
  const auto extreme = [order](const Tensor& x, int64_t along, bool keep_it) {
    if (order < 0) return amin(x, IntSpan{along}, keep_it);
    if (x.size(along) > 0) return amax(x, IntSpan{along}, keep_it);
    return sum(detach(x), IntSpan{along}, keep_it);
  };
  if (size == 2) {
    const Tensor s = linalg_svdvals(matrices(a, dim, dtype), std::nullopt);
    return keep(extreme(s, -1, false), dim, a.dim(), keepdim);
  }
  int64_t summed = wrap_dim(dim[0], a.dim()), chosen = wrap_dim(dim[1], a.dim());
  if (std::isinf(size)) std::swap(summed, chosen);
  const Tensor sums = linalg_vector_norm(a, 1.0, IntSpan{summed}, keepdim, dtype);
  return extreme(sums, !keepdim && chosen > summed ? chosen - 1 : chosen, keepdim);
}

Tensor linalg_matrix_norm(const Tensor& a, std::string_view ord, IntSpan dim, bool keepdim,
                          std::optional<DType> dtype) {
  check_norm(a, dim, dtype);
  CHECK(ord == "fro" || ord == "nuc", RuntimeError, "linalg.matrix_norm: Order {} not supported.",
        ord);
  if (ord == "fro") return linalg_vector_norm(a, 2.0, dim, keepdim, dtype);
  const Tensor s = linalg_svdvals(matrices(a, dim, dtype), std::nullopt);
  return keep(sum(s, IntSpan{-1}, false), dim, a.dim(), keepdim);
}

namespace {

Tensor matrix_norm_number(const Tensor& a, const Scalar& ord, IntSpan dim, bool keepdim,
                          std::optional<DType> dtype) {
  return linalg_matrix_norm(a, ord, dim, keepdim, dtype);
}
Tensor matrix_norm_named(const Tensor& a, std::string_view ord, IntSpan dim, bool keepdim,
                         std::optional<DType> dtype) {
  return linalg_matrix_norm(a, ord, dim, keepdim, dtype);
}
OP_FUNCTION(matrix_norm_number,
            "linalg_matrix_norm(A, ord, dim=(-2, -1), keepdim=False, *, dtype=None)",
            "The norm of matrices of order 1, 2, inf or one of their negatives.",
            casts_real | cuda_exact | reduces | composed | out_records)
OP_FUNCTION(matrix_norm_named,
            "linalg_matrix_norm(A, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None)",
            "The norm of matrices called ord: 'fro', or 'nuc', the sum of singular values.",
            casts_real | cuda_exact | reduces | composed | out_records)

Dims both_dims(const Tensor& a) { return a.dim() == 2 ? Dims{0, 1} : Dims{-2, -1}; }

Tensor norm(const Tensor& a, const std::optional<Scalar>& ord, std::optional<IntSpan> dim,
            bool keepdim, std::optional<DType> dtype) {
  if (dim) {
    CHECK(dim->size() == 1 || dim->size() == 2, RuntimeError,
          "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}", *dim);
  } else if (ord) {
    CHECK(a.dim() == 1 || a.dim() == 2, RuntimeError,
          "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
          a.dim());
  }
  if (ord && ((dim && dim->size() == 2) || (!dim && a.dim() == 2))) {
    const Dims chosen = dim ? dim->dims() : both_dims(a);
    return linalg_matrix_norm(a, *ord, chosen, keepdim, dtype);
  }
  return linalg_vector_norm(a, ord.value_or(Scalar(2.0)), dim, keepdim, dtype);
}
Tensor norm_named(const Tensor& a, std::string_view ord, std::optional<IntSpan> dim, bool keepdim,
                  std::optional<DType> dtype) {
  if (dim) {
    CHECK(dim->size() == 1 || dim->size() == 2, RuntimeError,
          "linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}", *dim);
  } else {
    CHECK(a.dim() == 1 || a.dim() == 2, RuntimeError,
          "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
          a.dim());
  }
  const Dims chosen = dim ? dim->dims() : both_dims(a);
  return linalg_matrix_norm(a, ord, chosen, keepdim, dtype);
}
OP_FUNCTION(norm, "linalg_norm(A, ord=None, dim=None, keepdim=False, *, dtype=None)",
            "The norm of vectors or of matrices, as the number of dimensions says.",
            casts_real | cuda_exact | composed | out_records)
OP_FUNCTION(norm_named, "linalg_norm(A, ord, dim=None, keepdim=False, *, dtype=None)",
            "The norm of matrices called ord: 'fro' or 'nuc'.",
            casts_real | cuda_exact | composed | out_records)

Tensor nuclear_norm(const Tensor& input, bool keepdim) {
  return linalg_matrix_norm(input, std::string_view("nuc"), Dims{-2, -1}, keepdim, std::nullopt);
}
Tensor nuclear_norm_dim(const Tensor& input, IntSpan dim, bool keepdim) {
  return linalg_matrix_norm(input, std::string_view("nuc"), dim, keepdim, std::nullopt);
}
OP_FUNCTION(nuclear_norm, "nuclear_norm(input, keepdim=False)", "The sum of the singular values.",
            cuda_exact | composed)
OP_FUNCTION(nuclear_norm_dim, "nuclear_norm(input, dim, keepdim=False)",
            "The sum of the singular values of the matrices in two dimensions.",
            cuda_exact | composed)

Tensor frobenius_norm(const Tensor& input, IntSpan dim, bool keepdim) {
  return linalg_vector_norm(input, 2.0, dim, keepdim, std::nullopt);
}
OP_FUNCTION(frobenius_norm, "frobenius_norm(input, dim=(), keepdim=False)",
            "The root of the sum of squares.", cuda_exact | no_out | composed)

}  // namespace
}  // namespace flambeau
