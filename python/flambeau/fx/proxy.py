"""What stands for a value while a program is traced: everything done with it becomes a node."""

from __future__ import annotations

import dis
import inspect
import operator
import os
import traceback

import flambeau
from flambeau.fx.node import Node, map_aggregate
from flambeau.overrides import is_tensor_method_or_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from flambeau.fx.graph import Graph

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]


# What the library does itself is no part of a program's stack.
_HOME = os.path.dirname(flambeau.__file__) + os.sep


class TraceError(ValueError):
    """A program does something with a value that cannot be recorded."""


class TracerBase:
    """Turns what is done with proxies into nodes of a graph."""

    graph: Graph
    # The modules whose forward is running, outermost first: their paths and classes by path. It is
    # replaced, never written into.
    module_stack: Mapping[str, tuple[str, type]] = {}
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Adds a node to the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces:
            outside = [f for f in traceback.extract_stack() if not f.filename.startswith(_HOME)]
            node.stack_trace = "".join(traceback.StackSummary.from_list(outside).format())
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Proxy:
        """Adds a node; gives back what stands for its value."""
        node = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as a node holds it: nodes in the place of proxies."""
        return map_aggregate(a, self._create_leaf)

    def _create_leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        return a

    def to_bool(self, obj: Proxy) -> bool:
        """Called where the program asks whether a value is true."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called where the program loops over a value."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument."
        )

    def keys(self, obj: Proxy) -> Any:
        """Called where the program asks for the keys of a value."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds what is done with proxies to the end of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        # a, b = proxy is told by the instruction that asks for the iterator.
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        caller = frame.f_back
        for instruction in dis.get_instructions(caller.f_code):
            if instruction.offset == caller.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
                return iter([self[i] for i in range(instruction.argval)])
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __index__(self) -> int:
        raise TraceError("a traced value has no number yet, and cannot be an index of Python's")

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """The keys of the value, for ** in a call."""
        return self.tracer.keys(self)

    def __getitem__(self, index: Any) -> Any:
        return self._function(operator.getitem, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._function(operator.setitem, index, value)

    def _function(self, function: Any, *others: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, *others), {})

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tracers: list[TracerBase] = []
        map_aggregate(
            (args, kwargs), lambda a: tracers.append(a.tracer) if isinstance(a, Proxy) else None
        )
        name = getattr(orig_method, "__name__", "")
        if is_tensor_method_or_property(orig_method):
            if name == "__get__":
                owner = orig_method.__self__
                return tracers[0].create_proxy(
                    "call_function", getattr, (args[0], owner.__name__), {}
                )
            return tracers[0].create_proxy("call_method", name, args, kwargs)
        return tracers[0].create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """An attribute of a value; a method if it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node, made when the attribute is used otherwise than by calling it."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _define_operators() -> None:
    """Gives Proxy the methods of Python's operators."""

    def binary(function: Any) -> Any:
        return lambda self, other: self._function(function, other)

    def reflected(function: Any) -> Any:
        return lambda self, other: self.tracer.create_proxy(
            "call_function", function, (other, self), {}
        )

    def unary(function: Any) -> Any:
        return lambda self: self._function(function)

    from flambeau.fx._code import INFIX, PREFIX

    for name, sign in INFIX.items():
        setattr(Proxy, f"__{name.rstrip('_')}__", binary(getattr(operator, name)))
        if sign not in "== != <= >=":  # a comparison is reflected as another one
            setattr(Proxy, f"__r{name.rstrip('_')}__", reflected(getattr(operator, name)))
    for name in (*PREFIX, "abs"):
        setattr(Proxy, f"__{name}__", unary(getattr(operator, name)))
    Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


_define_operators()


def is_functional(name: str, value: Any) -> bool:
    """Whether a name of nn.functional is a function that tracing records as one node."""
    return (
        callable(value) and name[0] != "_" and not isinstance(value, type) and value is not flambeau
    )
