"""Writes a graph as the text of a Python function: one line a node, and each variable is let go of
on the line that uses it last.
"""

from __future__ import annotations

import enum
import math

import flambeau
from flambeau.fx.node import Node, map_arg, qualified_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau.fx.graph import Graph

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
PREFIX = {"neg": "-", "pos": "+", "invert": "~"}
_IN_PLACE = {
    f"i{name.rstrip('_')}": sign for name, sign in INFIX.items() if sign not in "== != < >"
}


class _Writer:
    """Gathers the lines, and the globals that they mention."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.globals: dict[str, Any] = {}

    def name_of(self, value: Any, wish: str) -> str:
        """A name in the globals for a value."""
        if wish.startswith("torch."):
            self.globals["torch"] = flambeau
            return wish
        name = base = wish.replace(".", "_").replace("<", "_").replace(">", "_")
        count = 0
        while self.globals.get(name, value) is not value:
            count += 1
            name = f"{base}_{count}"
        self.globals[name] = value
        return name

    def text(self, value: Any) -> str:
        """An argument as Python's text."""
        if isinstance(value, tuple):
            if hasattr(value, "_fields"):
                name = self.name_of(type(value), type(value).__qualname__)
                return f"{name}({', '.join(map(self.text, value))})"
            if isinstance(value, flambeau.Size):
                self.globals["torch"] = flambeau
                return f"torch.Size([{', '.join(map(self.text, value))}])"
            inner = ", ".join(map(self.text, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            inner = ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in value.items())
            return f"{{{inner}}}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self.text, (value.start, value.stop, value.step)))})"
        return self._leaf(value)

    def _leaf(self, value: Any) -> str:
        if isinstance(value, Node):
            return value.name
        if isinstance(value, enum.Enum):
            return f"{self.name_of(type(value), type(value).__qualname__)}.{value.name}"
        if isinstance(value, float) and not math.isfinite(value):
            self.globals.update(inf=math.inf, nan=math.nan)
            return repr(value)
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range)):
            return repr(value)
        if value is Ellipsis:
            return "Ellipsis"
        if isinstance(value, (flambeau.dtype, flambeau.memory_format, flambeau.layout)):
            self.globals["torch"] = flambeau
            return str(value)
        if isinstance(value, flambeau.device):
            self.globals["device"] = flambeau.device
            return repr(value)
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return self.name_of(value, qualified_name(value))
        return self.name_of(value, f"_{type(value).__name__}_value")

    def call(self, name: str, args: Any, kwargs: dict[str, Any]) -> str:
        """A call as Python's text."""
        given = [self.text(one) for one in args]
        given += [f"{key} = {self.text(one)}" for key, one in kwargs.items()]
        return f"{name}({', '.join(given)})"

    def attribute(self, path: str) -> str:
        """A path from the module; parts that are not names are asked for with getattr."""
        text = self.root
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def value(self, node: Node) -> str:
        """What stands to the right of a node's name."""
        if node.op == "get_attr":
            return self.attribute(node.target)
        if node.op == "call_module":
            return self.call(self.attribute(node.target), node.args, node.kwargs)
        if node.op == "call_method":
            receiver = self.text(node.args[0])
            return self.call(f"{receiver}.{node.target}", node.args[1:], node.kwargs)
        return self._function(node)

    def in_place(self, node: Node) -> str | None:
        """The statement of an operator that writes into its left side; None for other nodes."""
        sign = _IN_PLACE.get(getattr(node.target, "__name__", ""))
        if sign is None or getattr(node.target, "__module__", None) != "_operator":
            return None
        left, right = node.args
        if not isinstance(left, Node):
            return None
        return f"{left.name} {sign}= {self.text(right)};  {node.name} = {left.name}"

    def _function(self, node: Node) -> str:
        function, args = node.target, node.args
        name = getattr(function, "__name__", "")
        if getattr(function, "__module__", None) == "_operator" and not node.kwargs:
            if name in INFIX and len(args) == 2:
                return f"{self.text(args[0])} {INFIX[name]} {self.text(args[1])}"
            if name in PREFIX and len(args) == 1:
                return f"{PREFIX[name]}{self.text(args[0])}"
            if name == "getitem":
                return f"{self.text(args[0])}[{self.text(args[1])}]"
        if function is getattr and len(args) == 2 and str(args[1]).isidentifier():
            return f"{self.text(args[0])}.{args[1]}"
        if getattr(function, "__module__", None) == "_operator":
            return self.call(self.name_of(function, f"_operator_{name}"), args, node.kwargs)
        if qualified_name(function) == name:
            return self.call(name, args, node.kwargs)
        return self.call(self.name_of(function, qualified_name(function)), args, node.kwargs)


def _last_uses(graph: Graph) -> dict[Node, list[str]]:
    """For each node the names that nobody uses after it, in the order of its arguments."""
    last: dict[Node, Node] = {}
    for node in reversed(graph.nodes):
        used: list[Node] = []
        map_arg((node.args, node.kwargs), used.append)
        for one in used:
            last.setdefault(one, node)
    ends: dict[Node, list[str]] = {}
    for value, user in last.items():
        ends.setdefault(user, []).append(value.name)
    return ends


def generate(graph: Graph, root: str) -> tuple[str, dict[str, Any]]:
    """The text of the graph as a method `forward`, and its globals."""
    writer, ends = _Writer(root), _last_uses(graph)
    parameters, lines = [root], []
    for node in graph.nodes:
        if node.op == "placeholder":
            default = f" = {writer.text(node.args[0])}" if node.args else ""
            parameters.append(f"{node.target}{default}")
            if node.target.lstrip("*") != node.name:
                lines.append(f"{node.name} = {node.target.lstrip('*')}")
            continue
        if node.op == "output":
            lines.append(f"return {writer.text(node.args[0])}")
            continue
        line = writer.in_place(node) or f"{node.name} = {writer.value(node)}"
        dead = list(ends.get(node, []))
        if not node.users:
            dead.append(node.name)
        lines.append(f"{line};  {' = '.join(dead)} = None" if dead else line)
    body = "\n    ".join(lines or ["pass"])
    return f"\n\n\ndef forward({', '.join(parameters)}):\n    {body}\n    ", writer.globals
