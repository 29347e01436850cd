// Triangular systems, Cholesky factors and LDL factors.
#include <atomic>

#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/kernels/join.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

// op(a) x = b or x op(a) = b.
Tensor run_triangular(const Tensor& a, const Tensor& b, bool upper, bool left, bool unitriangular,
                      Transposed how) {
  const Dims batch = broadcast_shapes(batch_of(a), batch_of(b));
  check_lapack(b);
  Tensor x = copy_columns(b, IntSpan(batch));
  if (x.numel() > 0) {
    kernels::triangular_solve(a.device_type(), as_columns(a, IntSpan(batch)), x, left, upper, how,
                              unitriangular);
  }
  return x;
}

Tensor triangle(const Tensor& x, bool upper, bool strictly) {
  return upper ? triu(x, strictly ? 1 : 0) : tril(x, strictly ? -1 : 0);
}

// Zeros the other triangle of matrices that lie column by column: transposed, they are contiguous.
void keep_triangle(const Tensor& x, bool upper) {
  const NoGrad off;
  const Tensor rows = transpose(detach(x), -2, -1);
  kernels::triangle(x.device_type(), rows, rows, 0, !upper);
}

Tensor record_triangular(const Tensor& a, const Tensor& b, Tensor x, bool upper, bool left,
                         bool unitriangular, bool adjoint) {
  if (Record r{"linalg_solve_triangular", x, {a, b}}) {
    r.all([kept = r.save(a), y = r.save_output(x), wants_a = r.wants(0), upper, left, unitriangular,
           adjoint](Grads& in, Grads& out) {
      if (!in[0].defined()) return;
      const auto back = adjoint ? linalg_solve_triangular : solve_adjoint_triangular;
      const Tensor g_b = back(kept(), in[0], upper, left, unitriangular);
      out[1] = g_b;
      if (!wants_a) return;
      const Tensor full = left ? matmul(g_b, mH(y())) : matmul(mH(y()), g_b);
      out[0] = -triangle(adjoint ? mH(full) : full, upper, unitriangular);
    });
  }
  return x;
}

}  // namespace

Tensor solve_adjoint_triangular(const Tensor& a, const Tensor& b, bool upper, bool left,
                                bool unitriangular) {
  return record_triangular(a, b,
                           run_triangular(a, b, upper, left, unitriangular, Transposed::conjugated),
                           upper, left, unitriangular, true);
}

Tensor linalg_solve_triangular(const Tensor& a, const Tensor& given, bool upper, bool left,
                               bool unitriangular) {
  REDIRECT(linalg_solve_triangular, a, given, upper, left, unitriangular)
  constexpr const char* op = "linalg.solve_triangular";
  // B is read in A's dtype, unless it would lose imaginary parts.
  const bool fits = a.is_complex() || !given.is_complex();
  const Tensor b = fits ? to(given, a.dtype()) : given;
  check_alike(op, a, b, "A", "B");
  check_square(op, a);
  check_matrix(op, b, "B");
  check_system(op, a, b, left);
  return record_triangular(a, b, run_triangular(a, b, upper, left, unitriangular, Transposed::no),
                           upper, left, unitriangular, false);
}
OP_FUNCTION(linalg_solve_triangular,
            "linalg_solve_triangular(A, B, *, upper, left=True, unitriangular=False)",
            "The solution of A X = B, or of X A = B, with a triangular A.", event(2))

