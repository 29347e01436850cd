"""One step of a graph: an input, an attribute, a call of a function, method or module, or the
output.

The nodes of a graph are linked in the order in which they run; each knows the nodes whose values it
takes and the nodes that take its own.
"""

from __future__ import annotations

import builtins

import flambeau
from flambeau._namespace._settings import _assert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Argument = object
Target = object

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")

_side_effectful: set[Any] = {print, _assert, setattr}


def has_side_effect(fn: Any) -> Any:
    """Marks a function that must run even if nobody uses what it returns."""
    _side_effectful.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """fn of everything in nested tuples, lists, dictionaries and slices."""
    if isinstance(a, tuple):
        mapped = tuple(map_aggregate(one, fn) for one in a)
        return type(a)(*mapped) if hasattr(a, "_fields") else mapped
    if isinstance(a, list):
        return [map_aggregate(one, fn) for one in a]
    if isinstance(a, dict):
        return {key: map_aggregate(one, fn) for key, one in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(one, fn) for one in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """fn of every Node in nested arguments."""
    return map_aggregate(a, lambda one: fn(one) if isinstance(one, Node) else one)


def qualified_name(function: Any) -> str:
    """Where a function is found, `torch.` standing for this package."""
    name: str = function.__name__
    if vars(builtins).get(name) is function:
        return name
    for home, path in ((flambeau, "torch"), (flambeau.nn.functional, "torch.nn.functional")):
        if getattr(home, name, None) is function:
            return f"{path}.{name}"
    if getattr(flambeau.Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    module = getattr(function, "__module__", None) or "builtins"
    name = getattr(function, "__qualname__", name) if "<" not in function.__qualname__ else name
    if module == "flambeau" or module.startswith("flambeau."):
        module = "torch" + module[len("flambeau") :]
    return f"{module}.{name}"


class Node:
    """A step of a graph. Made by methods of Graph."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not one of {', '.join(OPS)}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{type(target)} but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self.users: dict[Node, None] = {}
        self.type, self.meta = return_type, {}  # type: ignore[var-annotated]
        self._prev, self._next = self, self
        self._erased = False
        self._set(args, kwargs)

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments; nodes among them stand for their values."""
        return self._args

    @args.setter
    def args(self, value: tuple[Any, ...]) -> None:
        self._set(tuple(value), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments; nodes among them stand for their values."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, value: dict[str, Any]) -> None:
        self._set(self._args, dict(value))

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = args, kwargs, {}
        map_arg((args, kwargs), lambda node: self._input_nodes.setdefault(node))
        for new in self._input_nodes:
            new.users.setdefault(self)

    @property
    def stack_trace(self) -> str | None:
        """Where the program made this node, if the tracer has noted it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes whose values this one takes, each once."""
        return list(self._input_nodes)

    @property
    def next(self) -> Node:
        """The node that runs after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node that runs before this one."""
        return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Moves the node x before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._unlink()
        x._prev, x._next = self._prev, self
        self._prev._next, self._prev = x, x

    def append(self, x: Node) -> None:
        """Moves the node x behind this one."""
        self._next.prepend(x)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces a positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Inserts a positional argument."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replaces a keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Takes the value of another node instead of one."""
        swap = lambda node: new_input if node is old_input else node  # noqa: E731
        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Makes the users of this node use another; gives back those that were changed."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb(user):
                user.replace_input_with(self, replace_with)
                changed.append(user)
        return changed

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it must run even if nobody uses its value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            written = name.endswith("_") and not name.endswith("__")
            return self.target in _side_effectful or written
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        if self.op == "call_module":
            owner = self.graph.owning_module
            module = None if owner is None else owner.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def _pretty_target(self) -> str:
        if isinstance(self.target, str):
            return self.target
        if getattr(self.target, "__module__", None) == "_operator":
            return f"operator.{self.target.__name__}"
        return qualified_name(self.target)

    def format_node(self, placeholder_names: Any = None, maybe_return_typename: Any = None) -> str:
        """The node in a line, as graphs are printed."""
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            return (
                f"%{self.name} : {'[num_users=' + str(len(self.users)) + '] '}= "
                f"placeholder[target={self.target}]{default}"
            )
        if self.op == "get_attr":
            return f"%{self.name} : [num_users={len(self.users)}] = get_attr[target={self.target}]"
        if self.op == "output":
            return f"return {_percent(self.args[0])}"
        return (
            f"%{self.name} : [num_users={len(self.users)}] = {self.op}"
            f"[target={self._pretty_target()}](args = {_percent(self.args)}, "
            f"kwargs = {_percent(self.kwargs)})"
        )

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Node) -> bool:
        order = {node: at for at, node in enumerate(self.graph.nodes)}
        return order[self] < order[other]


class _Percent:
    def __init__(self, node: Node) -> None:
        self.text = f"%{node.name}"

    def __repr__(self) -> str:
        return self.text


def _percent(value: Any) -> str:
    return str(map_arg(value, _Percent))
