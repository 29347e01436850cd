// Powers, exponentials and chains of products of matrices; tensors taken as matrices; traces.
#include <cmath>
#include <limits>
#include <vector>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/elementwise/elementwise.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/one_step.h"

namespace flambeau {
namespace {

// --- Powers -----------------------------------------------------------------------------------

Tensor matrix_power(const Tensor& a, int64_t n) {
  check_square("linalg.matrix_power", a);
  if (n == 0) {
    Tensor one =
        clone(expand_batch(identity_like(a, a.size(-1)), batch_of(a)), MemoryFormat::contiguous);
    record_constant("linalg_matrix_power", one, a);
    return one;
  }
  Tensor square = n < 0 ? linalg_inv(a) : a;
  if (n == 1) return clone(square, MemoryFormat::contiguous);
  // By repeated squaring.
  uint64_t left = n < 0 ? uint64_t{0} - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  if (left == 1) return square;
  Tensor result;
  while (true) {
    if (left & 1) result = result.defined() ? matmul(result, square) : square;
    left >>= 1;
    if (left == 0) return result;
    square = matmul(square, square);
  }
}
OP_FUNCTION(matrix_power, "linalg_matrix_power(A, n)", "The n-th power of square matrices.",
            casts_out | composed | event(2) | out_records)
OP(matrix_power, "matrix_power(input, n)", "The n-th power of square matrices.",
   casts_out | composed | event(2) | out_records)

// --- Exponentials -----------------------------------------------------------------------------

// e**A by a rational approximation of degree 13, after division by a power of two that makes the
// norm at most 5.37, and as many squarings (Higham, 2005).
Tensor exponential(const Tensor& a) {
  constexpr double largest_norm = 5.371920351148152;
  constexpr double b[] = {64764752532480000.,
                          32382376266240000.,
                          7771770303897600.,
                          1187353796428800.,
                          129060195264000.,
                          10559470521600.,
                          670442572800.,
                          33522128640.,
                          1323241920.,
                          40840800.,
                          960960.,
                          16380.,
                          182.,
                          1.};
  const Tensor norm = amax(sum(abs(a), IntSpan{-2}, false), IntSpan{-1}, false);
  const Tensor halvings =
      clamp(ceil(log2(to(norm, DType::float64) / largest_norm)), Scalar(0.0), {});
  const double most = item(amax(halvings, std::nullopt, false)).to_double();
  const Tensor scale = to(unsqueeze(unsqueeze(exp2(-halvings), -1), -1), to_real(a.dtype()));
  const Tensor x = a * scale, one = identity_like(a, a.size(-1));
  const Tensor x2 = matmul(x, x), x4 = matmul(x2, x2), x6 = matmul(x4, x2);
  const Tensor odd = matmul(x6, x6 * b[13] + x4 * b[11] + x2 * b[9]) + x6 * b[7] + x4 * b[5] +
                     x2 * b[3] + one * b[1];
  const Tensor u = matmul(x, odd);
  const Tensor v = matmul(x6, x6 * b[12] + x4 * b[10] + x2 * b[8]) + x6 * b[6] + x4 * b[4] +
                   x2 * b[2] + one * b[0];
  Tensor result = linalg_solve(v - u, v + u, true);
  const Tensor times = unsqueeze(unsqueeze(halvings, -1), -1);
  for (int k = 0; k < static_cast<int>(most); ++k) {
    result = where(times > static_cast<double>(k), matmul(result, result), result);
  }
  return contiguous(result);
}

// Matrices with an element that is not finite have no exponential but NaN.
Tensor guarded_exponential(const Tensor& a) {
  if (a.numel() == 0 || a.device().is_meta()) return zeros(a.sizes(), options_of(a));
  const Tensor finite = isfinite(sum(abs(a), IntSpan{-2, -1}, true));
  if (!has_nan(where(finite, 0.0, std::numeric_limits<double>::quiet_NaN()))) return exponential(a);
  const Tensor result = exponential(where(finite, a, zeros_like(a)));
  return where(finite, result, full_like(a, std::numeric_limits<double>::quiet_NaN()));
}

// Half and bfloat16 are computed in float.
Tensor exp_value(const Tensor& a) {
  const NoGrad off;
  const Tensor x = detach(a);
  if (!dtypes::Reduced.has(a.dtype())) return guarded_exponential(x);
  return to(guarded_exponential(to(x, DType::float32)), a.dtype());
}

Tensor matrix_exp(const Tensor& a) {
  check_square("linalg.matrix_exp", a);
  check_float("linalg.matrix_exp", a);
  Tensor out = exp_value(a);
  if (Record r{"linalg_matrix_exp", out, {a}}) {
    // The derivative in a direction G stands above the diagonal of exp [[A, G], [0, A]].
    r.wrt(0, [kept = r.save(a)](const Tensor& g) {
      const Tensor adjoint = mH(kept());
      const int64_t n = adjoint.size(-1);
      const Tensor top = cat({adjoint, g}, -1);
      const Tensor bottom = cat({zeros_like(adjoint), adjoint}, -1);
      return narrow(narrow(matrix_exp(cat({top, bottom}, -2)), -2, 0, n), -1, n, n);
    });
  }
  return out;
}
OP_FUNCTION(matrix_exp, "linalg_matrix_exp(A)", "The exponential of square matrices.",
            event(2) | no_out)
OP(matrix_exp, "matrix_exp(input)", "The exponential of square matrices.",
   event(2) | no_out | composed)

// --- Chains of products -----------------------------------------------------------------------

// The cheapest order of a chain: splits[i][j] is where the last product of matrices i..j stands.
std::vector<std::vector<size_t>> best_splits(const std::vector<Tensor>& chain) {
  const size_t count = chain.size();
  std::vector<double> sizes;
  for (const Tensor& x : chain) sizes.push_back(static_cast<double>(x.size(0)));
  sizes.push_back(static_cast<double>(chain.back().size(1)));
  std::vector<std::vector<double>> work(count, std::vector<double>(count, 0));
  std::vector<std::vector<size_t>> splits(count, std::vector<size_t>(count, 0));
  for (size_t length = 1; length < count; ++length) {
    for (size_t i = 0; i + length < count; ++i) {
      const size_t j = i + length;
      work[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        const double cost = work[i][k] + work[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (cost < work[i][j]) work[i][j] = cost, splits[i][j] = k;
      }
    }
  }
  return splits;
}

Tensor multiply_chain(const std::vector<Tensor>& chain,
                      const std::vector<std::vector<size_t>>& splits, size_t i, size_t j) {
  if (i == j) return chain[i];
  const size_t k = splits[i][j];
  return mm(multiply_chain(chain, splits, i, k), multiply_chain(chain, splits, k + 1, j));
}

Tensor multi_dot(const std::vector<Tensor>& tensors) {
  const size_t count = tensors.size();
  CHECK(count >= 2, RuntimeError, "multi_dot(): expected at least 2 tensors but got {}", count);
  std::vector<Tensor> chain = tensors;
  Dims shape;
  for (const size_t end : {size_t{0}, count - 1}) {
    const Tensor& x = tensors[end];
    CHECK(x.dim() == 1 || x.dim() == 2, RuntimeError,
          "multi_dot(): the {} tensor must be 1D or 2D but got {}D", end == 0 ? "first" : "last",
          x.dim());
    if (x.dim() == 1) chain[end] = unsqueeze(x, end == 0 ? 0 : 1);
    if (x.dim() == 2) shape.push_back(x.size(end == 0 ? 0 : 1));
  }
  for (size_t i = 1; i + 1 < count; ++i) {
    CHECK(chain[i].dim() == 2, RuntimeError, "multi_dot(): tensor {} must be 2D but got {}D", i,
          chain[i].dim());
  }
  for (size_t i = 0; i + 1 < count; ++i) {
    CHECK(chain[i].size(1) == chain[i + 1].size(0), RuntimeError,
          "multi_dot(): tensors {} and {} with shapes {} and {} cannot be multiplied", i, i + 1,
          tensors[i].sizes(), tensors[i + 1].sizes());
    CHECK(tensors[i].dtype() == tensors[i + 1].dtype(), RuntimeError,
          "multi_dot(): all tensors must have be the same dtype but tensor {} is {} and tensor {} "
          "{}",
          0, dtype_legacy_name(tensors[0].dtype()), i + 1,
          dtype_legacy_name(tensors[i + 1].dtype()));
  }
  return reshape(multiply_chain(chain, best_splits(chain), 0, count - 1), shape);
}
OP_FUNCTION(multi_dot, "linalg_multi_dot(tensors)",
            "The product of matrices, multiplied in the order that needs the least work.",
            composed | cuda_low)

// --- Tensors as matrices ----------------------------------------------------------------------

int64_t product_of(IntSpan sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

Tensor tensorinv(const Tensor& a, int64_t ind) {
  CHECK(ind > 0, RuntimeError, "Expected a strictly positive integer for 'ind', but got {}", ind);
  CHECK(a.dim() >= ind, RuntimeError,
        "linalg.tensorinv: expected at least ind = {} dimensions, got a tensor of shape {}", ind,
        a.sizes());
  const auto cut = static_cast<size_t>(ind);
  const IntSpan front = a.sizes().first(cut), back = a.sizes().from(cut);
  const int64_t rows = product_of(front), columns = product_of(back);
  CHECK(
      rows == columns, RuntimeError,
      "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
      "but got {} != {}",
      columns, rows);
  Dims shape = back.dims();
  for (const int64_t size : front) shape.push_back(size);
  return reshape(linalg_inv(reshape(a, {rows, columns})), shape);
}
OP_FUNCTION(tensorinv, "linalg_tensorinv(A, ind=2)",
            "The inverse of a tensor, taken as a matrix whose rows are its first ind dimensions.",
            casts_out | cpu_exact | composed | out_records)

Tensor tensorsolve(const Tensor& a, const Tensor& b, std::optional<IntSpan> dims) {
  Tensor x = a;
  if (dims) {
    // The named dimensions go last, in their order.
    Dims to;
    const auto count = static_cast<int64_t>(dims->size());
    for (int64_t k = 0; k < count; ++k) to.push_back(k - count);
    x = movedim(a, *dims, to);
  }
  const auto cut = static_cast<size_t>(std::min(b.dim(), x.dim()));
  const int64_t columns = product_of(x.sizes().from(cut)), rows = product_of(x.sizes().first(cut));
  CHECK(columns == b.numel() && rows == b.numel(), RuntimeError,
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
        "prod(self.shape[:other.ndim]), but got {} != {}",
        columns, b.numel());
  const Dims shape = x.sizes().from(cut).dims();
  return reshape(linalg_solve(reshape(x, {columns, columns}), reshape(b, {columns}), true), shape);
}
OP_FUNCTION(tensorsolve, "linalg_tensorsolve(A, B, dims=None)",
            "The X with tensordot(A, X, X.ndim) = B.",
            casts_out | cpu_exact | composed | out_records)

Tensor vander(const Tensor& x, std::optional<int64_t> n) {
  CHECK(x.dtype() != DType::bool_ && !dtypes::Reduced.has(x.dtype()), NotImplementedError,
        "linalg.vander supports floating point, complex, and integer tensors, but got {}",
        dtype_legacy_name(x.dtype()));
  CHECK(x.dim() > 0 || n, RuntimeError, "N must be greater than 1.");
  const Tensor vector = x.dim() > 0 ? x : unsqueeze(x, 0);
  const Tensor base =
      unsqueeze(is_differentiable(x.dtype()) ? vector : to(vector, DType::int64), -1);
  const int64_t columns = n.value_or(x.dim() > 0 ? x.size(-1) : 1);
  CHECK(columns > 1, RuntimeError, "N must be greater than 1.");
  Dims sizes = base->sizes;
  sizes.back() = columns - 1;
  return cat({ones_like(base), cumprod(expand(base, sizes), -1)}, -1);
}
OP_FUNCTION(vander, "linalg_vander(x, *, N=None)",
            "The powers 0 to N - 1 of each element, along a new last dimension.",
            event(1) | no_out | composed)

Tensor vecdot(const Tensor& x, const Tensor& y, int64_t dim) {
  check_alike("linalg.vecdot", x, y, "x", "y");
  compute_dtype("linalg.vecdot", dtypes::OnlyFloatingComplex, x.dtype());
  const Dims shape = broadcast_shapes(x.sizes(), y.sizes());
  if (shape.empty()) return mul(x.is_complex() ? conj_physical(x) : x, y);
  const Tensor a = x.is_complex() ? conj_physical(x) : x;
  return sum(a * y, IntSpan{wrap_dim(dim, static_cast<int64_t>(shape.size()))}, false, x.dtype());
}
OP_FUNCTION(vecdot, "linalg_vecdot(x, y, *, dim=-1)", "The dot products of vectors along dim.",
            autocast_low | composed)

Tensor linalg_diagonal(const Tensor& a, int64_t offset, int64_t dim1, int64_t dim2) {
  return diagonal(a, offset, dim1, dim2);
}
OP_FUNCTION(linalg_diagonal, "linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1)",
            "The diagonals of matrices.", makes_view | reshapes | composed)

Tensor linalg_matmul(const Tensor& a, const Tensor& b) { return matmul(a, b); }
OP_FUNCTION(linalg_matmul, "linalg_matmul(input, other)", "The product of matrices and vectors.",
            composed)

Tensor trace(const Tensor& input) {
  CHECK(input.dtype() != DType::bool_ || !input.device().is_cpu(), NotImplementedError,
        "\"trace\" not implemented for 'Bool'");
  CHECK(input.dim() == 2, RuntimeError, "trace: expected a matrix, but got tensor with dim {}",
        input.dim());
  return sum(diagonal(input, 0, 0, 1));
}
OP((one_step<trace, "trace">), "trace(input)",
   "The sum of the elements on the diagonal of a matrix.", autocast_exact | no_out)

Tensor ordered_vander(const Tensor& x, std::optional<int64_t> n, bool increasing) {
  CHECK(x.dim() == 1, RuntimeError, "x must be a one-dimensional tensor. Got {}", x.sizes());
  const int64_t columns = n.value_or(x.size(0));
  CHECK(columns >= 0, RuntimeError, "N must be non-negative. Got {}", columns);
  checked_numel({x.size(0), columns});
  const DType dtype = is_floating(x.dtype()) || is_complex(x.dtype()) ? x.dtype() : DType::int64;
  const Tensor base = unsqueeze(to(x, dtype), 1);
  const Tensor first =
      ones({x.size(0), std::min<int64_t>(columns, 1)}, {.dtype = dtype, .device = x.device()});
  Tensor powers = first;
  if (columns > 1) powers = cat({first, cumprod(expand(base, {x.size(0), columns - 1}), 1)}, 1);
  return increasing ? powers : flip(powers, IntSpan{1});
}
OP_FUNCTION(ordered_vander, "vander(x, N=None, increasing=False)",
            "The powers of each element of a vector, a row each, the highest first.",
            no_out | composed)

}  // namespace
}  // namespace flambeau
