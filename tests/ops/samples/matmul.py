"""Samples of products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import call, op, t

Array = Any


def scaled(product: Any) -> Any:
    """beta * input + alpha * product(a, b), where beta 0 ignores the input."""

    def run(x: Array, a: Array, b: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
        result = np.asarray(alpha).astype(a.dtype) * product(a, b)
        return result if beta == 0 else np.asarray(beta).astype(x.dtype) * x + result

    return run


def tensordot(x: Array, y: Array, dims: Any = 2) -> Array:
    return np.tensordot(x, y, dims if isinstance(dims, int) else tuple(map(tuple, dims)))


def einsum(equation: str, *operands: Any) -> Array:
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return np.einsum(equation.replace(" ", ""), *operands)


PRODUCT = {"dtypes": "ihfc", "tolerance": 20}
ADDED = {"dtypes": "ihfc", "tolerance": 20, "forms": "inplace out"}
NOT_ZERO_DIM = {"zero_dim": "it takes matrices or vectors"}

op(
    "mm",
    call(t(2, 3), t(3, 4)),
    call(t(1, 5), t(5, 1)),
    call(t(0, 3), t(3, 2)),
    call(t(2, 0), t(0, 3)),
    call(t(17, 33), t(33, 19)),
    ref=np.matmul,
    forms="out",
    **PRODUCT,
    **NOT_ZERO_DIM,
)
op(
    "bmm",
    call(t(2, 3, 4), t(2, 4, 5)),
    call(t(1, 2, 2), t(1, 2, 2)),
    call(t(0, 2, 3), t(0, 3, 2)),
    call(t(2, 3, 0), t(2, 0, 2)),
    ref=np.matmul,
    forms="out",
    **PRODUCT,
    **NOT_ZERO_DIM,
)
op(
    "mv",
    call(t(3, 4), t(4)),
    call(t(0, 4), t(4)),
    call(t(3, 0), t(0)),
    ref=np.matmul,
    forms="out",
    **PRODUCT,
    **NOT_ZERO_DIM,
)
op(
    "dot",
    call(t(5), t(5)),
    call(t(0), t(0)),
    call(t(70), t(70)),
    ref=np.dot,
    forms="out",
    **PRODUCT,
    **NOT_ZERO_DIM,
)
op("vdot", call(t(5), t(5)), call(t(0), t(0)), ref=np.vdot, forms="out", **PRODUCT, **NOT_ZERO_DIM)
op(
    "inner",
    call(t(5), t(5)),
    call(t(2, 3), t(4, 3)),
    call(t(), t(2)),
    call(t(0, 3), t(3)),
    ref=np.inner,
    forms="out",
    **PRODUCT,
)
op(
    "outer ger",
    call(t(3), t(4)),
    call(t(0), t(2)),
    ref=np.outer,
    forms="out",
    dtypes="ihfc",
    **NOT_ZERO_DIM,
)
op(
    "matmul",
    call(t(2, 3), t(3, 4)),
    call(t(4), t(4)),
    call(t(3), t(3, 2)),
    call(t(2, 3), t(3)),
    call(t(2, 3, 4), t(4, 5), out_=False),
    call(t(2, 3, 4), t(2, 4, 5)),
    call(t(3, 4), t(2, 4, 5)),
    call(t(2, 1, 3, 4), t(5, 4, 2)),
    call(t(4), t(2, 4, 3)),
    call(t(2, 3, 4), t(4), out_=False),
    call(t(0, 3), t(3, 2)),
    call(t(2, 0, 3), t(3, 2)),
    ref=np.matmul,
    forms="out",
    **PRODUCT,
    **NOT_ZERO_DIM,
)
op(
    "addmm",
    call(t(2, 4), t(2, 3), t(3, 4)),
    call(t(4), t(2, 3), t(3, 4), inplace_=False),
    call(t(2, 4), t(2, 3), t(3, 4), beta=2, alpha=3),
    call(t(), t(2, 3), t(3, 4), inplace_=False),
    call(t(2, 1), t(2, 3), t(3, 4), beta=0, inplace_=False, grad_=False),
    call(t(2, 3), t(2, 0), t(0, 3)),
    call(t(0, 3), t(0, 2), t(2, 3)),
    ref=lambda x, a, b, **k: np.broadcast_to(
        scaled(np.matmul)(x, a, b, **k), (a.shape[0], b.shape[1])
    ),
    **ADDED,
)
op(
    "addmv",
    call(t(2), t(2, 3), t(3)),
    call(t(2), t(2, 3), t(3), beta=2, alpha=3),
    call(t(), t(2, 3), t(3), inplace_=False),
    call(t(2), t(2, 0), t(0)),
    ref=lambda x, a, b, **k: np.broadcast_to(scaled(np.matmul)(x, a, b, **k), (a.shape[0],)),
    **ADDED,
)
op(
    "addr",
    call(t(2, 3), t(2), t(3)),
    call(t(2, 3), t(2), t(3), beta=2, alpha=3),
    call(t(), t(2), t(3), inplace_=False),
    call(t(0, 3), t(0), t(3)),
    ref=lambda x, a, b, **k: scaled(np.outer)(x, a, b, **k),
    **ADDED,
)
op(
    "baddbmm",
    call(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)),
    call(t(5), t(2, 3, 4), t(2, 4, 5), inplace_=False),
    call(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), beta=2, alpha=3),
    call(t(0, 3, 5), t(0, 3, 4), t(0, 4, 5)),
    ref=scaled(np.matmul),
    **ADDED,
    **NOT_ZERO_DIM,
)
op(
    "addbmm",
    call(t(3, 5), t(2, 3, 4), t(2, 4, 5)),
    call(t(3, 5), t(2, 3, 4), t(2, 4, 5), beta=2, alpha=3),
    call(t(3, 5), t(0, 3, 4), t(0, 4, 5)),
    ref=scaled(lambda a, b: np.matmul(a, b).sum(0)),
    **ADDED,
    **NOT_ZERO_DIM,
)
op(
    "tensordot",
    call(t(2, 3, 4), t(3, 4, 5)),
    call(t(2, 3), t(3, 2), 1),
    call(t(2), t(3), 0),
    call(t(2, 3, 4), t(4, 3, 2), ([1, 2], [1, 0])),
    call(t(), t(), 0),
    call(t(0, 2), t(2, 3), 1),
    ref=tensordot,
    **PRODUCT,
)
op(
    "einsum",
    call("ij,jk->ik", t(2, 3), t(3, 4)),
    call("ij->ji", t(2, 3)),
    call("ii->i", t(3, 3)),
    call("ii", t(3, 3), result_="sum"),
    call("i,j->ij", t(2), t(3)),
    call("bij,bjk->bik", t(2, 3, 4), t(2, 4, 2)),
    call("ij,ij->", t(2, 3), t(2, 3)),
    call("...ij,...jk", t(2, 2, 3), t(3, 4)),
    call("b...,b->...", t(2, 3, 4), t(2)),
    call("ij,j,jk->ik", t(2, 3), t(3), t(3, 2)),
    call("i j, j -> i", t(2, 3), t(3)),
    call("ij,jk->ik", [t(2, 3), t(3, 4)]),
    call(",i->i", t(), t(3)),
    call("ij,jk->ik", t(0, 3), t(3, 2)),
    call("...->...", t(2, 3)),
    call("iij->j", t(2, 2, 3), result_="sum"),
    call("ij,kl->ijkl", t(2, 2), t(2, 2)),
    ref=einsum,
    **PRODUCT,
)
op(
    "kron",
    call(t(2, 3), t(2, 2)),
    call(t(2), t(3)),
    call(t(2, 2), t(2), layouts_=False),
    call(t(), t(2)),
    call(t(0, 2), t(2, 2)),
    ref=np.kron,
    forms="out",
    dtypes="ihfc",
)
op(
    "cross linalg_cross",
    call(t(2, 3), t(2, 3), dim=1),
    call(t(3, 2), t(3, 2), dim=0),
    call(t(0, 3), t(0, 3), dim=1),
    ref=lambda x, y, dim=-1: np.cross(x, y, axis=dim),
    forms="out",
    **PRODUCT,
    **NOT_ZERO_DIM,
)
