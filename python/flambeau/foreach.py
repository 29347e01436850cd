"""Ops over lists of tensors: each function computes, for every tensor of a list, what the op of its
name computes for one, and gives a tuple; those with a trailing underscore write into the tensors
and give back the list. `add([a, b], 1)` is `(a + 1, b + 1)`.

Lists are given by position, options by name.
"""

from __future__ import annotations

import inspect as _inspect
from ast import literal_eval as _literal

from flambeau._namespace import _foreach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BY_POSITION = _inspect.Parameter.POSITIONAL_ONLY
_BY_NAME = _inspect.Parameter.KEYWORD_ONLY
# Not offered without the underscore that says that it is internal.
_INTERNAL = "powsum"

__all__: list[str] = []


def _signature(name: str, parameters: list[_foreach.Parameter]) -> _inspect.Signature:
    shown = [_inspect.Parameter("input" if name == "pow" else "inputs", _BY_POSITION)]
    for names, default, _ in parameters:
        if default is None:
            shown.append(_inspect.Parameter(names[0], _BY_POSITION))
        else:
            value = _literal(default)
            shown.append(_inspect.Parameter(names[0], _BY_NAME, default=value))
    return _inspect.Signature(shown)


def _offer(name: str, function: Callable[..., Any]) -> None:
    signature = _signature(name, function.__dict__["_parameters"])
    positional = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
    options = signature.parameters.keys() - {p.name for p in positional}
    count = len(positional)

    def offered(*lists: Any, **given: Any) -> Any:
        if len(lists) != count or given.keys() - options:
            # Says in Python's words what does not fit.
            try:
                signature.bind(*lists, **given)
            except TypeError as error:
                raise TypeError(f"{name}() {error}") from None
        return function(*lists, **given)

    offered.__name__ = offered.__qualname__ = name
    offered.__doc__ = function.__doc__
    offered.__dict__["__signature__"] = signature
    globals()[name] = offered
    __all__.append(name)


for _full in sorted(set(_foreach.__all__)):
    if (_short := _full.removeprefix("_foreach_")) != _INTERNAL:
        _offer(_short, getattr(_foreach, _full))
