"""Linear algebra: the core's ops whose names start with `linalg_`, and norms composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import _C

LinAlgError = _C._LinAlgError
_OPS = {name[7:]: op for name, op in vars(_C).items() if name.startswith("linalg_")}
globals().update(_OPS)
vector_norm = _OPS["vector_norm"]

__all__ = ["LinAlgError", "matrix_norm", "norm"]
__all__ += list(_OPS)


def _pair(dim: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    return dim[0], dim[1]


def matrix_norm(
    A: Any,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """The norm of matrices: 'fro', or the largest (smallest) sum of magnitudes by row or column."""
    rows, columns = _pair(dim)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype, out=out)
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise NotImplementedError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed = rows if abs(ord) == 1 else columns
    sums = vector_norm(A, 1, summed, True, dtype=dtype)
    pick = _C.amax if ord > 0 else _C.amin
    result = pick(sums, (rows, columns), keepdim)
    return result if out is None else out.resize_(result.shape).copy_(result)


def norm(
    A: Any,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """The norm of vectors or of matrices, as the number of dimensions says."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None:
        if A.dim() not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
                f"Got {A.dim()}D."
            )
        dim = 0 if A.dim() == 1 else (0, 1)
    if isinstance(dim, int) or len(dim) == 1:
        if isinstance(ord, str):
            raise RuntimeError(f"linalg.norm: order {ord} needs two dimensions, got dim={dim}")
        return vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)
    return matrix_norm(A, ord, dim, keepdim, dtype=dtype, out=out)
