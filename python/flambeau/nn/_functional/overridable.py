"""Lets classes with `__torch_function__` take over the functions of ``nn.functional`` that are
written in Python, as they do ops."""

from __future__ import annotations

import functools

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def overridable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; where an argument or a mode takes over, that gets its arguments as PyTorch
    gives them: those without a default by position, all others by name."""
    code: Any = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    required = len(names) - len(defaults)
    optional = dict(zip(names[required:], defaults))
    takes_over = _C._has_torch_function

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not takes_over(args) and not (kwargs and takes_over(tuple(kwargs.values()))):
            return function(*args, **kwargs)
        from flambeau.overrides import handle_torch_function

        given = {**dict(zip(names, args)), **kwargs}
        relevant = (*args, *kwargs.values())
        positional = [given.pop(name) for name in names[:required] if name in given]
        named = {**optional, **(function.__kwdefaults__ or {}), **given}
        return handle_torch_function(wrapper, relevant, *positional, **named)

    return wrapper