namespace {

Pair triangular_solve(const Tensor& b, const Tensor& a, bool upper, bool transposed,
                      bool unitriangular) {
  static std::atomic<bool> told{false};
  warn_once(told,
            "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular and "
            "will be removed in a future PyTorch release. It has its arguments reversed and does "
            "not return a copy of one of the inputs.");
  CHECK(b.dim() >= 2, RuntimeError,
        "torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {} "
        "dimensions instead",
        b.dim());
  CHECK(a.dim() >= 2, RuntimeError,
        "torch.triangular_solve: Expected A to have at least 2 dimensions, but it has {} "
        "dimensions instead",
        a.dim());
  check_square("triangular_solve", a);
  CHECK(a.size(-2) == b.size(-2), RuntimeError,
        "Incompatible matrix sizes for triangular_solve: each A matrix is {} by {} but each b "
        "matrix is {} by {}",
        a.size(-2), a.size(-1), b.size(-2), b.size(-1));
  const Tensor x = transposed ? linalg_solve_triangular(mT(a), b, !upper, true, unitriangular)
                              : linalg_solve_triangular(a, b, upper, true, unitriangular);
  const Dims batch = broadcast_shapes(batch_of(a), batch_of(b));
  Tensor copy = copy_columns(a, IntSpan(batch));
  if (Record r{"triangular_solve", copy, {a}}) r.wrt(0, [](const Tensor& g) { return g; });
  return {x, copy};
}
OP(triangular_solve,
   "triangular_solve(input, A, upper=True, transpose=False, unitriangular=False) -> "
   "(solution, cloned_coefficient)",
   "The solution of A X = input with a triangular A, and a copy of A.", cpu_exact | event(2))

// --- Cholesky ---------------------------------------------------------------------------------

std::string not_positive(int code) {
  return format(
      "The factorization could not be completed because the input is not "
      "positive-definite (the leading minor of order {} is not positive-definite).",
      code);
}

// A = L L^H: dL = L f(L^-1 dA L^-H), where f keeps the lower triangle and halves the diagonal. The
// gradient is shared between both triangles of A.
Tensor cholesky_gradient(const Tensor& g_l, const Tensor& l) {
  const Tensor product = tril(matmul(mH(l), g_l), 0);
  const Tensor inner = (product + mH(tril(product, -1))) * 0.5;
  return solve_adjoint_triangular(l, linalg_solve_triangular(l, inner, false, false, false), false,
                                  true, false);
}

Pair cholesky_with(const char* op, const Tensor& a, bool upper, bool check_errors) {
  check_square("linalg.cholesky", a);
  check_float("linalg.cholesky", a);
  Tensor l = copy_columns(a);
  Tensor info = make_info(batch_of(a), a.device());
  if (l.numel() > 0) kernels::cholesky(a.device_type(), l, info, upper);
  keep_triangle(l, upper);
  if (check_errors) check_info(op, info, not_positive);
  if (Record r{"linalg_cholesky_ex", l, {a}}) {
    r.wrt(0, [y = r.save_output(l), upper](const Tensor& g) {
      return upper ? cholesky_gradient(mH(g), mH(y())) : cholesky_gradient(g, y());
    });
  }
  return {l, info};
}

Pair linalg_cholesky_ex(const Tensor& a, bool upper, bool check_errors) {
  return cholesky_with("linalg.cholesky_ex", a, upper, check_errors);
}
OP_FUNCTION(linalg_cholesky_ex,
            "linalg_cholesky_ex(input, *, upper=False, check_errors=False) -> (L, info)",
            "The Cholesky factor of positive-definite matrices and what failed.",
            cpu_exact | event(2))

Tensor linalg_cholesky(const Tensor& a, bool upper) {
  return std::get<0>(cholesky_with("linalg.cholesky", a, upper, true));
}
OP_FUNCTION(linalg_cholesky, "linalg_cholesky(input, *, upper=False)",
            "The triangular L with L L^H = A, for positive-definite matrices A.",
            cpu_exact | event(2))

// Of A = L L^H as a whole, not of its triangle alone, given the gradient of A.
Tensor factor_gradient(const Tensor& g_a, const Tensor& factor, bool upper) {
  const Tensor both = g_a + mH(g_a);
  return -(upper ? matmul(factor, both) : matmul(both, factor));
}

Tensor cholesky_solve(const Tensor& b, const Tensor& l, bool upper) {
  CHECK(b.dim() >= 2, RuntimeError,
        "b should have at least 2 dimensions, but has {} dimensions instead", b.dim());
  CHECK(l.dim() >= 2, RuntimeError,
        "u should have at least 2 dimensions, but has {} dimensions instead", l.dim());
  check_square("cholesky_solve", l);
  check_same_device("cholesky_solve", l.device(), b.device());
  CHECK(b.dtype() == l.dtype(), RuntimeError,
        "Expected b and A to have the same dtype, but found b of type {} and A of type {} instead.",
        dtype_legacy_name(b.dtype()), dtype_legacy_name(l.dtype()));
  check_lapack(l);
  CHECK(l.size(-2) == b.size(-2), RuntimeError,
        "Incompatible matrix sizes for cholesky_solve: each A matrix is {} by {} but each b matrix "
        "is {} by {}",
        l.size(-2), l.size(-1), b.size(-2), b.size(-1));
  const Transposed adjoint = Transposed::conjugated, plain = Transposed::no;
  const Tensor half = run_triangular(l, b, upper, true, false, upper ? adjoint : plain);
  Tensor x = run_triangular(l, half, upper, true, false, upper ? plain : adjoint);
  if (Record r{"cholesky_solve", x, {b, l}}) {
    r.all([kept = r.save(l), y = r.save_output(x), wants_l = r.wants(1), upper](Grads& in,
                                                                                Grads& out) {
      if (!in[0].defined()) return;
      const Tensor factor = kept();
      out[0] = cholesky_solve(in[0], factor, upper);
      if (!wants_l) return;
      out[1] = factor_gradient(matmul(out[0], mH(y())), factor, upper);
    });
  }
  return x;
}
OP(cholesky_solve, "cholesky_solve(input, L, upper=False)",
   "The solution of A X = input, from the Cholesky factor of A.", casts_out | cpu_exact | event(2))

Tensor cholesky_inverse(const Tensor& input, bool upper) {
  check_square("cholesky_inverse", input);
  check_lapack(input);
  if (!input.device().is_meta() && input.numel() > 0) {
    const NoGrad off;
    const Tensor zero =
        to(to(contiguous(diagonal_of(detach(input)) == 0.0), DType::uint8), Device());
    const int64_t n = input.size(-1);
    for (int64_t i = 0; i < zero.numel(); ++i) {
      if (!zero.data<uint8_t>()[i]) continue;
      const std::string where = input.dim() > 2 ? format("(Batch element {}): ", i / n) : "";
      throw LinAlgError(
          format("cholesky_inverse: {}The diagonal element {} is zero, the inversion "
                 "could not be completed because the input matrix is singular.",
                 where, i % n + 1));
    }
  }
  constexpr int64_t few_rows = 48;  // which solutions of systems are as fast for
  const bool solves = input.size(-1) <= few_rows || input.numel() == 0;
  if (solves || !kernels::cholesky_inverse.filled(input.device_type()))
    return cholesky_solve(identity_like(input, input.size(-1)), input, upper);
  Tensor x = copy_columns(upper ? mH(detach(input)) : input);
  kernels::cholesky_inverse(input.device_type(), x);
  if (Record r{"cholesky_inverse", x, {input}}) {
    r.wrt(0, [kept = r.save(input), y = r.save_output(x), upper](const Tensor& g) {
      return factor_gradient(matmul(matmul(y(), g), mH(y())), kept(), upper);
    });
  }
  return x;
}
OP((one_step<cholesky_inverse, "cholesky_inverse">), "cholesky_inverse(input, upper=False)",
   "The inverse of a positive-definite matrix, from its Cholesky factor.",
   casts_out | cpu_exact | event(2))

// --- LDL --------------------------------------------------------------------------------------

std::string zero_in_d(int code) {
  return format("Unknown error code: {}: a block of D is zero, so no system can be solved with it.",
                code);
}

Triple linalg_ldl_factor_ex(const Tensor& a, bool hermitian, bool check_errors) {
  constexpr const char* op = "torch.linalg.ldl_factor_ex";
  check_square(op, a);
  check_float(op, a);
  Tensor ld = copy_columns(a);
  Dims n_pivots = a.sizes().first(a.dim() - 1).dims();
  Tensor pivots = make_tensor(n_pivots, DType::int32, a.device());
  Tensor info = make_info(batch_of(a), a.device());
  if (ld.numel() > 0) kernels::ldl_factor(a.device_type(), ld, pivots, info, hermitian);
  keep_triangle(ld, false);
  if (check_errors) check_info("torch.linalg.ldl_factor_ex", info, zero_in_d);
  if (Record r{"linalg_ldl_factor_ex", ld, {a}}) {
    r.wrt(0, [](const Tensor&) -> Tensor {
      fail<RuntimeError>("derivative for aten::linalg_ldl_factor_ex is not implemented");
    });
  }
  return {ld, pivots, info};
}
OP_FUNCTION(linalg_ldl_factor_ex,
            "linalg_ldl_factor_ex(A, *, hermitian=False, check_errors=False) -> (LD, pivots, info)",
            "The factors of a symmetric matrix A = L D L^T in one matrix, and what failed.",
            event(2) | out_fails)

Pair linalg_ldl_factor(const Tensor& a, bool hermitian) {
  auto [ld, pivots, info] = linalg_ldl_factor_ex(a, hermitian, false);
  check_info("torch.linalg.ldl_factor", info, zero_in_d);
  return {ld, pivots};
}
OP_FUNCTION(linalg_ldl_factor, "linalg_ldl_factor(A, *, hermitian=False) -> (LD, pivots)",
            "The factors of a symmetric matrix A = L D L^T in one matrix.", event(2) | out_fails)

Tensor linalg_ldl_solve(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool hermitian) {
  constexpr const char* op = "torch.linalg.ldl_solve";
  check_square(op, ld);
  check_float(op, ld);
  check_alike(op, ld, b, "LD", "B");
  CHECK(b.dim() >= 2, RuntimeError,
        "{}: Expected B to have at least 2 dimensions, but it has {} dimensions instead", op,
        b.dim());
  check_system(op, ld, b, true);
  CHECK(is_integral(pivots.dtype()), RuntimeError, "{}: Expected pivots to be integers. Got {}", op,
        dtype_legacy_name(pivots.dtype()));
  CHECK(pivots.sizes() == ld.sizes().first(ld.dim() - 1), RuntimeError,
        "{}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {} "
        "instead",
        op, pivots.sizes());
  const Dims batch = broadcast_shapes(batch_of(ld), batch_of(b));
  Tensor x = copy_columns(b, IntSpan(batch));
  Dims n_pivots = batch;
  n_pivots.push_back(pivots.size(-1));
  const Tensor exchanged = contiguous(expand(to(pivots, DType::int32), n_pivots));
  if (x.numel() > 0) {
    kernels::ldl_solve(x.device_type(), as_columns(ld, IntSpan(batch)), exchanged, x, hermitian);
  }
  if (Record r{"linalg_ldl_solve", x, {ld, b}}) {
    r.all([](Grads&, Grads&) {
      fail<RuntimeError>("derivative for aten::linalg_ldl_solve is not implemented");
    });
  }
  return x;
}
OP_FUNCTION(linalg_ldl_solve, "linalg_ldl_solve(LD, pivots, B, *, hermitian=False)",
            "The solution of A X = B from the LDL factors of A.", event(2, 1, 2) | out_fails)

}  // namespace
}  // namespace flambeau
