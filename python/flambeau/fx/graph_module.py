"""A module whose forward is a graph, compiled from its text to a Python function."""

from __future__ import annotations

import copy
import itertools
import linecache

import flambeau
from flambeau.fx.graph import Graph, fetch
from flambeau.fx.node import Node, map_arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GraphModule"]

_count = itertools.count()


def _compile(text: str, names: dict[str, Any]) -> Any:
    """The function `forward` of a text, which tracebacks can show."""
    file = f"<flambeau.fx.graph {next(_count)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(names)
    exec(compile(text, file, "exec"), names)
    return names["forward"]


def _assign(root: Any, path: str, value: Any) -> None:
    """Sets the attribute a.b.c of a module, making the modules on the way."""
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(root, parent):
            root.add_module(parent, flambeau.nn.Module())
        root = getattr(root, parent)
    if isinstance(value, flambeau.Tensor) and not isinstance(value, flambeau.nn.Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


class GraphModule(flambeau.nn.Module):
    """A module that runs a graph. After changing the graph, call `recompile`.

    Args:
        root: the module, or a dictionary, that has what the graph's nodes name.
        graph: the graph.
        class_name: the name of the class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # forward is the class's, and each graph has its own.
        base = next(one for one in cls.__mro__ if "_made_for_one" not in one.__dict__)
        made = type(base.__name__, (base,), {"_made_for_one": True})
        return super().__new__(made)  # type: ignore[arg-type]

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        is_module = isinstance(root, flambeau.nn.Module)
        if is_module:
            self.training = root.training
        for node in graph.nodes:
            if node.op not in ("get_attr", "call_module"):
                continue
            if is_module:
                _assign_like(self, root, node.target)
            elif node.target in root:
                _assign(self, node.target, root[node.target])
            else:
                raise RuntimeError(
                    f"Node {node} referenced target {node.target} but that target was not "
                    "provided in `root`!"
                )
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {}) or {})
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph; setting it compiles it."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The text of forward."""
        return self._code

    def recompile(self) -> Any:
        """Compiles the graph again; needed after it was changed."""
        code = self._graph.python_code("self")
        self._code = code.src
        type(self).forward = _compile(code.src, code.globals)
        return code

    def add_submodule(self, target: str, m: Any) -> bool:
        """Adds a module at a.b.c; False if something else is in the way."""
        *parents, name = target.split(".")
        place: Any = self
        for parent in parents:
            if not hasattr(place, parent):
                place.add_module(parent, flambeau.nn.Module())
            place = getattr(place, parent)
            if not isinstance(place, flambeau.nn.Module):
                return False
        place.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a.b.c; False if there is none."""
        *parents, name = target.split(".")
        place: Any = self
        for parent in parents:
            place = getattr(place, parent, None)
        if not isinstance(getattr(place, name, None), flambeau.nn.Module):
            return False
        delattr(place, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes the modules that no node names, nor lies within."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[: at + 1]) for at in range(len(parts)))
                if node.op == "call_module":
                    within = fetch(self, node.target)
                    used.update(f"{node.target}.{name}" for name, _ in within.named_modules())
        for name in [name for name, _ in self.named_modules()]:
            if name and name not in used:
                self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **kwargs: Any) -> str:
        """The class with its forward as text, printed as well."""
        body = "\n".join("    " + line if line else line for line in self._code.splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def __deepcopy__(self, memo: Any) -> GraphModule:
        made = GraphModule.__new__(GraphModule)
        memo[id(self)] = made  # what the module holds may mention it
        made.__dict__ = {
            key: copy.deepcopy(value, memo)
            for key, value in self.__dict__.items()
            if key != "_graph"
        }
        type(made).__name__ = type(self).__name__
        made.graph = copy.deepcopy(self._graph, memo)
        return made

    def __copy__(self) -> GraphModule:
        return GraphModule(self, self._graph, type(self).__name__)

    def __reduce__(self) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        nodes = [
            (
                node.op,
                node.name,
                node.target,
                map_arg(node.args, lambda n: _Reference(n.name)),
                map_arg(node.kwargs, lambda n: _Reference(n.name)),
            )
            for node in self._graph.nodes
        ]
        return _rebuild, (type(self).__name__, state, nodes)

    def __str__(self) -> str:
        return "\n".join(
            [
                super().__str__(),
                self._code,
                "# To see more debug info, please use `graph_module.print_readable()`",
            ]
        )


def _assign_like(to: Any, root: Any, path: str) -> None:
    """Sets a.b.c as it is in another module; what is there already stays."""
    *parents, name = path.split(".")
    for parent in parents:
        root = getattr(root, parent)
        if not hasattr(to, parent):
            to.add_module(parent, flambeau.nn.Module())
        to = getattr(to, parent)
        if to is root:
            return
    value = getattr(root, name)
    if isinstance(value, flambeau.Tensor) and not isinstance(value, flambeau.nn.Parameter):
        if name in root.__dict__.get("_buffers", {}):
            persistent = name not in root._non_persistent_buffers_set
            to.register_buffer(name, value, persistent)
        else:
            to.register_buffer(name, value)
    else:
        setattr(to, name, value)


# The names by which libraries that subclass GraphModule know these.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Sets a.b.c of one module as it is in another."""
    _assign_like(to_module, from_module, target)


class _CodeOnlyModule(flambeau.nn.Module):
    """A module made from the attributes of another, to copy out of."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


class _Reference:
    """A node in a pickle, by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


def _rebuild(class_name: str, state: dict[str, Any], nodes: list[Any]) -> GraphModule:
    graph = Graph()
    made: dict[str, Node] = {}
    from flambeau.fx.node import map_aggregate

    def find(a: Any) -> Any:
        return made[a.name] if isinstance(a, _Reference) else a

    for op, name, target, args, kwargs in nodes:
        node: Node = graph.create_node(
            op, target, map_aggregate(args, find), map_aggregate(kwargs, find), name
        )
        made[name] = node
    module = GraphModule.__new__(GraphModule)
    module.__dict__.update(state)
    type(module).__name__ = class_name
    module.graph = graph
    return module
