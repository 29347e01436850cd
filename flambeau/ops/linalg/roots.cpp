// The square root of Hermitian matrices and the polar decomposition. Their derivatives divide by
// sums of singular values and not by differences, so that equal ones do no harm.
#include "flambeau/autograd/record.h"
#include "flambeau/ops/linalg/linalg.h"

namespace flambeau {
namespace {

// x[i, j] / (s[i] + s[j]), and nothing where that sum is zero.
Tensor over_sums(const Tensor& x, const Tensor& s) {
  const Tensor sums = unsqueeze(s, -1) + unsqueeze(s, -2);
  return where(ne(sums, 0.0), x / where(ne(sums, 0.0), sums, 1.0), 0.0);
}

// --- Square roots --------------------------------------------------------------------------------

// The roots of the eigenvalues, of which rounding may have made zeros negative.
Tensor roots_of(const Tensor& l) { return sqrt(clamp(l, Scalar(0.0), std::nullopt)); }

Tensor matrix_sqrth(const Tensor& a) {
  check_square("linalg.matrix_sqrth", a);
  check_float("linalg.matrix_sqrth", a, false);
  const auto [l, v] = linalg_eigh(detach(a), "L");
  const Tensor roots = roots_of(l);
  Tensor out = matmul(scale_columns(v, to(roots, v.dtype())), mH(v));
  if (Record r{"linalg_matrix_sqrth", out, {a}}) {
    r.wrt(0, [kept = r.save(a), s = roots, v = v](const Tensor& g) {
      Tensor values = s, vectors = v;
      if (grad_enabled()) {
        const auto [again_l, again_v] = linalg_eigh(kept(), "L");
        values = roots_of(again_l), vectors = again_v;
      }
      const Tensor inner = over_sums(matmul(mH(vectors), matmul(g, vectors)), values);
      const Tensor whole = matmul(vectors, matmul(inner, mH(vectors)));
      return (whole + mH(whole)) * 0.5;
    });
  }
  return out;
}
OP_FUNCTION(matrix_sqrth, "linalg_matrix_sqrth(input)",
            "The Hermitian square root of Hermitian matrices without negative eigenvalues.",
            event(2) | no_out)

// --- Polar decomposition -------------------------------------------------------------------------

// With a = w diag(s) vh: the gradient from those of the unitary part w vh and of the Hermitian one.
Tensor polar_gradient(const Tensor& g_u, const Tensor& g_h, const Tensor& w, const Tensor& s,
                      const Tensor& vh) {
  const Tensor v = mH(vh), scale = to(s, w.dtype());
  const Tensor h = g_h.defined() ? matmul(vh, matmul(g_h, v)) : Tensor();
  Tensor turn = g_u.defined() ? matmul(mH(w), matmul(g_u, v)) : Tensor();
  if (h.defined()) {
    const Tensor pulled = scale_columns(h, scale);
    turn = turn.defined() ? turn - pulled : -pulled;
  }
  const Tensor share = over_sums(turn, s);
  Tensor inner = share - mH(share);
  if (h.defined()) inner = inner + h;
  Tensor result = matmul(w, matmul(inner, vh));
  if (g_u.defined() && w.size(-2) > w.size(-1)) {
    const Tensor stretched = scale_columns(matmul(g_u, v), 1.0 / scale);
    result = result + matmul(stretched - matmul(w, matmul(mH(w), stretched)), vh);
  }
  return result;
}

Pair polar(const Tensor& a) {
  check_matrix("linalg.polar", a);
  check_float("linalg.polar", a);
  CHECK(a.size(-2) >= a.size(-1), RuntimeError,
        "linalg.polar: input must have at least as many rows as columns, but got {} by {} matrices",
        a.size(-2), a.size(-1));
  const auto [w, s, vh] = linalg_svd(detach(a), false, std::nullopt);
  Tensor u = matmul(w, vh);
  Tensor h = matmul(mH(vh), scale_rows(vh, to(s, vh.dtype())));
  if (Record r{"linalg_polar", {u, h}, {a}}) {
    r.all([kept = r.save(a), w = w, s = s, vh = vh](Grads& in, Grads& out) {
      if (!in[0].defined() && !in[1].defined()) return;
      Triple parts{w, s, vh};
      if (grad_enabled()) parts = linalg_svd(kept(), false, std::nullopt);
      out[0] =
          polar_gradient(in[0], in[1], std::get<0>(parts), std::get<1>(parts), std::get<2>(parts));
    });
  }
  return {u, h};
}
OP_FUNCTION(polar, "linalg_polar(A) -> (U, H)",
            "Matrices as products of one with orthonormal columns and a Hermitian one.", event(2))

}  // namespace
}  // namespace flambeau
