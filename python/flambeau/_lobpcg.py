"""A few extreme eigenpairs of a large symmetric matrix, by the locally optimal block preconditioned
conjugate gradient method (Knyazev, 2001)."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau import linalg as _linalg

__all__ = ["lobpcg"]

_ops: Any = _C
_decompose: Any = _linalg
_PRECISION = {_C.float32: 2.0**-23, _C.float64: 2.0**-52}


def _times(matrix: Any, x: Any) -> Any:
    return x if matrix is None else _ops.matmul(matrix, x)


def _ritz(S: Any, A: Any, B: Any, k: int, largest: bool) -> tuple[Any, Any]:
    """The best k eigenpairs within the columns of S: values, and their coordinates in S."""
    lengths, directions = _decompose.eigh(_ops.matmul(S.mT, _times(B, S)))
    # Columns that depend on each other would divide by zero: leave them out.
    good = lengths > lengths[-1] * _PRECISION[S.dtype] * 10
    basis = directions[:, good] / lengths[good].sqrt()
    within = _ops.matmul(S, basis)
    values, vectors = _decompose.eigh(_ops.matmul(within.mT, _times(A, within)))
    if largest:
        values, vectors = values.flip(0), vectors.flip(1)
    return values[:k], _ops.matmul(basis, vectors[:, :k])


def _solve(parts: list[Any], options: tuple[int, float, bool]) -> tuple[Any, Any]:
    """The iteration for one matrix."""
    A, B, X, iK = parts
    niter, tol, largest = options
    k = X.shape[1]
    values, coordinates = _ritz(X, A, B, k, largest)
    X = _ops.matmul(X, coordinates)
    size = _times(A, X).norm() / X.norm()
    step = None
    for _ in range(niter):
        residual = _times(A, X) - _times(B, X) * values
        error = residual.norm(dim=0) / (X.norm(dim=0) * (size + values.abs()))
        if bool((error < tol).all()):
            break
        search = [X, _times(iK, residual)]
        if step is not None:
            search.append(step)
        scaled = [part / part.norm(dim=0).clamp(min=1e-30) for part in search]
        S = _ops.cat(scaled, 1)
        values, coordinates = _ritz(S, A, B, k, largest)
        step = _ops.matmul(S[:, k:], coordinates[k:])
        X = _ops.matmul(S, coordinates)
    return values, X


def _solve_batch(A: Any, B: Any, start: Any, iK: Any, options: Any) -> tuple[Any, Any]:
    """The iteration for each matrix of a batch, without history."""
    from flambeau.autograd import no_grad

    with no_grad():
        parts: list[Any] = [None if x is None else x.detach() for x in (A, B, start, iK)]
        if A.dim() == 2:
            return _solve(parts, options)
        flat: list[Any] = [None if x is None else x.reshape(-1, *x.shape[-2:]) for x in parts]
        pairs = [
            _solve([x if x is None else x[i] for x in flat], options)
            for i in range(flat[0].shape[0])
        ]
        E = _ops.stack([pair[0] for pair in pairs]).reshape(*A.shape[:-2], -1)
        V = _ops.stack([pair[1] for pair in pairs]).reshape(*A.shape[:-1], -1)
        return E, V


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Any, Any]:
    """The ``k`` largest (or smallest) eigenvalues of a symmetric ``A`` and their vectors.

    With ``B``, of A x = lambda B x; ``X`` is where to start, ``iK`` a preconditioner. Values have
    derivatives with respect to ``A``; vectors have none.
    """
    if A.shape[-2] != A.shape[-1]:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if B is not None and A.shape != B.shape:
        raise AssertionError(f"A and B shapes must match, got {A.shape} and {B.shape}")
    rows = A.shape[-1]
    wanted = (1 if X is None else X.shape[-1]) if k is None else k
    if rows < 3 * wanted:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={rows})"
            f" is smaller than 3 x the number of requested eigenpairs (={wanted})"
        )
    if method not in (None, "basic", "ortho"):
        raise RuntimeError(f"unknown method {method!r}: expected 'basic' or 'ortho'")
    dtype = A.dtype if A.is_floating_point() else _ops.get_default_dtype()
    columns = wanted if n is None else max(n, wanted)
    start = X
    if start is None:
        start = _ops.randn(*A.shape[:-1], columns, dtype=dtype, device=A.device)
    bound = _PRECISION[dtype] ** 0.5 if tol is None else tol
    rounds = 1000 if niter in (None, -1) else int(niter or 0)
    E, V = _solve_batch(A, B, start, iK, (rounds, bound, True if largest is None else largest))
    E, V = E[..., :wanted], V[..., :wanted]
    if A.requires_grad:
        # By Rayleigh's quotient, whose derivative with respect to the vectors is zero.
        E = (V * _times(A, V)).sum(-2) / (V * _times(B, V)).sum(-2)
    return E, V
