"""Modes that see operators: `TorchDispatchMode`.

Where PyTorch calls such a mode from below autograd, it is called here for each operator that the
program asks for, under PyTorch's name for it. What backward computes inside the library is not
shown to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau import _C
from flambeau._operators._aten_names import operator_of
from flambeau.overrides import TorchFunctionMode

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class TorchDispatchMode(TorchFunctionMode):
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

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        inside = getattr(func, "__wrapped__", None)
        if inside is not None:  # a function of nn.functional: the operators that it calls are seen
            with self._seen_again():
                return inside(*args, **kwargs)
        operator = operator_of(func, args, kwargs)
        if operator is None:
            return func(*args, **kwargs)
        if "requires_grad" not in kwargs:
            return self.__torch_dispatch__(operator, types, args, kwargs)
        # Operators do not know of it: it is said of what they have made.
        others = {key: value for key, value in kwargs.items() if key != "requires_grad"}
        result = self.__torch_dispatch__(operator, types, args, others)
        return result.requires_grad_() if kwargs["requires_grad"] else result

    @contextlib.contextmanager
    def _seen_again(self) -> Iterator[None]:
        _C._push_on_torch_function_stack(self)
        try:
            yield
        finally:
            _C._pop_torch_function_stack()

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode belongs to a compiler: none does."""
        return False


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    stack = [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]
    return [mode for mode in stack if isinstance(mode, TorchDispatchMode)]


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Takes all modes off for the length of a block."""
    modes = [_C._pop_torch_function_stack() for _ in range(_C._len_torch_function_stack())]
    try:
        yield modes[::-1]
    finally:
        for mode in reversed(modes):
            _C._push_on_torch_function_stack(mode)


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
