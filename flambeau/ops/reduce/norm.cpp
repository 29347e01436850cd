// Vector norms: norm, linalg.vector_norm and dist.
#include <cmath>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/ops.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/reduce/reduce.h"

namespace flambeau {
namespace {

// x / |x|, and 0 at 0.
Tensor direction(const Tensor& x) {
  if (!x.is_complex()) return sign(x);
  const Tensor size = abs(x);
  return masked_fill(x / size, size == 0.0, 0.0);
}

Dims list_of(DimSet dims, int64_t rank) {
  Dims list;
  for (int64_t d = 0; d < rank; ++d) {
    if (dims.has(d)) list.push_back(d);
  }
  return list;
}

// g and norm have the reduced dimensions of x, of size one. Where the norm is zero, so is the
// (sub)gradient.
Tensor norm_gradient(const Tensor& g, const Tensor& x, const Tensor& norm, double p, DimSet dims) {
  // The order of operands is PyTorch's: it decides how the gradient lies in memory.
  if (p == 1) return direction(x) * g;
  if (p == 2) {
    const Tensor zero = norm == 0.0;
    return g * masked_fill_(x / masked_fill(norm, zero, 1.0), zero, 0.0);
  }
  if (std::isinf(p)) {
    const Tensor size = abs(x);
    const Tensor chosen = (size == norm) | (isnan(size) & isnan(norm));
    const Dims list = list_of(dims, x.dim());
    const Tensor ties = list.empty() ? to(chosen, g.dtype()) : sum(chosen, IntSpan(list), true);
    return direction(x) * (g / ties * chosen);
  }
  const Tensor size = abs(x);
  if (p < 2) {
    // |x|**(p - 1) has no value at zero for p < 1, and no derivative for p < 2.
    const Tensor zero = size == 0.0;
    const Tensor powers = masked_fill(pow(masked_fill(size, zero, 1.0), p - 1), zero, 0.0);
    return direction(x) * powers * masked_fill(g * pow(norm, 1 - p), norm == 0.0, 0.0);
  }
  return x * pow(size, p - 2) * masked_fill(g / pow(norm, p - 1), norm == 0.0, 0.0);
}

void check_norm_is_defined(const Tensor& x, double p, const std::optional<IntSpan>& dim) {
  if (x.numel() > 0 || !(p < 0 || std::isinf(p))) return;
  CHECK(dim && !dim->empty(), RuntimeError,
        "linalg.vector_norm cannot compute the {} norm on an empty tensor because the operation "
        "does not have an identity",
        p);
  for (const int64_t d : *dim) {
    CHECK(
        x.dim() == 0 || x.size(d) != 0, RuntimeError,
        "linalg.vector_norm cannot compute the {} norm on the dimension {} because this dimension "
        "is empty and the operation does not have an identity",
        p, d);
  }
}

}  // namespace

Tensor linalg_vector_norm(const Tensor& input, const Scalar& ord, std::optional<IntSpan> dim,
                          bool keepdim, std::optional<DType> dtype) {
  REDIRECT(linalg_vector_norm, input, ord, dim, keepdim, dtype)
  CHECK(is_differentiable(input.dtype()), NotImplementedError,
        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {}",
        dtype_legacy_name(input.dtype()));
  CHECK(!ord.is_complex(), RuntimeError,
        "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
  if (dtype) {
    CHECK(is_differentiable(*dtype), RuntimeError,
          "linalg.vector_norm: dtype should be floating point or complex. Got {}", *dtype);
    CHECK(is_complex(*dtype) == input.is_complex(), RuntimeError,
          "linalg.vector_norm: dtype should be {} for {} inputs. Got {}",
          input.is_complex() ? "complex" : "real", input.is_complex() ? "complex" : "real", *dtype);
    CHECK(promote_types(input.dtype(), *dtype) == *dtype, RuntimeError,
          "linalg.vector_norm: the dtype of the input ({}) should be convertible without narrowing "
          "to the specified dtype ({})",
          dtype_legacy_name(input.dtype()), dtype_legacy_name(*dtype));
  }
  if (!dtype && input.dtype() == DType::complex32) {
    return to(linalg_vector_norm(to(input, DType::complex64), ord, dim, keepdim), DType::float16);
  }
  const double p = ord.to_double();
  const Tensor x = dtype && *dtype != input.dtype() ? to(input, *dtype) : input;
  // Only the common orders have kernels for half precision.
  if (dtypes::Reduced.has(x.dtype()) && p != 1 && p != 2) {
    return to(linalg_vector_norm(to(x, DType::float32), ord, dim, keepdim), x.dtype());
  }
  const DimSet dims = DimSet::of(dim, x.dim());
  check_norm_is_defined(x, p, dim);
  Tensor out = make_tensor(reduced_shape(x.sizes(), dims, keepdim), to_real(x.dtype()), x.device());
  Reduction reduction;
  // The kernel knows magnitudes of complex numbers by their squares only.
  const Tensor numbers = x.is_complex() && p != 2 ? abs(detach(x)) : x;
  describe_reduction(reduction, numbers, dims, out);
  kernels::vector_norm(x.device_type(), reduction, p);
  if (Record r{"linalg_vector_norm", out, {x}}) {
    // The number of nonzero elements has no derivative.
    if (p != 0) {
      r.wrt(0, [kept = r.save(x), y = r.save_output(out), p, dims, keepdim](const Tensor& g) {
        const Tensor values = kept();
        const IntSpan sizes = values.sizes();
        return norm_gradient(with_reduced_dims(g, sizes, dims, keepdim), values,
                             with_reduced_dims(y(), sizes, dims, keepdim), p, dims);
      });
    }
  }
  return out;
}
OP_FUNCTION(linalg_vector_norm,
            "linalg_vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None)",
            "The norm of order ord of the elements, of all or along the given dimensions.",
            casts_real | reduces | cuda_exact | out_repeats)

namespace {

Tensor norm_by_number(const Tensor& input, const std::optional<Scalar>& p,
                      std::optional<IntSpan> dim, bool keepdim, std::optional<DType> dtype) {
  return linalg_vector_norm(input, p.value_or(Scalar(2.0)), dim, keepdim, dtype);
}

Tensor norm_by_name(const Tensor& input, std::string_view p, std::optional<IntSpan> dim,
                    bool keepdim, std::optional<DType> dtype) {
  CHECK(p == "fro" || p == "nuc", RuntimeError, "linalg.matrix_norm: Order {} not supported.", p);
  if (p == "nuc") {
    const Dims last{-2, -1};
    const IntSpan chosen = dim ? *dim : IntSpan(last);
    return linalg_matrix_norm(input, p, chosen, keepdim, dtype);
  }
  return linalg_vector_norm(input, 2.0, dim, keepdim, dtype);
}
OP(norm_by_number, "norm.ScalarOpt_dim(input, p=None, dim=None, keepdim=False, dtype=None)",
   "The norm of order p of the elements, of all or along the given dimensions.",
   casts_real | reduces | cuda_exact | composed | out_repeats)
OP(norm_by_name, "norm(input, p, dim=None, keepdim=False, dtype=None)",
   "The norm called p: 'fro', the root of the sum of squares, or 'nuc', the sum of singular "
   "values.",
   casts_real | reduces | cuda_exact | out_repeats)

Tensor dist(const Tensor& input, const Tensor& other, const Scalar& p) {
  return linalg_vector_norm(input - other, p, std::nullopt, false, std::nullopt);
}
OP((one_step<dist, "dist">), "dist(input, other, p=2)", "The p-norm of input - other.",
   cuda_exact | no_out)

}  // namespace
}  // namespace flambeau
