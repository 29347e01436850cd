"""What the registry knows of a function that a class of tensors is asked for, so that such a class
treats ops by their kind instead of by their name."""

from __future__ import annotations

import ast
import functools
import re

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Python's words for operators whose method has another name than the op.
_OPERATORS = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "truediv": "div",
    "floordiv": "floor_divide", "mod": "remainder", "pos": "positive",
}  # fmt: skip


class Kind:
    """An op by name and properties, and how a function calls it."""

    __slots__ = ("name", "properties", "writes")

    def __init__(self, name: str, properties: frozenset[str], writes: bool) -> None:
        self.name, self.properties, self.writes = name, properties, writes

    def has(self, *words: str) -> bool:
        """Whether the registry says any of this of the op (_C._properties)."""
        return any(word in self.properties for word in words)

    @property
    def parameters(self) -> list[str]:
        """The names of its arguments, in the overload that has most."""
        return max((list(each) for each in _signatures().get(self.name, ())), key=len, default=[])

    def default(self, parameter: str) -> Any:
        """What an argument is where it is not given; an error where it must be."""
        for each in _signatures()[self.name]:
            if (text := each.get(parameter)) is not None:
                return ast.literal_eval(text)
        raise TypeError(f"{self.name}() missing 1 required positional argument: '{parameter}'")


@functools.lru_cache(None)
def _signatures() -> dict[str, list[dict[str, str | None]]]:
    """By op the parameters of its overloads, and the text of their defaults."""
    found: dict[str, list[dict[str, str | None]]] = {}
    for row in _C._op_registry():
        text = row["signature"].partition("(")[2].partition(" ->")[0].removesuffix(")")
        named: dict[str, str | None] = {}
        for item in re.findall(r"(?:[^,()\[]|\([^)]*\)|\[[^]]*\])+", text):
            name, given, value = item.strip().partition("=")
            if name.strip("*"):
                named[name.strip("*")] = value if given else None
        found.setdefault(row["name"], []).append(named)
    return found


@functools.lru_cache(None)
def kind_named(name: str) -> Kind:
    """The kind of the op behind the name of a function, a method or an operator."""
    special = name.startswith("__") and name.endswith("__")
    if not special:
        plain = name.removeprefix("_nn_")
        base = plain.removesuffix("_")
        known = _C._properties(name) or _C._properties(base)
        return Kind(base, known, plain.endswith("_"))
    word = name.strip("_")
    for prefix in ("", "r", "i"):
        if not word.startswith(prefix):
            continue
        base = word.removeprefix(prefix)
        base = _OPERATORS.get(base, base)
        if known := _C._properties(base):
            return Kind(base, known, prefix == "i")
    return Kind(name, frozenset(), False)


def kind_of(func: Any) -> Kind:
    """The kind of the op that a function calls."""
    return kind_named(func.__name__)


def body_of(func: Any) -> Callable[..., Any] | None:
    """What a function that is written in Python does, where each op in it can be asked for."""
    body: Callable[..., Any] | None = getattr(func, "__wrapped__", None)
    return body


@functools.lru_cache(None)
def _aliases() -> dict[str, str]:
    """By op the one that has its function too, if it is made of nothing more: transpose for
    swapaxes, cat for concat."""
    functions: dict[str, set[int]] = {}
    for row in _C._op_registry():
        functions.setdefault(row["name"], set()).add(row["computed_by"])
    by_function: dict[int, list[str]] = {}
    for name in sorted(functions, key=lambda name: "composed" in _C._properties(name)):
        for function in functions[name]:
            by_function.setdefault(function, []).append(name)
    found = {}
    for name, own in functions.items():
        for first in sorted({by_function[function][0] for function in own} - {name}):
            if own <= functions[first]:
                found[name] = first
    return found


def names_of(name: str) -> list[str]:
    """What a rule for an op may be called: by its name, by that of the op whose alias it is, or
    without a number of dimensions: avg_pool for avg_pool2d."""
    return [name, _aliases().get(name, name), re.sub(r"_?\dd$", "", name)]


def rule_for(kind: Kind, module: dict[str, Any]) -> Callable[..., Any] | None:
    """The function of a module that stands for an op: rule_matmul, rule_getitem."""
    found = (module.get(f"rule_{name}") for name in names_of(kind.name.strip("_")))
    return next((rule for rule in found if rule is not None), None)


def among(values: Any, cls: Any) -> list[Any]:
    """The objects of a class among arguments, those in lists too."""
    found = []
    for value in values:
        if isinstance(value, cls):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += among(value, cls)
    return found


def replaced(value: Any, cls: Any, change: Callable[[Any], Any]) -> Any:
    """An argument, or a result, of which the objects of a class are changed, in lists too."""
    if isinstance(value, cls):
        return change(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, _C.Size):
        return type(value)([replaced(item, cls, change) for item in value])
    return value
