"""Singular values of large matrices by random projection (Halko, Martinsson and Tropp, 2009)."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau import linalg as _linalg

__all__ = ["pca_lowrank", "svd_lowrank"]

# Made of ops with derivatives: the ops are looked up when they are called.
_ops: Any = _C
_decompose: Any = _linalg


def _basis(A: Any, size: int, iterations: int, M: Any) -> Any:
    """Orthonormal columns that span most of what A - M does."""

    def times(matrix: Any, mean: Any, x: Any) -> Any:
        product = _ops.matmul(matrix, x)
        return product if mean is None else product - _ops.matmul(mean, x)

    adjoint, adjoint_mean = A.mH, None if M is None else M.mH
    start = _ops.randn(A.shape[-1], size, dtype=A.dtype, device=A.device)
    Q = _decompose.qr(times(A, M, start)).Q
    for _ in range(iterations):
        Q = _decompose.qr(times(adjoint, adjoint_mean, Q)).Q
        Q = _decompose.qr(times(A, M, Q)).Q
    return Q


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """About the first ``q`` singular values of ``A`` (of ``A - M``), and their vectors.

    Gives ``(U, S, V)`` with ``A`` close to ``U @ diag(S) @ V.mH``; ``niter`` rounds of power
    iteration sharpen the result.
    """
    size, iterations = 6 if q is None else q, 2 if niter is None else niter
    if M is not None:
        M = M.broadcast_to(A.size())
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        A, M = A.mH, None if M is None else M.mH
    Q = _basis(A, size, iterations, M)
    B = _ops.matmul(Q.mH, A)
    if M is not None:
        B = B - _ops.matmul(Q.mH, M)
    U, S, Vh = _decompose.svd(B, full_matrices=False)
    U, V = _ops.matmul(Q, U), Vh.mH
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """About the first ``q`` principal components of the rows of ``A``, as ``(U, S, V)``."""
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not 0 <= q <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than "
            f"min(m, n)={min(rows, columns)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter=niter)
    if A.layout is not _C.strided:
        # The mean is taken off in the products: A itself stays sparse.
        if A.dim() != 2:
            raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
        ones = _ops.ones(rows, 1, dtype=A.dtype, device=A.device)
        mean = _ops.mm(A.mT, ones).mT / rows
        return svd_lowrank(A, q, niter=niter, M=mean)
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True), q, niter=niter)
