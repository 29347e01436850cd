"""Names of linear algebra from before `torch.linalg`: LU in its old form, and those that are gone.

PyTorch keeps the removed ones as functions that say what to use instead; so does this module.
"""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

from flambeau import linalg
from flambeau._namespace._out import delivered

__all__ = ["cholesky", "eig", "lstsq", "lu", "matrix_rank", "qr", "solve", "symeig"]

_ops: Any = linalg


def lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The factors L and U in one matrix and the pivots; with ``get_infos`` also what failed.

    A singular matrix has factors too: unlike ``linalg.lu_factor``, this one does not refuse it.
    """
    warnings.warn(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and "
        "will be removed in a future PyTorch release.",
        stacklevel=2,
    )
    if out is not None:
        if not isinstance(out, (tuple, list)):
            raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
        if len(out) != 2 + get_infos:
            raise TypeError(f"expected tuple of {2 + get_infos} elements but got {len(out)}")
    result = _ops.lu_factor_ex(A, pivot=pivot)
    if out is not None:
        return tuple(delivered(value, target) for target, value in zip(out, result))
    return tuple(result) if get_infos else tuple(result)[:2]


def _removed(name: str, use: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "This function was deprecated since version 1.9 and is now removed. "
            f"`torch.{name}` is deprecated in favor of `torch.linalg.{use}`."
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed in favor of ``linalg.{use}``: raises."
    return function


cholesky = _removed("cholesky", "cholesky")
eig = _removed("eig", "eig")
lstsq = _removed("lstsq", "lstsq")
matrix_rank = _removed("matrix_rank", "matrix_rank")
qr = _removed("qr", "qr")
solve = _removed("solve", "solve")
symeig = _removed("symeig", "eigh")
