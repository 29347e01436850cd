// What is cut off at small singular values: pseudo-inverses, ranks, condition numbers and least
// squares.
#include <cmath>
#include <limits>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

double epsilon_of(DType dtype) {
  return to_real(dtype) == DType::float64 ? std::numeric_limits<double>::epsilon()
                                          : std::numeric_limits<float>::epsilon();
}

Tensor number(const Tensor& like, double value) {
  return full({}, value, {.dtype = to_real(like.dtype()), .device = like.device()});
}

// max(atol, rtol * the largest value), with PyTorch's rule for what is not given.
Tensor cutoff(const Tensor& a, const Tensor& atol, const Tensor& rtol, const Tensor& largest) {
  Tensor relative = rtol;
  if (!rtol.defined()) {
    const double wanted =
        epsilon_of(a.dtype()) * static_cast<double>(std::max(a.size(-2), a.size(-1)));
    relative = number(a, wanted);
    // An absolute bound above zero replaces the relative one that nobody asked for.
    if (atol.defined()) relative = where(atol > 0.0, number(a, 0.0), relative);
  }
  const Tensor bound = largest * relative;
  return atol.defined() ? maximum(atol, bound) : bound;
}

void check_tolerance(const char* op, const Tensor& tolerance, const char* name) {
  CHECK(!tolerance.defined() || !tolerance.is_complex(), RuntimeError,
        "{}: {} tensor of complex type is not supported. Got {}", op, name,
        tolerance.defined() ? dtype_legacy_name(tolerance.dtype()) : "");
}

Tensor optional_number(const Tensor& like, std::optional<double> value) {
  return value ? number(like, *value) : Tensor();
}

// --- Pseudo-inverses --------------------------------------------------------------------------

// dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P, for matrices of constant rank.
Tensor pinv_gradient(const Tensor& g, const Tensor& a, const Tensor& p) {
  const Tensor ph = mH(p), gh = mH(g);
  const Tensor right = matmul(matmul(gh, p), ph);  // G^H P P^H
  const Tensor left = matmul(ph, matmul(p, gh));   // P^H P G^H
  return -matmul(ph, matmul(g, ph)) + (right - matmul(a, matmul(p, right))) +
         (left - matmul(matmul(left, p), a));
}

Tensor pinv_value(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  if (a.numel() == 0) {
    return zeros(with_matrix(batch_of(a), a.size(-1), a.size(-2)), options_of(a));
  }
  if (hermitian) {
    const auto [l, v] = linalg_eigh(a, "L");
    const Tensor size = abs(l);
    const Tensor bound = cutoff(a, atol, rtol, amax(size, IntSpan{-1}, true));
    const Tensor inverse = where(size > bound, 1.0 / l, 0.0);
    return matmul(scale_columns(v, to(inverse, v.dtype())), mH(v));
  }
  const auto [u, s, vh] = linalg_svd(a, false, std::nullopt);
  const Tensor bound = cutoff(a, atol, rtol, narrow(s, -1, 0, 1));
  const Tensor inverse = where(s > bound, 1.0 / s, 0.0);
  return matmul(scale_columns(mH(vh), to(inverse, u.dtype())), mH(u));
}

Tensor with_last(const Tensor& tolerance) {
  return tolerance.defined() ? unsqueeze(tolerance, -1) : tolerance;
}

}  // namespace

Tensor linalg_pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  REDIRECT(linalg_pinv, a, atol, rtol, hermitian)
  const bool is_wide = is_differentiable(a.dtype()) && !dtypes::Reduced.has(a.dtype());
  CHECK(a.dim() >= 2 && is_wide, RuntimeError,
        "linalg.pinv({}{{}}): expected a tensor with 2 or more dimensions of float, double, cfloat "
        "or cdouble types",
        dtype_legacy_name(a.dtype()), a.sizes());
  check_tolerance("torch.linalg.pinv", atol, "atol");
  check_tolerance("torch.linalg.pinv", rtol, "rtol");
  if (hermitian) check_square("linalg.pinv", a);
  Tensor out;
  {
    const NoGrad off;
    out = pinv_value(detach(a), with_last(atol), with_last(rtol), hermitian);
  }
  if (Record r{"linalg_pinv", out, {a}}) {
    r.wrt(0, [kept = r.save(a), y = r.save_output(out)](const Tensor& g) {
      const Tensor a = kept();  // of which autocast may have made less precise products
      return pinv_gradient(to(g, a.dtype()), a, to(y(), a.dtype()));
    });
  }
  return out;
}
OP_FUNCTION(linalg_pinv, "linalg_pinv(A, *, atol=None, rtol=None, hermitian=False)",
            "The pseudo-inverse of matrices: singular values up to a tolerance count as zero.",
            casts_out | composed | event(2))

