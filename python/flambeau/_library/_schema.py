"""The signatures of operators that programs register, as text: `(Tensor x, float y=1.0, *, Tensor?
mask=None) -> (Tensor, Tensor)`. Parsed here, bound to the arguments of a call, and inferred from
the annotations of Python functions.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import types
import typing

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

REQUIRED: Any = object()

_ARGUMENT = re.compile(r"(?P<type>.+?)\s+(?P<name>\w+)\s*(?:=\s*(?P<default>.+))?$", re.DOTALL)
_CONSTANTS = {"None": None, "True": True, "False": False}


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument: its type as written, its default, and whether the operator writes into it."""

    type: str
    name: str
    default: Any = REQUIRED
    kwarg_only: bool = False

    @property
    def is_write(self) -> bool:
        """Whether the type says so, as in Tensor(a!)."""
        return "!" in self.type

    def __str__(self) -> str:
        if self.default is REQUIRED:
            return f"{self.type} {self.name}"
        shown = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return f"{self.type} {self.name}={shown}"


@dataclasses.dataclass(frozen=True)
class Schema:
    """The signature of an operator: its name, overload, arguments, and the types it returns."""

    name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes into an argument."""
        return any(argument.is_write for argument in self.arguments)

    def __str__(self) -> str:
        full = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return full + self.text()

    def text(self) -> str:
        """The signature without the name."""
        parts = [str(argument) for argument in self.arguments if not argument.kwarg_only]
        keywords = [str(argument) for argument in self.arguments if argument.kwarg_only]
        if keywords:
            parts += ["*", *keywords]
        returns = self.returns[0] if len(self.returns) == 1 else f"({', '.join(self.returns)})"
        return f"({', '.join(parts)}) -> {returns}"

    def bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword-only arguments of a call, with defaults filled in."""
        positional = [argument for argument in self.arguments if not argument.kwarg_only]
        if len(args) > len(positional):
            raise RuntimeError(
                f"{self.name}() expected at most {len(positional)} argument(s) but received "
                f"{len(args)} argument(s). Declaration: {self}"
            )
        left = dict(kwargs)
        bound, keywords = list(args), {}
        for argument in positional[: len(args)]:
            if argument.name in left:
                raise RuntimeError(
                    f"{self.name}() got multiple values for argument '{argument.name}'. "
                    f"Declaration: {self}"
                )
        for argument in positional[len(args) :]:
            bound.append(self._value(argument, left))
        for argument in self.arguments:
            if argument.kwarg_only:
                keywords[argument.name] = self._value(argument, left)
        if left:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(left))}' for operator '{self.name}'. "
                f"Schema: {self}"
            )
        return bound, keywords

    def _value(self, argument: Argument, given: dict[str, Any]) -> Any:
        if argument.name in given:
            return given.pop(argument.name)
        if argument.default is REQUIRED:
            raise RuntimeError(
                f"{self.name}() is missing value for argument '{argument.name}'. "
                f"Declaration: {self}"
            )
        return argument.default


def _split(text: str) -> list[str]:
    """The parts of a list between commas outside brackets and quotes."""
    parts, depth, start, quote = [], 0, 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _default(text: str) -> Any:
    text = text.strip()
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        # The name of a dtype, a layout, a memory format.
        return getattr(flambeau, text, text)


def _end_of_arguments(text: str) -> int:
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and character == ")":
            return at
    raise RuntimeError(f"expected the arguments of a schema in parentheses, got '{text}'")


def parse(name: str, text: str) -> Schema:
    """The schema of an operator from "(arguments) -> returns", with or without a name before."""
    text = text.strip()
    if not text.startswith("("):
        own, bracket, rest = text.partition("(")
        if not bracket:
            raise RuntimeError(
                f"expected a schema such as '{name}(Tensor x) -> Tensor', got '{text}'"
            )
        name, text = own.strip(), bracket + rest
    name, _, overload = name.partition(".")
    end = _end_of_arguments(text)
    arguments, keywords = [], False
    for part in _split(text[1:end]):
        if part == "*":
            keywords = True
            continue
        match = _ARGUMENT.match(part)
        if match is None:
            raise RuntimeError(f"schema of {name}: cannot read the argument '{part}'")
        default = REQUIRED if match["default"] is None else _default(match["default"])
        arguments.append(Argument(match["type"].strip(), match["name"], default, keywords))
    arrow = text[end + 1 :].strip()
    if not arrow.startswith("->"):
        raise RuntimeError(
            f"schema of {name}: expected '-> returns' after the arguments, got '{arrow}'"
        )
    given = arrow[2:].strip()
    if given.startswith("(") and _end_of_arguments(given) == len(given) - 1:
        returns = tuple(_split(given[1:-1]))
    else:
        returns = (given,)
    return Schema(name, overload, tuple(arguments), returns)


_SCALARS = {int: "SymInt", float: "float", bool: "bool", str: "str", complex: "complex"}


def _words(annotation: Any, what: str) -> str:
    """A Python annotation as the type of a schema."""
    known: dict[Any, str] = {
        flambeau.Tensor: "Tensor",
        flambeau.device: "Device",
        flambeau.dtype: "ScalarType",
        **_SCALARS,
        typing.Union[int, float, bool]: "Scalar",  # noqa: UP007
        int | float | bool: "Scalar",
    }
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None or annotation in known:
        if annotation in known:
            return known[annotation]
    elif origin in (typing.Union, types.UnionType):
        kept = tuple(one for one in inner if one is not type(None))
        if len(kept) < len(inner):
            return _words(typing.Union[kept], what) + "?"  # noqa: UP007
    elif isinstance(origin, type) and issubclass(origin, typing.Sequence):  # type: ignore[arg-type]
        return _words(inner[0], what) + "[]"
    raise ValueError(f"infer_schema(func): {what} has unsupported type {annotation}")


def _returned(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        return f"({', '.join(_words(one, 'return value') for one in typing.get_args(annotation))})"
    return _words(annotation, "return value")


def infer(
    function: Callable[..., Any], *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The schema that the annotations of a function describe.

    Args:
        function: it, with all parameters and the return value annotated.
        mutates_args: the names of the arguments it writes into, or "unknown" for all tensors.
        op_name: a name to put before the schema.
    """
    hints = typing.get_type_hints(function)
    parts, keywords = [], False
    parameters = inspect.signature(function).parameters
    written = set(parameters) if mutates_args == "unknown" else set(mutates_args)
    if unknown := written - set(parameters):
        raise ValueError(f"infer_schema(func): mutates_args names unknown arguments {unknown}")
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(f"infer_schema(func): *args and **kwargs are not supported: {name}")
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation.")
        if parameter.kind == parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parts.append("*")
        kind = _words(hints[name], f"Parameter {name}")
        if name in written and kind.startswith("Tensor"):
            kind = kind.replace("Tensor", f"Tensor(a{len(parts)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_literal(parameter.default)}"
        parts.append(f"{kind} {name}{default}")
    schema = f"({', '.join(parts)}) -> {_returned(hints.get('return'))}"
    return schema if op_name is None else op_name + schema


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (flambeau.dtype, flambeau.device)):
        return str(value).rpartition(".")[2]
    return str(value)
