"""Modes that see operators: `TorchDispatchMode`.

The core asks such a mode, below the ops that are made of others, for each operator that it is about
to compute (Note [Dispatched tensors] in flambeau/ops/layers/dispatch.h). What the mode computes has
a history of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau import _C

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode:
    """Inside `with mode:` every operator calls `mode.__torch_dispatch__(func, types, args,
    kwargs)`, with `func` such as `ops.aten.mm.default`.

    While that method runs, the mode itself is not active; those around it are.
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        _C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _C._pop_torch_dispatch_stack()

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode belongs to a compiler: none does."""
        return False


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    return [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Takes all modes off for the length of a block."""
    modes = [_C._pop_torch_dispatch_stack() for _ in range(_C._len_torch_dispatch_stack())]
    try:
        yield modes[::-1]
    finally:
        for mode in reversed(modes):
            _C._push_on_torch_dispatch_stack(mode)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor says, by `__tensor_flatten__`, which tensors it is made of."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(
    t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A tensor like `t`, made of what `callback(name, tensor)` gives for each tensor inside."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inside = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inside, context, size, stride)
    if made.shape != size:
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to "
            f"{size}, but got: {made.shape}"
        )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What an operator returned; one that writes into its first argument returns that."""
    is_inplace = func.overloadpacket.__name__.endswith("_")
    return args[0] if is_inplace and args else out
