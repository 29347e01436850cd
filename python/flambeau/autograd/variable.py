"""`Variable`, the name that tensors with history had before the two became one."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Lets every tensor pass for an instance of Variable."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, flambeau.Tensor)


class _Engine:
    """What programs ask of the engine under PyTorch's name for it."""

    @staticmethod
    def queue_callback(callback: Callable[[], None]) -> None:
        """Calls `callback` when the backward pass that is running ends."""
        _C._queue_callback(callback)


class Variable(metaclass=VariableMeta):
    """`Variable(data, requires_grad=False)` gives a tensor that shares the data of `data`."""

    _execution_engine = _Engine

    def __new__(
        cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None
    ) -> Any:
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        if data is None:
            return flambeau.empty(0, requires_grad=requires_grad)
        if not isinstance(data, flambeau.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
