"""The modes that decide whether history is recorded: no_grad, enable_grad, set_grad_enabled,
inference_mode.

Each is a context manager and a decorator; entering and leaving is two calls into the core.
"""

from __future__ import annotations

from flambeau import _C
from flambeau.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor
    from flambeau.utils._contextlib import F

__all__ = [
    "enable_grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_is_grad_enabled = _C.is_grad_enabled
_set_grad_enabled = _C._set_grad_enabled


class no_grad(_NoParamDecoratorContextManager):
    """Inside it nothing records history: results do not require gradients, and save nothing.

    A context manager and a decorator, with or without parentheses; it applies to the current
    thread.
    """

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = _is_grad_enabled()
        _set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _set_grad_enabled(self.prev)


class enable_grad(_NoParamDecoratorContextManager):
    """Inside it history is recorded again, where an outer `no_grad` had switched it off."""

    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = _is_grad_enabled()
        _set_grad_enabled(True)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _set_grad_enabled(self.prev)


class set_grad_enabled(_DecoratorContextManager):
    """Switches the recording of history on or off by `mode`: at once as a function call, and until
    the end of a `with` block or of the decorated function when used as one."""

    def __init__(self, mode: bool) -> None:
        self.prev = _is_grad_enabled()
        self.mode = mode
        _set_grad_enabled(mode)

    def __call__(self, orig_func: F) -> F:
        # As a decorator it must not act where the function is defined.
        _set_grad_enabled(self.prev)
        return super().__call__(orig_func)

    def __enter__(self) -> None:
        _set_grad_enabled(self.mode)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _set_grad_enabled(self.prev)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__qualname__}(mode={self.mode})"

    def clone(self) -> set_grad_enabled:
        return self.__class__(self.mode)


class inference_mode(_DecoratorContextManager):
    """`no_grad` that also skips version counting: tensors made inside can never enter a graph.

    Args:
        mode: False leaves an outer inference mode for the length of the block.
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._prev = (False, True)

    def __enter__(self) -> None:
        self._prev = (_C.is_inference_mode_enabled(), _is_grad_enabled())
        _C._set_inference_mode(self.mode)
        _set_grad_enabled(not self.mode)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        inference, grad = self._prev
        _C._set_inference_mode(inference)
        _set_grad_enabled(grad)

    def clone(self) -> inference_mode:
        return self.__class__(self.mode)


_multithreading = True


def is_multithreading_enabled() -> bool:
    """What set_multithreading_enabled has set."""
    return _multithreading


class set_multithreading_enabled(_DecoratorContextManager):
    """Accepted for compatibility: a backward pass already runs on the thread that called it.

    As a function it holds from here on, as a context manager for the length of a block.
    """

    def __init__(self, mode: bool) -> None:
        global _multithreading
        self.mode, self.prev = mode, _multithreading
        _multithreading = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _multithreading
        _multithreading = self.prev

    def clone(self) -> set_multithreading_enabled:
        return self.__class__(self.mode)


class _unsafe_preserve_version_counter:
    """Inside it, writes into the tensors are not counted: autograd does not see them."""

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = tensors if isinstance(tensors, tuple) else (tensors,)
        self.versions = [tensor._version for tensor in self.tensors]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: object) -> None:
        for tensor, version in zip(self.tensors, self.versions):
            _C._set_version(tensor, version)
