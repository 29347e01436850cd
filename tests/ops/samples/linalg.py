"""Samples of linear algebra. Vectors that are known up to a sign or a phase, and derivatives along
symmetric matrices, are tested in tests/python/linalg/test_linalg.py instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import call, op, t

Array = Any
MATRICES = {"dtypes": "fc", "tolerance": 400, "zero_dim": "it takes matrices"}


def square(*batch: int, n: int = 3, **options: Any) -> Any:
    return t(*batch, n, n, distinct=True, **options)


# Whatever is inverted must not be made of equal rows.
INVERTIBLE = [
    call(square(), layouts_=False),
    call(square(2), layouts_=False),
    call(square(n=1)),
    call(square(n=0)),
    call(square(0)),
    call(square(2, 2, n=2), layouts_=False),
]


def definite(*batch: int, n: int = 3) -> Any:
    """Hermitian and positive: large on the diagonal."""
    rng = np.random.default_rng(n)
    count = int(np.prod(batch))
    half = rng.uniform(-1, 1, (count, n, n))
    values = half @ half.swapaxes(-1, -2) + 2 * np.eye(n)
    return t(*batch, n, n, values=tuple(values.ravel().tolist()), differentiable=False)


DEFINITE = [
    call(definite(), layouts_=False),
    call(definite(2), layouts_=False),
    call(definite(n=1)),
    call(square(n=0)),
]


def swap(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


OBLONG = [call(t(3, 5), layouts_=False), call(t(5, 3), layouts_=False)]

op("linalg_inv inverse", INVERTIBLE, ref=np.linalg.inv, forms="out", **MATRICES)
op("linalg_inv_ex", INVERTIBLE, **MATRICES, result="any")
op("linalg_det", INVERTIBLE, ref=np.linalg.det, forms="out", **MATRICES)
op("det", INVERTIBLE, ref=np.linalg.det, **MATRICES)
op("linalg_slogdet slogdet", INVERTIBLE, ref=np.linalg.slogdet, **MATRICES, result="any")
op(
    "logdet",
    DEFINITE,
    ref=lambda x: np.log(np.linalg.det(x)),
    **MATRICES,
)

SYSTEMS = [
    call(square(), t(3, 2), layouts_=False),
    call(square(2), t(2, 3, 2), layouts_=False),
    call(square(2), t(3, 4), layouts_=False),
    call(square(), t(2, 3, 1), layouts_=False),
    call(square(), t(2, 3), left=False, layouts_=False),
    call(square(n=0), t(0, 2)),
    call(square(), t(3, 0), layouts_=False),
]


def solve(a: Array, b: Array, *, left: bool = True) -> Array:
    return np.linalg.inv(a) @ b if left else b @ np.linalg.inv(a)


op(
    "linalg_solve",
    SYSTEMS,
    call(square(), t(3), layouts_=False, ref_=np.linalg.solve),
    call(
        square(2),
        t(2, 3),
        layouts_=False,
        ref_=lambda a, b: (np.linalg.inv(a) @ b[..., None])[..., 0],
    ),
    ref=solve,
    forms="out",
    **MATRICES,
)
op("linalg_solve_ex", SYSTEMS, **MATRICES, result="any")
op("linalg_lu_factor", INVERTIBLE, OBLONG, **MATRICES, result="any")
op("linalg_lu_factor_ex", INVERTIBLE, call(t(2, 3, 5)), **MATRICES, result="any")
op("linalg_lu", OBLONG, INVERTIBLE, **MATRICES)
PIVOTS = t(3, dtype="int32", values=(2, 3, 3))
op(
    "linalg_lu_solve",
    call(square(), PIVOTS, t(3, 2), layouts_=False),
    call(square(), PIVOTS, t(3, 2), adjoint=True, layouts_=False),
    call(square(), PIVOTS, t(2, 3), left=False, layouts_=False),
    call(square(), PIVOTS, t(2, 3), left=False, adjoint=True, layouts_=False),
    call(square(n=0), t(0, dtype="int32"), t(0, 2)),
    forms="out",
    **MATRICES,
)
op(
    "lu_solve",
    call(t(3, 2), square(), PIVOTS, layouts_=False),
    call(t(0, 2), square(n=0), t(0, dtype="int32")),
    forms="out",
    **MATRICES,
)
op(
    "lu_unpack",
    call(square(), PIVOTS),
    call(t(3, 5), PIVOTS),
    call(t(5, 3), PIVOTS),
    call(square(n=0), t(0, dtype="int32")),
    **MATRICES,
)
op(
    "linalg_solve_triangular",
    call(square(nonzero=True), t(3, 2), upper=True, layouts_=False),
    call(square(nonzero=True), t(3, 2), upper=False, layouts_=False),
    call(square(nonzero=True), t(2, 3), upper=True, left=False, layouts_=False),
    call(square(2), t(2, 3, 2), upper=False, unitriangular=True),
    call(square(), t(2, 3, 2), upper=True, unitriangular=True),
    call(square(n=0), t(0, 2), upper=True),
    ref=lambda a, b, upper, left=True, unitriangular=False: _triangular(
        a, b, upper, left, unitriangular
    ),
    forms="out",
    **MATRICES,
)


def _triangular(a: Array, b: Array, upper: bool, left: bool, unit: bool) -> Array:
    part = np.triu(a) if upper else np.tril(a)
    if unit:
        part = (np.triu(a, 1) if upper else np.tril(a, -1)) + np.eye(a.shape[-1])
    inverse = np.linalg.inv(part)
    return inverse @ b if left else b @ inverse


op(
    "triangular_solve",
    call(t(3, 2), square(nonzero=True), layouts_=False),
    call(t(3, 2), square(nonzero=True), upper=False, transpose=True, layouts_=False),
    call(t(3, 2), square(), unitriangular=True),
    call(t(0, 2), square(n=0)),
    **MATRICES,
)
op("linalg_cholesky", DEFINITE, ref=np.linalg.cholesky, forms="out", **MATRICES)
op(
    "linalg_cholesky_ex",
    DEFINITE,
    call(definite(), upper=True, layouts_=False),
    **MATRICES,
    result="any",
)
op(
    "cholesky_solve",
    call(t(3, 2), definite(), layouts_=False),
    call(t(3, 2), definite(), True, layouts_=False),
    call(t(0, 2), square(n=0)),
    ref=lambda b, a, upper=False: (
        np.linalg.inv(swap(np.triu(a)) @ np.triu(a) if upper else np.tril(a) @ swap(np.tril(a))) @ b
    ),
    forms="out",
    **MATRICES,
)
op(
    "cholesky_inverse",
    DEFINITE,
    ref=lambda a: np.linalg.inv(np.tril(a) @ swap(np.tril(a))),
    forms="out",
    **MATRICES,
)
op("linalg_ldl_factor", DEFINITE, **MATRICES, result="any", grad=False)
op("linalg_ldl_factor_ex", DEFINITE, **MATRICES, result="any", grad=False)
op(
    "linalg_ldl_solve",
    call(definite(), t(3, dtype="int32", values=(1, 2, 3)), t(3, 2), layouts_=False),
    call(square(n=0), t(0, dtype="int32"), t(0, 2)),
    forms="out",
    grad=False,
    **MATRICES,
)

TALL_AND_WIDE = [
    call(square(), layouts_=False),
    call(t(4, 2, distinct=True), layouts_=False),
    call(t(2, 4, distinct=True), layouts_=False),
    call(t(2, 3, 2, distinct=True), layouts_=False),
    call(t(0, 3)),
    call(t(3, 0)),
    call(t(0, 2, 2)),
]
op(
    "linalg_qr",
    TALL_AND_WIDE,
    call(square(), "complete", layouts_=False),
    call(t(4, 2, distinct=True), "r", layouts_=False, grad_=False),
    call(t(4, 2, distinct=True), "complete", layouts_=False, grad_=False),
    **MATRICES,
)
op("geqrf", TALL_AND_WIDE, **MATRICES, grad=False)
op(
    "linalg_householder_product orgqr",
    call(t(3, 2), t(2)),
    call(t(2, 3, 3), t(2, 3)),
    call(t(4, 3), t(2)),
    call(t(0, 0), t(0)),
    forms="out",
    **MATRICES,
)
op(
    "ormqr",
    call(t(3, 2), t(2), t(3, 4)),
    call(t(3, 2), t(2), t(4, 3), left=False),
    call(t(2, 3, 3), t(2, 3), t(2, 3, 1), transpose=True),
    call(t(3, 2), t(2), t(4, 3), left=False, transpose=True),
    call(t(0, 0), t(0), t(0, 2)),
    forms="out",
    **MATRICES,
)
op("linalg_svd svd", TALL_AND_WIDE, **MATRICES, result="any", grad=False)
op(
    "linalg_svdvals",
    TALL_AND_WIDE,
    ref=lambda a: np.linalg.svd(a, compute_uv=False),
    forms="out",
    result="real",
    **MATRICES,
)
op("linalg_eigh", DEFINITE, **MATRICES, result="any", grad=False)
op(
    "linalg_eigvalsh",
    DEFINITE,
    ref=np.linalg.eigvalsh,
    forms="out",
    result="real",
    **MATRICES,
    grad=False,
)
op("linalg_eig", INVERTIBLE, **MATRICES, result="complex", grad=False)
op("linalg_eigvals", INVERTIBLE, **MATRICES, result="complex", forms="out")
op(
    "linalg_pinv",
    TALL_AND_WIDE,
    call(t(4, 2, distinct=True), rtol=1e-3, layouts_=False),
    call(t(4, 2, distinct=True), 1e-3, layouts_=False),
    call(definite(), hermitian=True, layouts_=False),
    ref=lambda a, rcond=None, **_: np.linalg.pinv(a),
    forms="out",
    **MATRICES,
)
op("pinverse", TALL_AND_WIDE, ref=np.linalg.pinv, **MATRICES)
op(
    "linalg_matrix_rank",
    call(square()),
    call(t(2, 4, 3)),
    call(definite(), hermitian=True),
    call(t(4, 2), tol=0.1),
    call(t(4, 2), atol=0.1, rtol=0.01),
    call(t(0, 3)),
    call(t(2, 0, 0)),
    result="int64",
    forms="out",
    grad=False,
    **MATRICES,
)
op(
    "linalg_cond",
    call(square(), layouts_=False),
    call(square(2), 2, layouts_=False),
    call(square(), 1, layouts_=False),
    call(square(), -2, layouts_=False),
    call(square(), float("inf"), layouts_=False),
    call(square(), "fro", layouts_=False),
    call(t(4, 2, distinct=True), layouts_=False),
    call(square(0), ref_=lambda a: np.zeros(0), grad_=False),
    ref=lambda a, p=None: np.linalg.cond(a, p),
    result="real",
    forms="out",
    **MATRICES,
)
op(
    "linalg_lstsq",
    call(t(4, 2, distinct=True), t(4, 3), layouts_=False),
    call(t(2, 4, distinct=True), t(2, 3), layouts_=False),
    call(t(4, 2, distinct=True), t(4, 3), driver="gelsd", layouts_=False),
    call(t(4, 2, distinct=True), t(4, 3), driver="gels", layouts_=False),
    call(square(2), t(2, 3, 1), driver="gelss", layouts_=False),
    call(t(0, 2), t(0, 3)),
    result="any",
    second=False,
    **MATRICES,
)

NORMED = [
    call(t(3, 4)),
    call(t(2, 3, 4), dim=(0, 2)),
    call(t(2, 3, 4), keepdim=True),
    call(t(0, 3)),
]


def matrix_norm(
    a: Array, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, **_: Any
) -> Array:
    return np.linalg.norm(a, ord, axis=tuple(dim), keepdims=keepdim)


op(
    "linalg_matrix_norm",
    NORMED,
    call(t(3, 4, distinct=True), 1),
    call(t(3, 4, distinct=True), -1),
    call(t(3, 4, distinct=True), float("inf"), layouts_=False),
    call(t(3, 4, distinct=True), 2, layouts_=False),
    call(t(2, 3, 3, distinct=True), -2, (1, 2), True, layouts_=False),
    call(t(3, 4, distinct=True), "nuc", layouts_=False),
    call(t(3, 4, 2, distinct=True), "nuc", (0, 2), True, layouts_=False),
    ref=matrix_norm,
    result="real",
    forms="out",
    **MATRICES,
)
op(
    "linalg_norm",
    call(t(3, 4)),
    call(t(5), 3),
    call(t(3, 4), dim=1),
    call(t(3, 4, distinct=True), 1),
    call(t(3, 4, distinct=True), "nuc", layouts_=False),
    call(t(2, 3, 4), "fro", (0, 1), True),
    call(t(0)),
    ref=lambda a, ord=None, dim=None, keepdim=False: np.linalg.norm(
        a.ravel() if ord is None and dim is None else a,
        ord,
        axis=tuple(dim) if isinstance(dim, (list, tuple)) else dim,
        keepdims=keepdim,
    ),
    result="real",
    forms="out",
    dtypes="fc",
    tolerance=400,
    zero_dim="its elements are those of a vector",
)
op(
    "nuclear_norm",
    call(t(3, 4, distinct=True), layouts_=False),
    call(t(2, 3, 4, distinct=True), (1, 2), True, layouts_=False),
    call(t(0, 3)),
    ref=lambda a, dim=(-2, -1), keepdim=False: np.linalg.norm(
        a, "nuc", axis=tuple(dim), keepdims=keepdim
    ),
    result="real",
    forms="out",
    **MATRICES,
)
op(
    "frobenius_norm",
    call(t(3, 4), (0, 1)),
    call(t(2, 3, 4), 1, True),
    call(t(0, 3), (0, 1)),
    ref=lambda a, dim=(), keepdim=False: np.sqrt(
        (np.abs(a) ** 2).sum(dim if isinstance(dim, int) else tuple(dim), keepdims=keepdim)
    ),
    result="real",
    dtypes="fc",
    zero_dim="it takes dimensions",
)
op(
    "linalg_matrix_power matrix_power",
    call(square(), 0),
    call(square(), 1),
    call(square(2), 3),
    call(square(), 6, grad_=False),
    call(square(), -2, layouts_=False, dtypes_="fc"),
    call(square(n=0), 2),
    ref=np.linalg.matrix_power,
    forms="out",
    dtypes="fc",
    tolerance=2000,
    zero_dim="it takes matrices",
)


def exponential(a: Array) -> Array:
    import scipy.linalg

    return scipy.linalg.expm(a) if a.size else a


op(
    "linalg_matrix_exp matrix_exp",
    call(square()),
    call(square(2, low=-8, high=8), grad_=False),
    call(t(2, 2, 2, low=-0.1, high=0.1)),
    call(square(n=0)),
    call(square(0)),
    ref=exponential,
    **MATRICES,
)
op(
    "linalg_multi_dot",
    call([t(2, 3), t(3, 4)]),
    call([t(2, 3), t(3, 4), t(4, 2), t(2, 5)]),
    call([t(3), t(3, 4), t(4)]),
    call([t(0, 3), t(3, 2)]),
    ref=lambda chain: np.linalg.multi_dot(chain),
    forms="out",
    dtypes="fc",
    tolerance=100,
    zero_dim="it takes matrices",
)
op(
    "linalg_tensorinv",
    call(t(2, 3, 6, distinct=True), layouts_=False),
    call(t(6, 2, 3, distinct=True), 1, layouts_=False),
    call(t(0, 0), 1),
    ref=lambda a, ind=2: np.linalg.tensorinv(a, ind) if a.size else a,
    forms="out",
    **MATRICES,
)
op(
    "linalg_tensorsolve",
    call(t(2, 3, 6, distinct=True), t(2, 3), layouts_=False),
    call(t(2, 6, 3, distinct=True), t(2, 3), dims=(1,), layouts_=False),
    call(t(0, 0), t(0)),
    ref=lambda a, b, dims=None: np.linalg.tensorsolve(a, b, dims) if a.size else b,
    forms="out",
    **MATRICES,
)
op(
    "linalg_vander",
    call(t(3)),
    call(t(2, 3), N=4),
    call(t(0, 3)),
    ref=lambda x, N=None: x[..., None] ** np.arange(N or x.shape[-1]),
    dtypes="fc",
    tolerance=10,
    zero_dim="tests/python/linalg/test_linalg.py has it",
)
op(
    "linalg_vecdot",
    call(t(5), t(5)),
    call(t(2, 3), t(2, 3), dim=0),
    call(t(2, 3), t(3)),
    call(t(0, 3), t(0, 3)),
    call(t(2, 0), t(2, 0)),
    ref=lambda x, y, dim=-1: (np.conj(x) * y).sum(dim),
    forms="out",
    dtypes="fc",
    tolerance=20,
    zero_dim="it takes vectors",
)
op(
    "linalg_diagonal",
    call(t(3, 4)),
    call(t(2, 3, 4), offset=1),
    call(t(2, 3, 4), dim1=0, dim2=2),
    call(t(0, 3)),
    ref=lambda a, offset=0, dim1=-2, dim2=-1: np.diagonal(a, offset, dim1, dim2),
    forms="view",
    zero_dim="it takes matrices",
)
op(
    "linalg_matmul",
    call(t(2, 3), t(3, 4)),
    call(t(2, 3, 4), t(4)),
    call(t(0, 3), t(3, 2)),
    ref=np.matmul,
    dtypes="ihfc",
    tolerance=20,
    zero_dim="it takes matrices",
)


def polar(a: Array) -> Any:
    w, s, vh = np.linalg.svd(a, full_matrices=False)
    return w @ vh, np.conj(np.swapaxes(vh, -1, -2)) @ (s[..., None] * vh)


def sqrth(a: Array) -> Array:
    low = np.tril(a, -1)
    whole = low + np.conj(np.swapaxes(low, -1, -2)) + np.eye(a.shape[-1]) * a.real
    values, vectors = np.linalg.eigh(whole)
    roots = np.sqrt(np.maximum(values, 0))
    return (vectors * roots[..., None, :]) @ np.conj(np.swapaxes(vectors, -1, -2))


op(
    "linalg_polar",
    call(t(4, 3), layouts_=False),
    call(t(2, 3, 3)),
    call(t(0, 3, 2)),
    call(t(3, 0)),
    ref=polar,
    dtypes="fc",
    tolerance=20,
    zero_dim="takes matrices",
)
op(
    "linalg_matrix_sqrth",
    call(t(2, 2, values=(5.0, 1.0, 1.0, 3.0)), layouts_=False, grad_=False),
    call(t(0, 2, 2)),
    call(t(0, 0)),
    ref=sqrth,
    dtypes="fc",
    tolerance=20,
    zero_dim="takes matrices",
)
