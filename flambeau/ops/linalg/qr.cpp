// QR factors and products of Householder reflections.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/one_step.h"

namespace flambeau {
namespace {

Pair factor(const Tensor& a) {
  check_lapack(a);
  Tensor packed = copy_columns(a);
  Dims sizes = batch_of(a).dims();
  sizes.push_back(std::min(a.size(-2), a.size(-1)));
  Tensor tau = make_tensor(sizes, a.dtype(), a.device());
  if (packed.numel() > 0) kernels::qr_factor(a.device_type(), packed, tau);
  return {packed, tau};
}

Pair geqrf(const Tensor& input) {
  CHECK(input.dim() >= 2, RuntimeError, "torch.geqrf: input must have at least 2 dimensions.");
  auto [a, tau] = factor(input);
  if (Record r{"geqrf", {a, tau}, {input}}) {
    r.all([](Grads&, Grads&) {
      fail<NotImplementedError>("the derivative for 'geqrf' is not implemented.");
    });
  }
  return {a, tau};
}
OP(geqrf, "geqrf(input) -> (a, tau)",
   "The QR factors as LAPACK keeps them: R, and the reflections whose product is Q.",
   casts_out | cpu_exact | event(2))

// For A = Q R with at least as many rows as columns: with C = Q^H dA R^-1 = Q^H dQ + dR R^-1, a sum
// of a skew-Hermitian matrix and an upper triangular one with real diagonal,
// dR R^-1 = triu(C, 1) + tril(C, -1)^H + Re diag(C) and dQ = dA R^-1 - Q (dR R^-1).
Tensor tall_gradient(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r) {
  Tensor m;
  if (g_r.defined()) m = matmul(g_r, mH(r));
  if (g_q.defined()) m = m.defined() ? m - matmul(mH(q), g_q) : -matmul(mH(q), g_q);
  const Tensor above = triu(m, 1);
  Tensor on_diagonal = diagonal_of(m);
  if (on_diagonal.is_complex()) on_diagonal = to(real(on_diagonal), m.dtype());
  const Tensor inner = add_to_diagonal(above + mH(above), on_diagonal);
  Tensor whole = matmul(q, inner);
  if (g_q.defined()) whole = whole + g_q;
  return solve_adjoint_triangular(r, whole, true, false, false);
}

Tensor qr_gradient(const Tensor& g_q, const Tensor& g_r, const Tensor& q, const Tensor& r) {
  const int64_t m = r.size(-2), n = r.size(-1);
  if (q.size(-2) >= n) return tall_gradient(g_q, g_r, q, r);
  // The columns beyond the square: A2 = Q R2.
  const Tensor r1 = narrow(r, -1, 0, m), r2 = narrow(r, -1, m, n - m);
  if (!g_r.defined()) {
    const Tensor first = tall_gradient(g_q, {}, q, r1);
    return cat({first, zeros_like(r2)}, -1);
  }
  const Tensor g_r2 = narrow(g_r, -1, m, n - m);
  const Tensor from_rest = matmul(matmul(q, r2), mH(g_r2));
  const Tensor both = g_q.defined() ? g_q + from_rest : from_rest;
  return cat({tall_gradient(both, narrow(g_r, -1, 0, m), q, r1), matmul(q, g_r2)}, -1);
}

Pair linalg_qr(const Tensor& a, std::string_view mode) {
  check_matrix("linalg.qr", a);
  check_float("linalg.qr", a);
  CHECK(mode == "reduced" || mode == "complete" || mode == "r", RuntimeError,
        "qr received unrecognized mode '{}' but expected one of 'reduced' (default), 'r', or "
        "'complete'",
        mode);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const bool complete = mode == "complete";
  const int64_t inner = complete ? m : k;
  auto [packed, tau] = factor(a);
  Tensor q, r;
  {
    const NoGrad off;
    r = copy_columns(triu(narrow(packed, -2, 0, inner), 0));
    if (mode == "r") {
      q = empty({0}, options_of(a));
    } else {
      q = make_columns(with_matrix(batch_of(a), m, inner), a.dtype(), a.device());
      if (inner > k) zero_(q);
      copy_(narrow(q, -1, 0, k), narrow(packed, -1, 0, k));
      if (q.numel() > 0) kernels::householder_product(a.device_type(), q, tau);
    }
  }
  if (Record record{"linalg_qr", {q, r}, {a}}) {
    const bool no_q = mode == "r", too_many = complete && m > n;
    record.all([kept_q = record.save_output(q), kept_r = record.save_output(r), no_q, too_many](
                   Grads& in, Grads& out) {
      CHECK(!no_q, RuntimeError,
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through "
            "linalg.qr.");
      CHECK(!too_many, RuntimeError,
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
      if (!in[0].defined() && !in[1].defined()) return;
      out[0] = qr_gradient(in[0], in[1], kept_q(), kept_r());
    });
  }
  return {q, r};
}
OP_FUNCTION(linalg_qr, "linalg_qr(A, mode='reduced') -> (Q, R)",
            "The factors of A = Q R: orthonormal columns and an upper triangle.",
            cpu_exact | event(2))

// The vector of reflection i: zeros, a one, and what stands below the diagonal.
Tensor reflector(const Tensor& a, int64_t i) {
  const Tensor below = narrow(select(a, -1, i), -1, i + 1, a.size(-2) - i - 1);
  Dims sizes = below->sizes;
  sizes.back() = i;
  const Tensor above = zeros(sizes, options_of(a));
  sizes.back() = 1;
  return unsqueeze(cat({above, ones(sizes, options_of(a)), below}, -1), -1);
}

// H_1 ... H_k c, or its adjoint, one reflection at a time: slow, but every step has a derivative.
Tensor reflect(const Tensor& a, const Tensor& tau, Tensor c, bool adjoint) {
  const int64_t k = tau.size(-1);
  for (int64_t step = 0; step < k; ++step) {
    const int64_t i = adjoint ? step : k - 1 - step;
    const Tensor v = reflector(a, i);
    Tensor factor = unsqueeze(narrow(tau, -1, i, 1), -1);
    if (adjoint && tau.is_complex()) factor = conj_physical(factor);
    c = c - matmul(v, matmul(mH(v), c)) * factor;
  }
  return c;
}

bool wants_gradient(const Tensor& a, const Tensor& b) {
  return grad_enabled() && (a.requires_grad() || b.requires_grad());
}

void check_tau(const char* op, const Tensor& a, const Tensor& tau) {
  CHECK(a.dim() >= 2, RuntimeError, "{}: input must have at least 2 dimensions.", op);
  CHECK(a.size(-2) >= a.size(-1), RuntimeError,
        "{}: input.shape[-2] must be greater than or equal to input.shape[-1]", op);
  CHECK(a.size(-1) >= tau.size(-1), RuntimeError,
        "{}: input.shape[-1] must be greater than or equal to tau.shape[-1]", op);
  CHECK(tau.dim() == a.dim() - 1, RuntimeError,
        "{}: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and "
        "input.ndim is equal to {}",
        op, tau.dim(), a.dim());
  CHECK(tau.sizes().first(tau.dim() - 1) == batch_of(a), RuntimeError,
        "{}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}", op,
        tau.sizes().first(tau.dim() - 1));
  CHECK(tau.dtype() == a.dtype(), RuntimeError, "{}: tau dtype {} does not match input dtype {}",
        op, dtype_legacy_name(tau.dtype()), dtype_legacy_name(a.dtype()));
}

Tensor linalg_householder_product(const Tensor& a, const Tensor& tau) {
  check_lapack(a);
  check_tau("torch.linalg.householder_product", a, tau);
  if (wants_gradient(a, tau)) {
    const Tensor columns = narrow(identity_like(a, a.size(-2)), -1, 0, a.size(-1));
    const Tensor start = expand_batch(columns, batch_of(a));
    if (tau.size(-1) > 0) return in_columns(reflect(a, tau, start, false));
    Tensor q = copy_columns(start);
    record_constant("linalg_householder_product", q, a, tau);
    return q;
  }
  Tensor q = copy_columns(a);
  if (q.numel() > 0) kernels::householder_product(a.device_type(), q, contiguous(tau));
  return q;
}
OP_FUNCTION((one_step<linalg_householder_product, "linalg_householder_product">),
            "linalg_householder_product(input, tau)",
            "The first columns of a product of Householder reflections.",
            casts_out | cpu_exact | event(2, 1))
OP([](const Tensor& input, const Tensor& tau) { return linalg_householder_product(input, tau); },
   "orgqr(input, tau)", "The first columns of a product of Householder reflections.",
   casts_out | cpu_exact | event(2, 1))

Tensor ormqr(const Tensor& input, const Tensor& tau, const Tensor& other, bool left,
             bool transposed) {
  check_lapack(input);
  constexpr const char* op = "torch.ormqr";
  CHECK(input.dim() >= 2, RuntimeError, "{}: input must have at least 2 dimensions.", op);
  CHECK(other.dim() >= 2, RuntimeError, "{}: other must have at least 2 dimensions.", op);
  const int64_t side = left ? -2 : -1;
  CHECK(other.size(side) >= tau.size(-1), RuntimeError,
        "{}: other.shape[{}] must be greater than or equal to tau.shape[-1]", op, side);
  CHECK(other.size(side) == input.size(-2), RuntimeError,
        "{}: other.shape[{}] must be equal to input.shape[-2]", op, side);
  CHECK(
      tau.size(-1) == std::min(other.size(side), input.size(-1)) || tau.size(-1) <= input.size(-1),
      RuntimeError, "{}: tau.shape[-1] must be equal to min(other.shape[{}], input.shape[-1])", op,
      side);
  CHECK(
      tau.dim() == input.dim() - 1 && other.dim() == input.dim(), RuntimeError,
      "{}: Expected tau to have one dimension less than input and other as many, but got tau.ndim "
      "equal to {}, other.ndim {} and input.ndim {}",
      op, tau.dim(), other.dim(), input.dim());
  CHECK(tau.sizes().first(tau.dim() - 1) == batch_of(input), RuntimeError,
        "{}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {}", op,
        tau.sizes());
  CHECK(batch_of(other) == batch_of(input), RuntimeError,
        "{}: Expected batch dimensions of other to be equal to input.shape[:-2], but got {}", op,
        batch_of(other));
  check_alike(op, input, other, "input", "other");
  check_alike(op, input, tau, "input", "tau");
  if (wants_gradient(input, tau) || wants_gradient(other, other)) {
    if (left) return in_columns(reflect(input, tau, other, transposed));
    return in_columns(mH(reflect(input, tau, mH(other), !transposed)));
  }
  Tensor c = copy_columns(other);
  if (c.numel() > 0) {
    kernels::householder_multiply(c.device_type(), as_columns(input), contiguous(tau), c, left,
                                  transposed);
  }
  return c;
}
OP((one_step<ormqr, "ormqr">), "ormqr(input, tau, other, left=True, transpose=False)",
   "The product of other and the matrix Q whose reflections input and tau describe.",
   cpu_exact | event(2, 1, 2))

}  // namespace
}  // namespace flambeau
