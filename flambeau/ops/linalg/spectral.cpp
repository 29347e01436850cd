// Singular values and eigenvalues, with the vectors that belong to them.
#include <cmath>
#include <limits>

#include "flambeau/autograd/record.h"
#include "flambeau/ops/linalg/linalg.h"
#include "flambeau/ops/redirect.h"

namespace flambeau {
namespace {

std::string svd_failed(int code) {
  if (code < 0) {
    return "The algorithm failed to converge because the input matrix contained non-finite values.";
  }
  return format(
      "The algorithm failed to converge because the input matrix is ill-conditioned or "
      "has too many repeated singular values (error code: {}).",
      code);
}
std::string eigen_failed(int code) {
  return format(
      "The algorithm failed to converge because the input matrix is ill-conditioned or "
      "has too many repeated eigenvalues (error code: {}).",
      code);
}

// Which matrices have none but finite elements; undefined if all have. The iterations of LAPACK
// need not end on infinities.
Tensor finite_matrices(const Tensor& a) {
  if (a.device().is_meta() || a.numel() == 0) return {};
  const NoGrad off;
  const Tensor finite = isfinite(amax(abs(detach(a)), IntSpan{-2, -1}, true));
  return is_nonzero(sum(logical_not(finite))) ? finite : Tensor();
}

void make_nan(const Tensor& values, const Tensor& finite) {
  if (!values.defined()) return;
  const NoGrad off;
  copy_(values, where(finite, values, std::numeric_limits<double>::quiet_NaN()));
}

Dims values_shape(const Tensor& a, int64_t count) {
  Dims sizes = batch_of(a).dims();
  sizes.push_back(count);
  return sizes;
}

// d_ij = l_j - l_i, with ones on the diagonal, to divide by.
Tensor differences(const Tensor& l) {
  const Tensor d = unsqueeze(l, -2) - unsqueeze(l, -1);
  return d + identity_like(d, d.size(-1));
}

Tensor skew(const Tensor& x) { return x - mH(x); }

Tensor as_complex_like(const Tensor& imaginary, const Tensor& like) {
  return to(view_as_complex(stack({zeros_like(imaginary), imaginary}, -1)), like.dtype());
}

// --- Singular values --------------------------------------------------------------------------

// With dP = U^H dA V: dS = Re diag dP; dU and dV follow from the parts of dP off the diagonal,
// divided by differences of squared singular values, and from what of dA lies outside of U and V.
// A complex pair of vectors may be rotated by a phase: a loss must not depend on it.
Tensor svd_gradient(const Tensor& g_u, const Tensor& g_s, const Tensor& g_vh, const Tensor& u,
                    const Tensor& s, const Tensor& vh) {
  Tensor inner;
  const auto add = [](Tensor& sum, const Tensor& more) { sum = sum.defined() ? sum + more : more; };
  const Tensor v = mH(vh);
  Tensor g_v;
  if (g_vh.defined()) g_v = mH(g_vh);
  const bool vectors = g_u.defined() || g_v.defined();
  const Tensor e = vectors ? differences(s * s) : Tensor();
  Tensor turn_u, turn_v;
  if (g_u.defined()) {
    const Tensor x = matmul(mH(u), g_u);
    turn_u = diagonal_of(x);
    add(inner, scale_columns(zero_diagonal(skew(x) / e), s));
  }
  if (g_v.defined()) {
    const Tensor y = matmul(vh, g_v);
    turn_v = diagonal_of(y);
    add(inner, scale_rows(zero_diagonal(skew(y) / e), s));
  }
  if (vectors && u.is_complex()) {
    const Tensor rotation = !turn_u.defined()   ? turn_v
                            : !turn_v.defined() ? turn_u
                                                : turn_u + turn_v;
    CHECK(!has_phase(rotation), RuntimeError,
          "svd_backward: The singular vectors in the complex case are specified up to "
          "multiplication by e^{i phi}. The specified loss function depends on this phase term, "
          "making it ill-defined.");
    if (turn_u.defined()) inner = add_to_diagonal(inner, as_complex_like(imag(turn_u) / s, u));
  }
  if (g_s.defined()) {
    const Tensor g = to(g_s, u.dtype());
    if (!inner.defined()) return matmul(scale_columns(u, g), vh);
    inner = add_to_diagonal(inner, g);
  }
  Tensor result = matmul(matmul(u, inner), vh);
  const int64_t m = u.size(-2), n = vh.size(-1), k = s.size(-1);
  if (g_u.defined() && m > k) {
    const Tensor scaled = scale_columns(g_u, 1.0 / s);
    result = result + matmul(scaled - matmul(u, matmul(mH(u), scaled)), vh);
  }
  if (g_v.defined() && n > k) {
    const Tensor scaled = scale_rows(g_vh, 1.0 / s);
    result = result + matmul(u, scaled - matmul(matmul(scaled, v), vh));
  }
  return result;
}

// u and vh are left undefined where only the values are wanted.
Triple run_svd(const Tensor& a, bool full_matrices, bool vectors,
               const std::optional<std::string_view>& driver) {
  check_matrix("linalg.svd", a);
  check_float("linalg.svd", a);
  CHECK(!driver || a.device_type() == DeviceType::cuda, RuntimeError,
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
        "cuSOLVER backend.");
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const IntSpan batch = batch_of(a);
  Tensor s = make_tensor(values_shape(a, k), to_real(a.dtype()), a.device());
  Tensor u, vh;
  if (vectors) {
    u = make_columns(with_matrix(batch, m, full_matrices ? m : k), a.dtype(), a.device());
    vh = make_columns(with_matrix(batch, full_matrices ? n : k, n), a.dtype(), a.device());
  }
  if (a.numel() > 0) {
    Tensor info = make_info(batch, a.device());
    const Tensor finite = finite_matrices(a);
    CHECK(!finite.defined() || !has_nan(a), LinAlgError, "linalg.svd: {}", svd_failed(-1));
    const Tensor source = finite.defined() ? where(finite, detach(a), 0.0) : a;
    kernels::svd(a.device_type(), copy_columns(source), u, s, vh, info);
    check_info("linalg.svd", info, svd_failed);
    if (finite.defined()) {
      make_nan(s, squeeze(finite, IntSpan{-1}));
      make_nan(u, finite);
      make_nan(vh, finite);
    }
  } else if (vectors) {
    // The bases of nothing: any will do.
    const NoGrad off;
    for (const Tensor& basis : {u, vh}) {
      zero_(basis);
      if (basis.numel() > 0) fill_(diagonal_of(basis), 1.0);
    }
  }
  return {u, s, vh};
}

}  // namespace

Triple linalg_svd(const Tensor& a, bool full_matrices, std::optional<std::string_view> driver) {
  auto [u, s, vh] = run_svd(a, full_matrices, true, driver);
  if (Record r{"linalg_svd", {u, s, vh}, {a}}) {
    r.all([kept_u = r.save_output(u), kept_s = r.save_output(s), kept_vh = r.save_output(vh)](
              Grads& in, Grads& out) {
      const Tensor values = kept_s();
      const int64_t k = values.size(-1);
      const auto first = [k](const Tensor& x, int64_t dim) {
        return x.defined() && x.size(dim) > k ? narrow(x, dim, 0, k) : x;
      };
      if (!in[0].defined() && !in[1].defined() && !in[2].defined()) return;
      out[0] = svd_gradient(first(in[0], -1), in[1], first(in[2], -2), first(kept_u(), -1), values,
                            first(kept_vh(), -2));
    });
  }
  return {u, s, vh};
}
OP_FUNCTION(linalg_svd, "linalg_svd(A, full_matrices=True, *, driver=None) -> (U, S, Vh)",
            "The singular values of A = U diag(S) Vh, the largest first, and their vectors.",
            cpu_exact | event(2))

Tensor linalg_svdvals(const Tensor& a, std::optional<std::string_view> driver) {
  REDIRECT(linalg_svdvals, a, driver)
  if (grad_enabled() && a.requires_grad()) return std::get<1>(linalg_svd(a, false, driver));
  return std::get<1>(run_svd(a, false, false, driver));
}
OP_FUNCTION(linalg_svdvals, "linalg_svdvals._linalg_svd.default(A, *, driver=None)",
            "The singular values of matrices, the largest first.", cpu_exact | event(2))

namespace {

Triple old_svd(const Tensor& input, bool some, bool compute_uv) {
  CHECK(input.dim() >= 2, RuntimeError,
        "linalg.svd: input should have at least 2 dimensions, but has {} dimensions instead",
        input.dim());
  if (compute_uv) {
    auto [u, s, vh] = linalg_svd(input, !some, std::nullopt);
    return {u, s, mH(vh)};
  }
  const auto square = [&](int64_t n) {
    return zeros(with_matrix(batch_of(input), n, n), options_of(input));
  };
  return {square(input.size(-2)), linalg_svdvals(input, std::nullopt), square(input.size(-1))};
}
OP(old_svd, "svd(input, some=True, compute_uv=True) -> (U, S, V)",
   "The singular values of input = U diag(S) V^H, and their vectors.", cpu_exact | event(2))

// --- Hermitian eigenvalues --------------------------------------------------------------------

Tensor eigh_gradient(const Tensor& g_l, const Tensor& g_v, const Tensor& l, const Tensor& v) {
  if (!g_v.defined()) return matmul(scale_columns(v, to(g_l, v.dtype())), mH(v));
  const Tensor x = matmul(mH(v), g_v);
  CHECK(!has_phase(diagonal_of(x)), RuntimeError,
        "linalg_eigh_backward: The eigenvectors in the complex case are specified up to "
        "multiplication by e^{i phi}. The specified loss function depends on this quantity, so it "
        "is ill-defined.");
  Tensor inner = zero_diagonal(x / differences(l));
  if (g_l.defined()) inner = add_to_diagonal(inner, to(g_l, v.dtype()));
  // Half of the matrix is never read; the gradient is shared out as if both halves were.
  const Tensor whole = matmul(v, matmul(inner, mH(v)));
  return (whole + mH(whole)) * 0.5;
}

bool is_upper(std::string_view uplo) {
  CHECK(uplo == "L" || uplo == "U" || uplo == "l" || uplo == "u", RuntimeError,
        "Expected UPLO argument to be 'L' or 'U', but got {}", uplo);
  return uplo == "U" || uplo == "u";
}

Pair run_eigh(const Tensor& a, std::string_view uplo, bool vectors) {
  check_square("linalg.eigh", a);
  const bool upper = is_upper(uplo);
  Tensor l = make_tensor(values_shape(a, a.size(-1)), to_real(a.dtype()), a.device());
  Tensor v = copy_columns(a);
  Tensor info = make_info(batch_of(a), a.device());
  CHECK(!finite_matrices(a).defined(), LinAlgError, "linalg.eigh: {}", eigen_failed(1));
  if (v.numel() > 0) kernels::eigh(a.device_type(), v, l, info, upper, vectors);
  check_info("linalg.eigh", info, eigen_failed);
  return {l, v};
}

}  // namespace

Pair linalg_eigh(const Tensor& a, std::string_view uplo) {
  auto [l, v] = run_eigh(a, uplo, true);
  if (Record r{"linalg_eigh", {l, v}, {a}}) {
    r.all([kept_l = r.save_output(l), kept_v = r.save_output(v)](Grads& in, Grads& out) {
      if (!in[0].defined() && !in[1].defined()) return;
      out[0] = eigh_gradient(in[0], in[1], kept_l(), kept_v());
    });
  }
  return {l, v};
}
OP_FUNCTION(linalg_eigh,
            "linalg_eigh._linalg_eigh.default(A, UPLO='L') -> (eigenvalues, eigenvectors)",
            "The eigenvalues of Hermitian matrices in ascending order, and their vectors.",
            cpu_exact | event(2))

Tensor linalg_eigvalsh(const Tensor& a, std::string_view uplo) {
  REDIRECT(linalg_eigvalsh, a, uplo)
  if (grad_enabled() && a.requires_grad()) return std::get<0>(linalg_eigh(a, uplo));
  return std::get<0>(run_eigh(a, uplo, false));
}
OP_FUNCTION(linalg_eigvalsh, "linalg_eigvalsh._linalg_eigh.default(A, UPLO='L')",
            "The eigenvalues of Hermitian matrices in ascending order.", cpu_exact | event(2))

namespace {

// --- General eigenvalues ----------------------------------------------------------------------

// Of vectors with norm one.
Tensor eig_gradient(const Tensor& g_l, const Tensor& g_v, const Tensor& l, const Tensor& v) {
  const Tensor vh = mH(v);
  Tensor inner;
  if (g_v.defined()) {
    const Tensor x = matmul(vh, g_v);
    const Tensor on_diagonal = diagonal_of(x);
    CHECK(!has_phase(on_diagonal), RuntimeError,
          "linalg_eig_backward: The eigenvectors in the complex case are specified up to "
          "multiplication by e^{i phi}. The specified loss function depends on this quantity, so "
          "it is ill-defined.");
    const Tensor length = scale_columns(matmul(vh, v), to(real(on_diagonal), v.dtype()));
    inner = zero_diagonal((x - length) / conj_physical(differences(l)));
    if (g_l.defined()) inner = add_to_diagonal(inner, g_l);
    return linalg_solve(vh, matmul(inner, vh), true);
  }
  return linalg_solve(vh, scale_rows(vh, g_l), true);
}

Pair run_eig(const Tensor& a, bool vectors) {
  check_square("linalg.eig", a);
  CHECK(is_differentiable(a.dtype()), RuntimeError, "Unknown Complex ScalarType for {}",
        dtype_legacy_name(a.dtype()));
  check_lapack(a);
  if (!a.device().is_meta() && a.numel() > 0) {
    const NoGrad off;
    const Tensor size = amax(abs(detach(a)), std::nullopt, false);
    CHECK(std::isfinite(item(size).to_double()), RuntimeError,
          "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  }
  const DType dtype = to_complex(a.dtype());
  Tensor l = make_tensor(values_shape(a, a.size(-1)), dtype, a.device());
  Tensor v = vectors ? make_columns(a.sizes(), dtype, a.device()) : Tensor();
  Tensor info = make_info(batch_of(a), a.device());
  if (a.numel() > 0) kernels::eig(a.device_type(), copy_columns(a), l, v, info);
  check_info("linalg.eig", info, eigen_failed);
  return {l, v};
}

Pair linalg_eig(const Tensor& a) {
  auto [l, v] = run_eig(a, true);
  if (Record r{"linalg_eig", {l, v}, {a}}) {
    r.all([kept_l = r.save_output(l), kept_v = r.save_output(v), complex = a.is_complex()](
              Grads& in, Grads& out) {
      if (!in[0].defined() && !in[1].defined()) return;
      const Tensor g = eig_gradient(in[0], in[1], kept_l(), kept_v());
      out[0] = complex ? g : real(g);
    });
  }
  return {l, v};
}
OP_FUNCTION(linalg_eig, "linalg_eig(A) -> (eigenvalues, eigenvectors)",
            "The eigenvalues of square matrices and their vectors, of norm one; all complex.",
            cpu_exact | event(2))

Tensor linalg_eigvals(const Tensor& a) {
  if (grad_enabled() && a.requires_grad()) return std::get<0>(linalg_eig(a));
  return std::get<0>(run_eig(a, false));
}
OP_FUNCTION(linalg_eigvals, "linalg_eigvals.linalg_eig.default(A)",
            "The eigenvalues of square matrices; complex.", cpu_exact | event(2) | out_fails)

}  // namespace
}  // namespace flambeau
