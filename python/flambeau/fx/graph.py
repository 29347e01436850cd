"""A program as a list of nodes, and its text as a Python function."""

from __future__ import annotations

import contextlib
import dataclasses
import keyword
import re

from flambeau.fx._code import generate
from flambeau.fx.node import Node, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["CodeGen", "Graph", "PythonCode"]


@dataclasses.dataclass
class PythonCode:
    """The text of a graph's function, and the globals it needs."""

    src: str
    globals: dict[str, Any]


class CodeGen:
    """Writes the text of graphs; the plain one."""

    def _gen_python_code(self, graph: Graph, root_module: str) -> PythonCode:
        return PythonCode(*generate(graph, root_module))


class _Nodes:
    """The nodes of a graph in the order in which they run."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self.graph, self.backwards = graph, backwards

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, backwards = self.graph._root, self.backwards
        node = root._prev if backwards else root._next
        while node is not root:
            # What the loop's body erases still knows where it stood.
            if not node._erased:
                yield node
            node = node._prev if backwards else node._next

    def __reversed__(self) -> _Nodes:
        return _Nodes(self.graph, not self.backwards)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class _Names:
    """Hands out names of Python variables, each once."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def create(self, wish: str) -> str:
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", wish) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        match = re.match(r"(.*)_(\d+)$", name)
        base, number = (match[1], int(match[2])) if match else (name, 0)
        if not match:
            number = self.counts.get(base, 0)
        while name in self.used or self._reserved(name):
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        self.counts[base] = max(self.counts.get(base, 0), number)
        return name

    def _reserved(self, name: str) -> bool:
        import builtins

        return (
            keyword.iskeyword(name)
            or (hasattr(builtins, name) and name != "input")
            or name in ("torch", "math", "device", "inf", "nan", "NoneType", "self")
        )


class Graph:
    """The nodes of a program: inputs first, the output last."""

    def __init__(
        self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: Any = None
    ) -> None:
        self._names = _Names()
        self._len = 0
        self._root = Node(self, "", "placeholder", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self.owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self.meta: dict[str, Any] = {}

    @property
    def nodes(self) -> _Nodes:
        """The nodes in the order in which they run."""
        return _Nodes(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, with a target if one is given."""
        return [node for node in self.nodes if node.op == op and target in (None, node.target)]

    def output_node(self) -> Node:
        """The node that returns."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node at the place of insertion, which is the end unless said otherwise."""
        wish = name if name is not None else self._wish(op, target)
        node = Node(self, self._names.create(wish), op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        self._len += 1
        return node

    def _wish(self, op: str, target: Any) -> str:
        wish = target if isinstance(target, str) else getattr(target, "__name__", "function")
        if op == "output":
            return "output"
        if op == "placeholder":
            return wish.lstrip("*")
        return _snake(wish.strip("_") if wish.startswith("__") else wish.lstrip("_") or wish)

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._unlink()
        to_erase._set((), {})
        to_erase._erased = True
        self._len -= 1

    def inserting_before(self, n: Node | None = None) -> Any:
        """A context in which nodes are added before n, or at the beginning."""
        if n is None:
            return self.inserting_after(self._root)
        return self._inserting(n.prepend, n)

    def inserting_after(self, n: Node | None = None) -> Any:
        """A context in which nodes are added after n, or at the end."""
        if n is None:
            return self.inserting_before(self._root)
        # Each new node goes behind the one before it, so that they keep their order.
        last = [n]

        def insert(node: Node) -> None:
            last[0].append(node)
            last[0] = node

        return self._inserting(insert, n)

    @contextlib.contextmanager
    def _hold(self, insert: Callable[[Node], None]) -> Iterator[None]:
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def _inserting(self, insert: Callable[[Node], None], at: Node) -> Any:
        if at.graph is not self:
            raise AssertionError("Node to insert before or after is not in graph.")
        held = self._hold(insert)
        # PyTorch moves the place of insertion at once, and back where the context ends.
        held.__enter__()
        return _Entered(held)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Adds an input."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Adds the value of an attribute of the module, a.b.c."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Adds the call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """Adds the call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Adds the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Adds the node that returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Adds a copy of a node, of another graph perhaps, with its arguments transformed."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        copy = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copy.meta = dict(node.meta)
        return copy

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Adds copies of all nodes of a graph; gives back what it would return."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        copy = Graph(tracer_cls=self._tracer_cls)
        copy._codegen = self._codegen
        made: dict[Node, Node] = {}
        for node in self.nodes:
            made[node] = copy.node_copy(node, lambda n: made[n])
        return copy

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes nodes whose values nobody uses; says whether there were any."""
        changed = False
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """Raises unless every node takes only what was computed before, and every target exists."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for needed in node.all_input_nodes:
                if needed not in seen:
                    raise RuntimeError(
                        f"Argument '{needed}' of Node '{node}' was used before it has been "
                        "defined! Please check that Nodes in the graph are topologically ordered\n"
                        f"{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                fetch(self.owning_module, node.target)

    def python_code(self, root_module: str, **kwargs: Any) -> PythonCode:
        """The function as Python's text; `root_module` is the name that stands for the module."""
        return self._codegen._gen_python_code(self, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Sets what writes the text."""
        self._codegen = codegen

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [["opcode", "name", "target", "args", "kwargs"]]
        rows += [
            [n.op, n.name, str(n._pretty_target()), str(n.args), str(n.kwargs)] for n in self.nodes
        ]
        widths = [max(len(head) + 2, *map(len, cells)) for head, *cells in zip(*rows)]
        rows.insert(1, ["-" * width for width in widths])
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def __str__(self) -> str:
        inputs = [node.name for node in self.nodes if node.op == "placeholder"]
        lines = [node.format_node() for node in self.nodes]
        return f"graph({', '.join(inputs)}):\n    " + "\n    ".join(lines) if lines else "graph():"


class _Entered:
    """A context that has been entered already; leaving it ends it."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        self.held.__exit__(None, None, None)


def fetch(module: Any, path: str) -> Any:
    """The attribute a.b.c of a module."""
    found = module
    for at, name in enumerate(path.split(".")):
        if not hasattr(found, name):
            raise RuntimeError(
                f"Node referenced nonexistent target {'.'.join(path.split('.')[: at + 1])}"
            )
        found = getattr(found, name)
    return found
