"""The parts of TorchScript that have a meaning where functions run as they stand: what marks a
function for its compiler changes nothing here, and nothing is ever scripted or traced.

Files of TorchScript (`save`, `load`) and traces, which record one call, are not here.
"""

from __future__ import annotations

import warnings
from typing import Final

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "Final",
    "TracerWarning",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script",
    "script_if_tracing",
    "unused",
]


class TracerWarning(Warning):
    """What tracing a function would warn of."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Silences this warning."""
        warnings.filterwarnings("ignore", category=TracerWarning)


def is_scripting() -> bool:
    """False: this line is being run by Python."""
    return False


def is_tracing() -> bool:
    """False: no call is being recorded."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, whose type a compiler would be told."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether `obj` is of a type such as list[int]: the elements are looked at, too."""
    return _matches(obj, target_type)


def _matches(obj: Any, kind: Any) -> bool:
    import builtins
    import types
    import typing

    if builtins.isinstance(kind, tuple):
        return any(_matches(obj, one) for one in kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return builtins.isinstance(obj, kind)
    if origin is typing.Union or origin is types.UnionType:
        return any(_matches(obj, one) for one in arguments)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        key, value = arguments
        return all(_matches(k, key) and _matches(v, value) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(arguments) and all(map(_matches, obj, arguments))
    return all(_matches(item, arguments[0]) for item in obj)


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function, or a decorator that gives it back."""
    return drop if callable(drop) else lambda function: function


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function."""
    return fn


def interface(obj: Any) -> Any:
    """The class."""
    return obj


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself: what it computes is the same scripted or not, and here
    Python runs it. It cannot be saved without its source.
    """
    if not callable(obj):
        raise RuntimeError(f"script: expected a function, class or module, got {type(obj)}")
    return obj


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: it would be scripted while a call of it is traced, which never happens."""
    return fn


_script_if_tracing = script_if_tracing


def _overload(func: Callable[..., Any]) -> Callable[..., Any]:
    return func


_overload_method = _overload
