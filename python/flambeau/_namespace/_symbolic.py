"""Checks that a tracer could read, and arithmetic on sizes that may be symbols. Sizes here are
always numbers: the classes of symbols have no instances, and the functions compute with numbers.
"""

from __future__ import annotations

import math

from flambeau import _C
from flambeau._absent import absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
    "_shape_as_tensor",
    "sym_float",
    "sym_fresh_size",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]

_WHY = "sizes are numbers in Flambeau, never symbols"

SymInt = absent("flambeau", "SymInt", _WHY)
SymFloat = absent("flambeau", "SymFloat", _WHY)
SymBool = absent("flambeau", "SymBool", _WHY)


def _check_with(
    error_type: type[Exception], cond: bool, message: Callable[[], str] | None = None
) -> None:
    """Raises `error_type` unless `cond` holds; the message is made only then."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False")
    raise error_type(str(message() if callable(message) else message))


def _check(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raises RuntimeError unless `cond` holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raises IndexError unless `cond` holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raises ValueError unless `cond` holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raises TypeError unless `cond` holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Callable[[], str] | None = None) -> None:
    """Raises NotImplementedError unless `cond` holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """Raises RuntimeError unless `i` can be a size."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Callable[[], str] | None = None
) -> None:
    """Raises `error_type` unless all elements of `cond` are true."""
    if not isinstance(cond, _C.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    """Raises RuntimeError unless all elements of `cond` are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Raises RuntimeError unless the only element of `input` is true."""
    if not bool(input):  # which refuses all but one element
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The shape as a vector of int64."""
    return _C.tensor(list(input.shape), dtype=_C.int64)


def sym_int(a: Any) -> int:
    """The number rounded towards zero."""
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """not a"""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The greater of two numbers, a float if one of them is."""
    larger = a if a >= b else b
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


def sym_min(a: Any, b: Any) -> Any:
    """The lesser of two numbers, a float if one of them is."""
    smaller = a if a <= b else b
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def sym_sum(args: Any) -> Any:
    """The sum of numbers."""
    total = 0
    for value in args:
        total += value
    return total


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b else f"""
    return t if b else f


def sym_fresh_size(expr: Any) -> Any:
    """A size that nobody knows, which does not exist here."""
    raise NotImplementedError(f"torch.sym_fresh_size: {_WHY}")