namespace {

Tensor pinv_by_numbers(const Tensor& a, std::optional<double> atol, std::optional<double> rtol,
                       bool hermitian) {
  return linalg_pinv(a, optional_number(a, atol), optional_number(a, rtol), hermitian);
}
OP_FUNCTION(pinv_by_numbers, "linalg_pinv(A, *, atol=None, rtol=None, hermitian=False)",
            "The pseudo-inverse of matrices.", casts_out | composed | event(2))
Tensor pinv_rcond(const Tensor& a, double rcond, bool hermitian) {
  return linalg_pinv(a, {}, number(a, rcond), hermitian);
}
OP_FUNCTION(pinv_rcond, "linalg_pinv(A, rcond, hermitian=False)", "The pseudo-inverse of matrices.",
            casts_out | composed | event(2))
Tensor pinv_rcond_tensor(const Tensor& a, const Tensor& rcond, bool hermitian) {
  return linalg_pinv(a, {}, rcond, hermitian);
}
OP_FUNCTION(pinv_rcond_tensor, "linalg_pinv(A, rcond, hermitian=False)",
            "The pseudo-inverse of matrices.", casts_out | composed | event(2))
Tensor pinverse(const Tensor& input, double rcond) { return pinv_rcond(input, rcond, false); }
OP(pinverse, "pinverse(input, rcond=1e-15)", "The pseudo-inverse of matrices.",
   cpu_exact | composed | event(2) | no_out)

// --- Ranks ------------------------------------------------------------------------------------

Tensor matrix_rank(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  constexpr const char* op = "torch.linalg.matrix_rank";
  // Without a tolerance there is one of the dtype, which halves and integers have not.
  const bool is_wide = is_differentiable(a.dtype()) && !dtypes::Reduced.has(a.dtype());
  CHECK(is_wide || atol.defined() || rtol.defined(), RuntimeError,
        "{}: This function doesn't handle types other than float and double, got {}", op,
        a.dtype());
  check_matrix(op, a, "input");
  check_tolerance(op, atol, "atol");
  check_tolerance(op, rtol, "rtol");
  CHECK(is_differentiable(a.dtype()), NotImplementedError,
        "{}: Expected a floating point or complex tensor as input. Got {}", op,
        dtype_legacy_name(a.dtype()));
  const NoGrad off;
  if (a.numel() == 0) return zeros(batch_of(a), {.dtype = DType::int64, .device = a.device()});
  const Tensor x = detach(a);
  const Tensor sizes = hermitian ? abs(linalg_eigvalsh(x, "L")) : linalg_svdvals(x, std::nullopt);
  const Tensor bound = cutoff(a, with_last(atol), with_last(rtol), amax(sizes, IntSpan{-1}, true));
  return sum(sizes > bound, IntSpan{-1}, false);
}
OP_FUNCTION(matrix_rank, "linalg_matrix_rank(A, *, atol=None, rtol=None, hermitian=False)",
            "How many singular values of a matrix are above a tolerance.",
            casts_out | cpu_exact | event(2) | gives_bool)
Tensor rank_by_numbers(const Tensor& a, std::optional<double> atol, std::optional<double> rtol,
                       bool hermitian) {
  return matrix_rank(a, optional_number(a, atol), optional_number(a, rtol), hermitian);
}
OP_FUNCTION(rank_by_numbers, "linalg_matrix_rank(A, *, atol=None, rtol=None, hermitian=False)",
            "How many singular values of a matrix are above a tolerance.",
            casts_out | cpu_exact | event(2) | gives_bool)
Tensor rank_tol(const Tensor& a, double tol, bool hermitian) {
  return matrix_rank(a, number(a, tol), number(a, 0.0), hermitian);
}
OP_FUNCTION(rank_tol, "linalg_matrix_rank(A, tol, hermitian=False)",
            "How many singular values of a matrix are above tol.",
            casts_out | cpu_exact | event(2) | gives_bool)
Tensor rank_tol_tensor(const Tensor& a, const Tensor& tol, bool hermitian) {
  return matrix_rank(a, tol, number(a, 0.0), hermitian);
}
OP_FUNCTION(rank_tol_tensor, "linalg_matrix_rank(A, tol, hermitian=False)",
            "How many singular values of a matrix are above tol.",
            casts_out | cpu_exact | event(2) | gives_bool)

// --- Condition numbers ------------------------------------------------------------------------

Tensor by_values(const Tensor& a, bool smallest_first) {
  const Tensor s = linalg_svdvals(a, std::nullopt);
  const Tensor largest = select(s, -1, 0), smallest = select(s, -1, s.size(-1) - 1);
  return smallest_first ? smallest / largest : largest / smallest;
}

// |A| |A^-1|; infinite for singular matrices.
template <class Order>
Tensor by_inverse(const char* order_name, const Tensor& a, const Order& ord) {
  check_square(order_name, a);
  const Dims both{-2, -1};
  if (a.numel() == 0) {
    return zeros(batch_of(a), {.dtype = to_real(a.dtype()), .device = a.device()});
  }
  auto [inverse, info] = linalg_inv_ex(a, false);
  const Tensor singular = info != 0;
  if (!a.device().is_meta() && is_nonzero(sum(singular))) {
    const Tensor one = identity_like(a, a.size(-1));
    inverse = linalg_inv(where(unsqueeze(unsqueeze(singular, -1), -1), one, a));
  }
  const Tensor product = linalg_matrix_norm(a, ord, both, false, std::nullopt) *
                         linalg_matrix_norm(inverse, ord, both, false, std::nullopt);
  return masked_fill(product, singular, std::numeric_limits<double>::infinity());
}

Tensor cond(const Tensor& a, const std::optional<Scalar>& p) {
  CHECK(a.dim() >= 2, RuntimeError,
        "linalg.cond: The input tensor must have at least 2 dimensions.");
  const double order = p ? p->to_double() : 2;
  if (std::abs(order) == 2) {
    check_float("linalg.svd", a);
    if (a.numel() == 0) {
      return zeros(batch_of(a), {.dtype = to_real(a.dtype()), .device = a.device()});
    }
    return by_values(a, order < 0);
  }
  CHECK(std::abs(order) == 1 || std::isinf(order), ValueError,
        "linalg.cond got an invalid norm type: {}", order);
  return by_inverse(format("linalg.cond(ord={})", order).c_str(), a, Scalar(order));
}
OP_FUNCTION(cond, "linalg_cond(A, p=None)",
            "The condition number: a norm of a matrix times that of its inverse.",
            casts_out | cpu_exact | event(2) | out_records)
Tensor cond_named(const Tensor& a, std::string_view p) {
  CHECK(a.dim() >= 2, RuntimeError,
        "linalg.cond: The input tensor must have at least 2 dimensions.");
  CHECK(p == "fro" || p == "nuc", ValueError, "linalg.cond got an invalid norm type: {}", p);
  return by_inverse(format("linalg.cond(ord={})", p).c_str(), a, p);
}
OP_FUNCTION(cond_named, "linalg_cond(A, p)", "The condition number in the norm called p.",
            casts_out | cpu_exact | event(2) | out_records)

// --- Least squares ----------------------------------------------------------------------------

using Quadruple = std::tuple<Tensor, Tensor, Tensor, Tensor>;

std::string rank_failed(int code) {
  return format(
      "The least squares solution could not be computed because the input matrix does "
      "not have full rank (error code: {}).",
      code);
}

LeastSquares method_named(const std::optional<std::string_view>& driver, DeviceType device) {
  const bool on_cuda = device == DeviceType::cuda;
  const std::string_view name = driver.value_or(on_cuda ? "gels" : "gelsy");
  CHECK(!on_cuda || name == "gels", NotImplementedError,
        "torch.linalg.lstsq: parameter `driver` other than `gels` is not supported on CUDA");
  if (name == "gels") return LeastSquares::gels;
  if (name == "gelsy") return LeastSquares::gelsy;
  if (name == "gelsd") return LeastSquares::gelsd;
  CHECK(name == "gelss", RuntimeError,
        "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  return LeastSquares::gelss;
}

void check_least_squares(const Tensor& a, const Tensor& b, bool vector) {
  constexpr const char* op = "torch.linalg.lstsq";
  CHECK(!dtypes::Reduced.has(a.dtype()), RuntimeError,
        "torch.linalg.lstsq: This function doesn't handle types other than float and double, got "
        "{}",
        a.dtype());
  CHECK(a.dim() >= 2, RuntimeError, "{}: input must have at least 2 dimensions.", op);
  CHECK(b.dim() >= 1, RuntimeError, "{}: other must have at least 1 dimension.", op);
  CHECK(a.dtype() == b.dtype(), RuntimeError,
        "{}: Expected input and other to have the same dtype, but got input's dtype {} and other's "
        "dtype {}",
        op, dtype_legacy_name(a.dtype()), dtype_legacy_name(b.dtype()));
  CHECK(is_differentiable(a.dtype()), RuntimeError,
        "This function doesn't handle types other than float and double");
  const int64_t gap = a.dim() - b.dim();
  CHECK(gap <= 1, RuntimeError,
        "{}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) "
        "<= 1",
        op);
  CHECK(a.size(-2) == b.size(vector ? -1 : -2), RuntimeError,
        "{}: input.size(-2) should match other.size({})", op, vector ? -1 : -2);
}

// The sums of squares of what a full-rank, overdetermined system leaves over.
Tensor residuals_of(const Tensor& b, const Tensor& x, const Tensor& a) {
  const Tensor rest = abs(matmul(a, x) - b);
  return sum(rest * rest, IntSpan{-2}, false);
}

// What was found for every pair of a matrix and a right side, once for each matrix of `a`.
Tensor of_each_matrix(Tensor found, const Tensor& a) {
  const IntSpan batch = batch_of(a);
  for (size_t d = 0; d < batch.size(); ++d) {
    const int64_t dim = static_cast<int64_t>(d);
    if (batch[d] < found.size(dim)) found = narrow(found, dim, 0, batch[d]);
  }
  return contiguous(found);
}

Quadruple lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond,
                std::optional<std::string_view> driver) {
  const bool vector =
      a.dim() >= 2 && b.dim() >= 1 &&
      (b.dim() == 1 || (a.dim() - 1 == b.dim() && a.sizes().first(a.dim() - 1) == b.sizes()));
  check_least_squares(a, b, vector);
  const LeastSquares method = method_named(driver, a.device_type());
  const Tensor rhs = vector ? unsqueeze(b, -1) : b;
  const int64_t m = a.size(-2), n = a.size(-1), columns = rhs.size(-1);
  const Dims batch = broadcast_shapes(batch_of(a), batch_of(rhs));
  const bool ranked = method != LeastSquares::gels;
  const bool valued = method == LeastSquares::gelsd || method == LeastSquares::gelss;
  Dims value_sizes = valued ? batch : Dims{};
  value_sizes.push_back(valued ? std::min(m, n) : 0);
  const Options real{.dtype = to_real(a.dtype()), .device = a.device()};
  Tensor rank = zeros(ranked ? batch : Dims{0}, {.dtype = DType::int64, .device = a.device()});
  Tensor values = zeros(value_sizes, real);
  Tensor info = make_info(batch, a.device());
  Tensor x, work;
  {
    const NoGrad off;
    const int64_t tall = std::max(m, n);
    work = make_columns(with_matrix(batch, tall, columns), a.dtype(), a.device());
    zero_(work);
    copy_(narrow(work, -2, 0, m), detach(rhs));
    const double tolerance =
        rcond.value_or(epsilon_of(a.dtype()) * static_cast<double>(std::max(m, n)));
    const Tensor matrix = copy_columns(a, IntSpan(batch));
    if (matrix.numel() > 0 && work.numel() > 0) {
      kernels::least_squares(a.device_type(), matrix, work, method, tolerance, rank, values, info);
    }
    check_info("torch.linalg.lstsq", info, rank_failed);
    x = narrow(work, -2, 0, n);
    if (vector) x = squeeze(x, IntSpan{-1});
    x = detach(x);
  }
  if (Record r{"linalg_lstsq", x, {a, b}}) {
    r.all([kept_a = r.save(a), kept_b = r.save(b), wants_a = r.wants(0), vector](Grads& in,
                                                                                 Grads& out) {
      if (!in[0].defined()) return;
      const Tensor matrix = kept_a();
      const Tensor g = vector ? unsqueeze(in[0], -1) : in[0];
      const Tensor right = vector ? unsqueeze(kept_b(), -1) : kept_b();
      const Tensor p = linalg_pinv(matrix, {}, {}, false);
      const Tensor g_b = matmul(mH(p), g);
      out[1] = vector ? squeeze(g_b, IntSpan{-1}) : g_b;
      if (wants_a) out[0] = pinv_gradient(matmul(g, mH(right)), matrix, p);
    });
  }
  // Given only where they are meaningful, as PyTorch and NumPy do.
  Tensor residuals = zeros({0}, real);
  const bool full_rank = !ranked || a.device().is_meta() ||
                         (rank.numel() > 0 && item(amin(rank, std::nullopt, false)).to_int() == n);
  if (m > n && method != LeastSquares::gelsy && full_rank) {
    residuals = residuals_of(rhs, vector ? unsqueeze(x, -1) : x, a);
  }
  return {x, residuals, ranked ? of_each_matrix(rank, a) : rank,
          valued ? of_each_matrix(values, a) : values};
}
OP_FUNCTION(lstsq,
            "linalg_lstsq(A, B, rcond=None, *, driver=None) -> "
            "(solution, residuals, rank, singular_values)",
            "The X for which A X is closest to B.", casts_out | cpu_exact)

}  // namespace
}  // namespace flambeau
