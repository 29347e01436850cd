"""Arguments of a call in the order of PyTorch's operators: by position, without those at the end
that have their default value; what can only be given by name stays named.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from typing import Any

import flambeau
from flambeau import _C, Tensor


class _Parameter:
    """One parameter of a signature of the registry."""

    def __init__(self, text: str, kind: str, by_name: bool) -> None:
        name, has_default, default = (part.strip() for part in text.partition("="))
        self.takes_rest = name.startswith("*")
        self.name, self.kind, self.by_name = name.lstrip("*"), kind.rstrip("?"), by_name
        self.required = not has_default
        self.default: Any = default
        # A name such as torch.contiguous_format stays text, which no argument equals.
        with contextlib.suppress(ValueError, SyntaxError):
            self.default = ast.literal_eval(default) if has_default else None

    def value(self, given: Any) -> Any:
        """The argument as PyTorch shows it: sizes and dimensions as lists."""
        if self.kind in ("ints", "reals") and given is not None:
            return list(given) if isinstance(given, (list, tuple)) else [given]
        return list(given) if self.kind == "tensors" else given


def _read(signature: str, kinds: list[str]) -> list[_Parameter]:
    inside = signature.partition("(")[2].rpartition(")")[0]
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(inside + ","):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(inside[start:i].strip())
            start = i + 1
    found: list[_Parameter] = []
    by_name = False
    for part in filter(None, parts):
        if part == "*" or part.startswith("**"):
            by_name = True
            continue
        kind = kinds[len(found)] if len(found) < len(kinds) else "options"
        found.append(_Parameter(part, kind, by_name))
    return found


@functools.cache
def _signatures() -> dict[str, list[list[_Parameter]]]:
    found: dict[str, list[list[_Parameter]]] = {}
    for op in _C._op_registry():
        parameters = _read(op["signature"], op["arguments"])
        found.setdefault(op["name"], []).append(parameters)
        if op["inplace"]:
            found.setdefault(op["name"] + "_", []).append(parameters)
    return found


def _fits(parameters: list[_Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    positional = [p for p in parameters if not p.by_name]
    names = {p.name for p in parameters} | {"out", "dtype", "device", "layout", "pin_memory"}
    rest = bool(positional) and positional[-1].takes_rest
    if len(args) > len(positional) and not rest:
        return False
    if any(name not in names for name in kwargs):
        return False
    if any(p.required and p.name not in kwargs for p in positional[len(args) :] if not rest):
        return False
    return all(_is_of(p.kind, value) for p, value in zip(positional, args, strict=False))


def _is_of(kind: str, value: Any) -> bool:
    if value is None:
        return True
    if kind == "tensor":
        return isinstance(value, Tensor)
    if kind == "ints":
        return isinstance(value, (int, list, tuple))
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "dtype":
        return isinstance(value, flambeau.dtype)
    return True


def arranged(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments by position and by name; as they came where no signature is known."""
    for parameters in _signatures().get(name, []):
        if _fits(parameters, args, kwargs):
            return _bound(parameters, args, dict(kwargs))
    return args, kwargs


def _same(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, Tensor) and value == default)


def _bound(
    parameters: list[_Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    given: list[tuple[_Parameter, Any]] = []
    for i, parameter in enumerate(p for p in parameters if not p.by_name):
        if parameter.takes_rest:
            rest = args[i:]
            spread = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
            given.append((parameter, kwargs.pop(parameter.name, spread)))
        elif i < len(args):
            given.append((parameter, args[i]))
        else:
            given.append((parameter, kwargs.pop(parameter.name, parameter.default)))
    while given and not given[-1][0].required and _same(given[-1][1], given[-1][0].default):
        given.pop()
    defaults = {p.name: p.default for p in parameters if p.by_name}
    named = {k: v for k, v in kwargs.items() if k not in defaults or not _same(v, defaults[k])}
    return tuple(p.value(value) for p, value in given), named
