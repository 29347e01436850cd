// LU factors and what follows from them: determinants, inverses and solutions of linear systems.
#include <atomic>

#include "flambeau/autograd/record.h"
#include "flambeau/base/warn.h"
#include "flambeau/ops/layers/batching.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/one_step.h"
#include "flambeau/ops/redirect.h"
#include "flambeau/ops/shape/views.h"

namespace flambeau {
namespace {

using Quadruple = std::tuple<Tensor, Tensor, Tensor, Tensor>;

std::string singular_inverse(int code) {
  return format(
      "The diagonal element {} is zero, the inversion could not be completed because the "
      "input matrix is singular.",
      code);
}
std::string singular_system(int) {
  return "The solver failed because the input matrix is singular.";
}
std::string singular_factor(int code) {
  return format(
      "U[{},{}] is zero and using it on lu_solve would result in a division by zero. If "
      "you still want to perform the factorization, consider calling linalg.lu(A, pivot) "
      "or linalg.lu_factor_ex(A, pivot)",
      code, code);
}

// --- Factors ----------------------------------------------------------------------------------

// The pivots of a factorisation that exchanges no rows: every row stays where it is.
Tensor pivots_in_place(IntSpan sizes, Device device) {
  const NoGrad off;
  const int64_t n = sizes[sizes.size() - 1];
  return contiguous(expand(arange(1, n + 1, 1, {.dtype = DType::int32, .device = device}), sizes));
}

Triple factor(const Tensor& a, bool exchanges = true) {
  Tensor lu = copy_columns(a);
  Dims n_pivots = batch_of(a).dims();
  n_pivots.push_back(std::min(a.size(-2), a.size(-1)));
  Tensor pivots = exchanges ? make_tensor(n_pivots, DType::int32, a.device())
                            : pivots_in_place(n_pivots, a.device());
  Tensor info = make_info(batch_of(a), a.device());
  if (lu.numel() > 0) kernels::lu_factor(a.device_type(), lu, exchanges ? pivots : Tensor(), info);
  return {lu, pivots, info};
}

// The permutation, as the index of the row of A that each row of L U is.
Tensor permutation_of(const Tensor& pivots, int64_t rows) {
  Dims sizes = pivots.sizes().first(pivots.dim() - 1).dims();
  sizes.push_back(rows);
  const NoGrad off;
  Tensor order = contiguous(
      expand(arange(0, rows, 1, {.dtype = DType::int64, .device = pivots.device()}), sizes));
  if (pivots.numel() > 0) kernels::pivot_order(pivots.device_type(), contiguous(pivots), order);
  return order;
}

// P with A = P L U.
Tensor permutation_matrix(const Tensor& pivots, int64_t rows, DType dtype) {
  const Tensor order = permutation_of(pivots, rows);
  Dims sizes = order->sizes;
  sizes.push_back(rows);
  const NoGrad off;
  Tensor p = zeros(sizes, {.dtype = dtype, .device = pivots.device()});
  if (p.numel() > 0) scatter_(p, -2, unsqueeze(order, -2), Operand(1.0));
  return p;
}

Tensor unit_lower(const Tensor& lu) {
  const int64_t k = std::min(lu.size(-2), lu.size(-1));
  const Tensor below = tril(narrow(lu, -1, 0, k), -1);
  const Tensor one = zeros(below.sizes().from(below.dim() - 2), options_of(lu));
  {
    const NoGrad off;
    fill_(diagonal(one, 0, 0, 1), 1.0);
  }
  return below + one;
}
Tensor upper_part(const Tensor& lu) {
  return triu(narrow(lu, -2, 0, std::min(lu.size(-2), lu.size(-1))), 0);
}

// From the gradients of L and U, both of full size, to that of A = P L U.
Tensor lu_gradient(const Tensor& g, const Tensor& lu, const Tensor& pivots) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor l = unit_lower(lu), u = upper_part(lu);
  const Tensor l1 = narrow(l, -2, 0, k), u1 = narrow(u, -1, 0, k);
  Tensor g_l = tril(narrow(narrow(g, -1, 0, k), -2, 0, k), -1);
  Tensor g_u = triu(narrow(narrow(g, -2, 0, k), -1, 0, k), 0);
  Tensor rest;  // the gradient of the columns, or rows, beyond the square
  if (n > m) {
    const Tensor g_u2 = narrow(g, -1, k, n - k), u2 = narrow(u, -1, k, n - k);
    rest = solve_adjoint_triangular(l1, g_u2, false, true, true);
    g_l = g_l - matmul(rest, mH(u2));
  } else if (m > n) {
    const Tensor g_l2 = narrow(g, -2, k, m - k), l2 = narrow(l, -2, k, m - k);
    rest = solve_adjoint_triangular(u1, g_l2, true, false, false);
    g_u = g_u - matmul(mH(l2), rest);
  }
  const Tensor inner = tril(matmul(mH(l1), g_l), -1) + triu(matmul(g_u, mH(u1)), 0);
  Tensor result = solve_adjoint_triangular(
      u1, solve_adjoint_triangular(l1, inner, false, true, true), true, false, false);
  if (rest.defined()) result = cat({result, rest}, n > m ? -1 : -2);
  return matmul(permutation_matrix(pivots, m, lu.dtype()), result);
}

Triple lu_factor_checked(std::string_view op, const Tensor& a, bool pivot, bool check_errors) {
  CHECK(a.dim() >= 2, RuntimeError,
        "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: {} instead",
        a.sizes());
  CHECK(pivot || !a.device().is_cpu(), RuntimeError,
        "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  auto [lu, pivots, info] = factor(a, pivot);
  if (check_errors) check_info(op, info, singular_factor, true);
  if (Record r{"linalg_lu_factor_ex", lu, {a}}) {
    r.wrt(0, [y = r.save_output(lu), order = pivots](const Tensor& g) {
      return lu_gradient(g, y(), order);
    });
  }
  return {lu, pivots, info};
}

Triple linalg_lu_factor_ex(const Tensor& a, bool pivot, bool check_errors) {
  return lu_factor_checked("torch.linalg.lu_factor_ex", a, pivot, check_errors);
}
OP_FUNCTION(linalg_lu_factor_ex,
            "linalg_lu_factor_ex(A, *, pivot=True, check_errors=False) -> (LU, pivots, info)",
            "The factors L and U in one matrix, how rows were exchanged, and what failed.",
            event(2))

Pair linalg_lu_factor(const Tensor& a, bool pivot) {
  auto [lu, pivots, info] = lu_factor_checked("torch.linalg.lu_factor", a, pivot, true);
  return {lu, pivots};
}
OP_FUNCTION(linalg_lu_factor, "linalg_lu_factor(A, *, pivot=True) -> (LU, pivots)",
            "The factors L and U in one matrix, and how rows were exchanged.", event(2))

Triple lu_unpack(const Tensor& lu, const Tensor& pivots, bool unpack_data, bool unpack_pivots) {
  check_matrix("torch.lu_unpack", lu, "LU_data");
  check_same_device("torch.lu_unpack", lu.device(), pivots.device());
  CHECK(!unpack_pivots || pivots.dtype() == DType::int32, RuntimeError,
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
        "Note: this function is intended to be used with the output produced by "
        "torch.linalg.lu_factor");
  Dims wanted = lu.sizes().first(lu.dim() - 2).dims();
  wanted.push_back(std::min(lu.size(-2), lu.size(-1)));
  CHECK(!unpack_pivots || pivots.sizes() == wanted, ValueError,
        "torch.lu_unpack: Expected LU_pivots to have shape {} but got {} instead.", IntSpan(wanted),
        pivots.sizes());
  const Tensor none = empty({0}, options_of(lu));
  Triple parts{none, none, none};
  if (unpack_pivots) std::get<0>(parts) = permutation_matrix(pivots, lu.size(-2), lu.dtype());
  if (unpack_data) {
    std::get<1>(parts) = contiguous(unit_lower(lu));
    std::get<2>(parts) = contiguous(upper_part(lu));
  }
  return parts;
}
OP_FUNCTION(lu_unpack,
            "lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True) -> (P, L, U)",
            "The matrices P, L and U with A = P L U, from what lu_factor gave.", event(2, 1))

Triple linalg_lu(const Tensor& a, bool pivot) {
  auto [lu, pivots, info] = lu_factor_checked("linalg.lu", a, pivot, false);
  return lu_unpack(lu, pivots, true, pivot);  // without exchanges P is an empty tensor
}
OP_FUNCTION((one_step<linalg_lu, "linalg_lu">), "linalg_lu(A, *, pivot=True) -> (P, L, U)",
            "The matrices P, L and U with A = P L U.", event(2))

// --- Solutions --------------------------------------------------------------------------------

Tensor solve_factored(const Tensor& lu, const Tensor& pivots, const Tensor& b, IntSpan batch,
                      bool left, bool adjoint) {
  const NoGrad off;
  const Tensor factors = as_columns(lu, batch);
  Dims pivot_sizes = batch.dims();
  pivot_sizes.push_back(pivots.size(-1));
  const Tensor exchanged = contiguous(expand(pivots, pivot_sizes));
  // x a = b is a^T x^T = b^T; x a^H = b is conj(a) x^T = b^T, or a conj(x^T) = conj(b^T).
  const bool conjugated = !left && adjoint && b.is_complex();
  Tensor rhs = left ? b : mT(b);
  if (conjugated) rhs = conj_physical(rhs);
  Tensor x = copy_columns(rhs, batch);
  const Transposed how = left ? (adjoint ? Transposed::conjugated : Transposed::no)
                              : (adjoint ? Transposed::no : Transposed::yes);
  if (x.numel() > 0) kernels::lu_solve(x.device_type(), factors, exchanged, x, how);
  if (conjugated) x = conj_physical(x);
  return left ? x : transpose(x, -2, -1);
}

Dims system_batch(const Tensor& a, const Tensor& b) {
  return broadcast_shapes(batch_of(a), batch_of(b));
}

bool is_vector_case(const Tensor& a, const Tensor& b) {
  return b.dim() == 1 || (a.dim() - 1 == b.dim() && a.sizes().first(a.dim() - 1) == b.sizes());
}

void check_solve(std::string_view op, const Tensor& a, const Tensor& b, bool left, bool vector) {
  check_square(op, a);
  check_float(op, a);
  check_alike(op, a, b, "A", "B");
  CHECK(b.dim() >= 1, RuntimeError, "{}: The input tensor B must have at least 2 dimensions.", op);
  CHECK(left || !vector, RuntimeError,
        "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. "
        "In this case linalg.solve is equivalent to B / A.squeeze(-1)");
  check_system(op, a, vector ? unsqueeze(b, -1) : b, left);
}

Pair solve(std::string_view op, const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  const bool vector = b.dim() > 0 && is_vector_case(a, b);
  check_solve("linalg.solve", a, b, left, vector);
  const Tensor rhs = vector ? unsqueeze(b, -1) : b;
  const Dims batch = system_batch(a, rhs);
  auto [lu, pivots, info] = factor(a);
  if (check_errors) check_info(op, info, singular_system);
  Tensor x = solve_factored(lu, pivots, rhs, batch, left, false);
  if (vector) {
    x = squeeze(x, IntSpan{-1});
    // PyTorch lays out a batch of vectors as if it were a matrix.
    if (x.dim() >= 2) x = copy_columns(x);
  }
  x = detach(x);
  if (Record r{"linalg_solve_ex", x, {a, b}}) {
    r.all([kept = r.save(a), y = r.save_output(x), left, vector, wants_a = r.wants(0)](Grads& in,
                                                                                       Grads& out) {
      if (!in[0].defined()) return;
      const Tensor g = vector ? unsqueeze(in[0], -1) : in[0];
      const Tensor solution = vector ? unsqueeze(y(), -1) : y();
      const Tensor g_b = linalg_solve(mH(kept()), g, left);
      if (wants_a) {
        out[0] = left ? -matmul(g_b, mH(solution)) : -matmul(mH(solution), g_b);
      }
      out[1] = vector ? squeeze(g_b, IntSpan{-1}) : g_b;
    });
  }
  return {x, info};
}

Pair linalg_solve_ex(const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  return solve("torch.linalg.solve_ex", a, b, left, check_errors);
}
OP_FUNCTION(linalg_solve_ex,
            "linalg_solve_ex(A, B, *, left=True, check_errors=False) -> (result, info)",
            "The solution of A X = B (or X A = B) and what failed.")

Tensor linalg_lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left,
                       bool adjoint) {
  CHECK(pivots.dtype() == DType::int32, RuntimeError,
        "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
  check_alike("linalg.lu_solve", lu, b, "LU", "B");
  check_square("torch.linalg.lu_solve", lu);
  CHECK(is_differentiable(lu.dtype()), NotImplementedError,
        "\"lu_solve_cpu\" not implemented for '{}'", dtype_legacy_name(lu.dtype()));
  check_matrix("torch.linalg.lu_solve", b, "B");
  check_system("linalg.lu_solve", lu, b, left);
  CHECK(
      pivots.dim() == lu.dim() - 1 && pivots.size(-1) == lu.size(-1), RuntimeError,
      "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix");
  CHECK(pivots.sizes().first(pivots.dim() - 1) == batch_of(lu), RuntimeError,
        "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots "
        "with shape {} instead",
        pivots.sizes());
  const Dims batch = system_batch(lu, b);
  if (grad_enabled() && (lu.requires_grad() || b.requires_grad())) {
    // In steps that have derivatives of their own.
    const Tensor l = unit_lower(lu), u = upper_part(lu);
    const Tensor p = permutation_matrix(pivots, lu.size(-2), lu.dtype());
    if (left != adjoint) {  // A = P L U in front of x, or A^H behind it
      const Tensor rhs = left ? b : mH(b);
      const Tensor x = linalg_solve_triangular(
          u, linalg_solve_triangular(l, matmul(mT(p), rhs), false, true, true), true, true, false);
      return left ? in_columns(x) : contiguous(mH(x));
    }
    const Tensor rhs = left ? b : mH(b);  // A^H = U^H L^H P^T
    const Tensor x = matmul(
        p, linalg_solve_triangular(mH(l), linalg_solve_triangular(mH(u), rhs, false, true, false),
                                   true, true, true));
    return left ? in_columns(x) : contiguous(mH(x));
  }
  return solve_factored(lu, pivots, b, batch, left, adjoint);
}
OP_FUNCTION((one_step<linalg_lu_solve, "linalg_lu_solve">),
            "linalg_lu_solve(LU, pivots, B, *, left=True, adjoint=False)",
            "The solution of A X = B (or X A = B) from the LU factors of A.", event(2, 1, 2))

Tensor lu_solve(const Tensor& b, const Tensor& lu, const Tensor& pivots) {
  static std::atomic<bool> told{false};
  warn_once(
      told,
      "torch.lu_solve is deprecated in favor of torch.linalg.lu_solve and will be removed in "
      "a future PyTorch release. Note that torch.linalg.lu_solve has its arguments reversed.");
  return linalg_lu_solve(lu, pivots, b, true, false);
}
OP((one_step<lu_solve, "linalg_lu_solve">), "lu_solve(input, LU_data, LU_pivots)",
   "The solution of A X = input from the LU factors of A.", cpu_exact | event(2, 2, 1))

// --- Inverses ---------------------------------------------------------------------------------

Pair inverse_with(std::string_view op, const Tensor& a, bool check_errors) {
  check_square("linalg.inv", a);
  check_float("linalg.inv", a, false);
  Tensor out = copy_columns(a);
  Tensor info = make_info(batch_of(a), a.device());
  if (out.numel() > 0) kernels::matrix_inverse(a.device_type(), out, info);
  if (check_errors) check_info(op, info, singular_inverse);
  if (Record r{"linalg_inv_ex", out, {a}}) {
    r.wrt(0, [y = r.save_output(out)](const Tensor& g) {
      const Tensor adjoint_y = mH(y());
      return -matmul(adjoint_y, matmul(g, adjoint_y));
    });
  }
  return {out, info};
}

}  // namespace

Pair linalg_inv_ex(const Tensor& a, bool check_errors) {
  return inverse_with("linalg.inv_ex", a, check_errors);
}
OP_FUNCTION(linalg_inv_ex, "linalg_inv_ex(A, *, check_errors=False) -> (inverse, info)",
            "The inverse of square matrices and what failed.", cpu_exact | event(2))

Tensor linalg_inv(const Tensor& a) {
  REDIRECT(linalg_inv, a)
  return std::get<0>(inverse_with("linalg.inv", a, true));
}
OP_FUNCTION(linalg_inv, "linalg_inv(A)", "The inverse of square matrices.", cpu_exact | event(2))
OP(linalg_inv, "inverse(input)", "The inverse of square matrices.", cpu_exact | event(2) | composed)

Tensor linalg_solve(const Tensor& a, const Tensor& b, bool left) {
  REDIRECT(linalg_solve, a, b, left)
  return std::get<0>(solve("torch.linalg.solve", a, b, left, true));
}
OP_FUNCTION(linalg_solve, "linalg_solve(A, B, *, left=True)",
            "The solution of A X = B, or of X A = B.", cpu_exact)

namespace {

// --- Determinants -----------------------------------------------------------------------------

// The transposed matrix of cofactors, conjugated: the derivative of det at a singular matrix too.
Tensor cofactors(const Tensor& a, const Tensor& det) {
  const bool singular = !det.device().is_meta() && any_zero(detach(det));
  if (!singular) return mH(linalg_inv(a)) * unsqueeze(unsqueeze(conj_physical(det), -1), -1);
  const auto [u, s, vh] = linalg_svd(a, false, std::nullopt);
  // Products of all values but one, from both ends.
  const Tensor one = ones_like(narrow(s, -1, 0, std::min<int64_t>(1, s.size(-1))));
  const int64_t rest = std::max<int64_t>(s.size(-1) - 1, 0);
  const Tensor before = cat({one, cumprod(narrow(s, -1, 0, rest), -1)}, -1);
  const Tensor back = flip(s, IntSpan{-1});
  const Tensor after = flip(cat({one, cumprod(narrow(back, -1, 0, rest), -1)}, -1), IntSpan{-1});
  const Tensor others = before * after;
  const auto turn = [](const Tensor& unitary) {
    auto [lu, pivots, info] = factor(unitary);
    Tensor out = make_tensor(batch_of(unitary), unitary.dtype(), unitary.device());
    kernels::determinant(unitary.device_type(), lu, pivots, out);
    return out;
  };
  const Tensor phase = conj_physical(turn(u) * turn(vh));
  return matmul(scale_columns(u, others), vh) * unsqueeze(unsqueeze(phase, -1), -1);
}

Tensor det_checked(const char* op, const Tensor& a) {
  check_square(op, a);
  check_float(op, a);
  auto [lu, pivots, info] = factor(a);
  Tensor out = make_tensor(batch_of(a), a.dtype(), a.device());
  kernels::determinant(a.device_type(), lu, pivots, out);
  if (Record r{"linalg_det", out, {a}}) {
    r.wrt(0, [kept = r.save(a), y = r.save_output(out)](const Tensor& g) {
      return cofactors(kept(), y()) * unsqueeze(unsqueeze(g, -1), -1);
    });
  }
  return out;
}
Tensor linalg_det(const Tensor& a) { return det_checked("linalg.det", a); }
OP_FUNCTION(linalg_det, "linalg_det._linalg_det.default(A)", "The determinant of square matrices.",
            event(2))
OP(linalg_det, "det._linalg_det.default(input)", "The determinant of square matrices.",
   event(2) | no_out | composed)

Pair slogdet_checked(const char* op, const Tensor& a) {
  check_square(op, a);
  check_float(op, a);
  auto [lu, pivots, info] = factor(a);
  Tensor sign = make_tensor(batch_of(a), a.dtype(), a.device());
  Tensor logabs = make_tensor(batch_of(a), to_real(a.dtype()), a.device());
  kernels::log_determinant(a.device_type(), lu, pivots, sign, logabs);
  if (Record r{"linalg_slogdet", {sign, logabs}, {a}}) {
    r.all([kept = r.save(a), phase = r.save_output(sign)](Grads& in, Grads& out) {
      const Tensor x = kept();
      Tensor g = in[1];
      // The sign of a real matrix is constant; a complex one turns.
      if (x.is_complex() && in[0].defined()) {
        const Tensor turn = imag(conj_physical(in[0]) * phase()) * -1.0;
        const Tensor imaginary = view_as_complex(stack({zeros_like(turn), turn}, -1));
        g = g.defined() ? g + imaginary : imaginary;
      }
      if (!g.defined()) return;
      out[0] = mH(linalg_inv(x)) * unsqueeze(unsqueeze(g, -1), -1);
    });
  }
  return {sign, logabs};
}
Pair linalg_slogdet(const Tensor& a) { return slogdet_checked("linalg.slogdet", a); }
OP_FUNCTION(linalg_slogdet, "linalg_slogdet._linalg_slogdet.default(A) -> (sign, logabsdet)",
            "The sign of the determinant and the logarithm of its absolute value.", event(2))
OP(linalg_slogdet, "slogdet._linalg_slogdet.default(input) -> (sign, logabsdet)",
   "The sign of the determinant and the logarithm of its absolute value.", event(2) | composed)

Tensor logdet(const Tensor& input) {
  const auto [sign, logabs] = slogdet_checked("logdet", input);
  if (input.is_complex()) return log(sign) + logabs;
  return where(sign == -1.0, std::numeric_limits<double>::quiet_NaN(), logabs);
}
OP(logdet, "logdet(input)", "The logarithm of the determinant; NaN where that is negative.",
   event(2) | no_out | composed)

}  // namespace
// --- Inside vmap
// ---------------------------------------------------------------------------------

namespace {
// Right sides that are vectors are columns: with a batch in front they would be taken for matrices.
bool batch_solve(Batching& batch, Result& result) {
  const Tensor a = batch.tensor(0), b = batch.tensor(1);
  if (a.dim() < 2 || b.dim() == 0) return false;
  const bool vectors =
      b.dim() == 1 || (b.dim() == a.dim() - 1 && b.sizes() == a.sizes().first(a.dim() - 1));
  const int64_t rank = std::max(a.dim(), b.dim() + vectors);
  const auto aligned = [&](const Tensor& one, bool vector) {
    Tensor x = batch.samples(one);
    if (vector) x = unsqueeze_at(x, -1);
    for (int64_t d = one.dim() + vector; d < rank && batch.is_batched(one); ++d)
      x = unsqueeze_at(x, 1);
    return x;
  };
  batch.rewrite().set(0, aligned(a, false));
  batch.rewrite().set(1, aligned(b, vectors));
  batch.run(result);
  if (vectors && result.form == Result::Form::tensor) result.tensor = squeeze_at(result.tensor, -1);
  if (vectors && result.form == Result::Form::tuple)
    result.tensors[0] = squeeze_at(result.tensors[0], -1);
  return true;
}
}  // namespace
BATCH(linalg_solve, batch_solve)
BATCH(linalg_solve_ex, batch_solve)

}  // namespace flambeau
