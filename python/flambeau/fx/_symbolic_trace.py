"""Records what a module does: its forward runs once, with proxies in the place of its inputs.

While it runs, calls of modules, of functions of nn.functional, of math and of functions that the
program has wrapped are noticed by what stands in for them; they are put back afterwards.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import math

import flambeau
import flambeau.overrides
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import map_aggregate
from flambeau.fx.proxy import Proxy, TracerBase, is_functional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any


__all__ = ["Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

# The globals and names of functions that programs have wrapped.
_wrapped: list[tuple[dict[str, Any], str]] = []
_tracing = 0


def is_fx_tracing() -> bool:
    """Whether a program is being traced."""
    return _tracing > 0


def wrap(fn_or_name: Any) -> Any:
    """Makes a function of the calling module one node of graphs; call it at the module's top level.

    Args:
        fn_or_name: the function, as by a decorator, or the name of a global.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    if frame.f_back.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((frame.f_back.f_globals, name))
    return fn_or_name


def _find_proxy(*values: Any) -> Proxy | None:
    """A proxy among nested values."""
    found: list[Proxy] = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, but a node where a proxy is among the arguments."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", function, args, kwargs)

    return call


class Tracer(TracerBase):
    """Records programs; override `is_leaf_module` to say which modules stay whole.

    Args:
        autowrap_modules: modules whose functions are recorded as one node.
        autowrap_functions: functions that are recorded as one node.
        param_shapes_constant: accepted for compatibility: shapes of parameters are always numbers.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_modules = list(autowrap_modules)
        self._autowrap = {
            id(value): value
            for module in autowrap_modules
            for name, value in vars(module).items()
            if name[0] != "_" and callable(value)
        }
        self._autowrap.update({id(function): function for function in autowrap_functions})
        self.root: Any = None
        self.tensor_attrs: dict[Any, str] = {}
        self._module_names: dict[int, str] = {}

    def __deepcopy__(self, memo: Any) -> Tracer:
        made = object.__new__(type(self))
        memo[id(self)] = made
        for name, value in vars(self).items():
            # Modules of Python and functions are what they are.
            shared = name in ("_autowrap_modules", "_autowrap")
            made.__dict__[name] = value if shared else copy.deepcopy(value, memo)
        return made

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a call of a module is one node; of those of flambeau.nn all but Sequential."""
        home = type(m).__module__
        own = home.startswith(("flambeau.nn", "flambeau.ao.nn", "torch.nn", "torch.ao.nn"))
        return own and not isinstance(m, flambeau.nn.Sequential)

    def path_of_module(self, mod: Any) -> str:
        """The name of a submodule within the root."""
        name = self._module_names.get(id(mod))
        if name is None:
            name = next((n for n, m in self.root.named_modules() if m is mod), None)
        if name is None:
            raise NameError("module is not installed as a submodule")
        return name

    def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        """Called where the program calls a module: a node, or what its forward does."""
        path = self.path_of_module(m)
        around = self.module_stack
        self.module_stack = {**around, path: (path, type(m))} if path else around
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.module_stack = around

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What an attribute of a module is while the program is traced: its value."""
        return attr_val

    def create_arg(self, a: Any) -> Any:
        """An argument as a node holds it; tensors become attributes of the module."""
        return map_aggregate(a, self._own_leaf)

    def _own_leaf(self, a: Any) -> Any:
        if isinstance(a, flambeau.nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, flambeau.Tensor):
            for name, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", name, (), {})
            return self.create_node("get_attr", self._constant(a), (), {})
        if isinstance(a, flambeau.nn.Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return self._create_leaf(a)

    def _constant(self, tensor: Any) -> str:
        """The attribute of the root that holds a tensor; a new one, if none does."""
        for name, value in vars(self.root).items():
            if value is tensor:
                return name
        count = 0
        while hasattr(self.root, f"_tensor_constant{count}"):
            count += 1
        setattr(self.root, f"_tensor_constant{count}", tensor)
        return f"_tensor_constant{count}"

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The function to run and its arguments: proxies, or values that were given for them."""
        function = inspect.unwrap(root_fn)
        args: list[Any] = [self.root] if is_module else []
        given = concrete_args or {}
        parameters = list(inspect.signature(function).parameters.values())[len(args) :]
        plain = not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
        for parameter in parameters:
            name = parameter.name
            stars: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
            target = stars.get(parameter.kind, "") + name
            default = () if parameter.default is parameter.empty else (parameter.default,)
            if name in given:
                # The input stays, so that calls look the same; its value is the one given here.
                self.create_proxy("placeholder", target, (given[name],), {})
                args.append(given[name])
                continue
            args.append(self.create_proxy("placeholder", target, default, {}))
        if plain:
            return function, args
        return _with_stars(function, parameters, len(args) - len(parameters)), args

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Runs a module or function with proxies; gives back the graph of what it did."""
        is_module = isinstance(root, flambeau.nn.Module)
        if is_module:
            function = getattr(type(root), self.traced_func_name)
            self.root = root
        else:
            function, self.root = root, flambeau.nn.Module()
        self._module_names = {id(m): name for name, m in self.root.named_modules()}
        self.graph = Graph(tracer_cls=type(self))
        # Functions of the library that are not written in Python have no globals.
        with self._noticing(getattr(inspect.unwrap(function), "__globals__", {})):
            function, args = self.create_args_for_root(function, is_module, concrete_args)
            result = function(*args)
            self.create_node("output", "output", (self.create_arg(result),), {})
        self._module_names = {}
        return self.graph

    @contextlib.contextmanager
    def _noticing(self, function_globals: dict[str, Any]) -> Iterator[None]:
        """Puts what records calls in place of what is called."""
        global _tracing
        # The table of what can be taken over is made once: not while others stand in its place.
        flambeau.overrides.get_overridable_functions()
        patches: list[tuple[dict[str, Any], str, Any]] = []

        def patch(names: dict[str, Any], name: str) -> None:
            patches.append((names, name, names[name]))
            names[name] = _recorded(names[name])

        for names in (function_globals, *(vars(module) for module in self._autowrap_modules)):
            for name, value in list(names.items()):
                if id(value) in self._autowrap and self._autowrap[id(value)] is value:
                    patch(names, name)
        functional = vars(flambeau.nn.functional)
        for name, value in list(functional.items()):
            if is_functional(name, value):
                patch(functional, name)
        for names, name in _wrapped:
            if name not in names:
                import builtins

                patches.append((names, name, _MISSING))
                names[name] = _recorded(getattr(builtins, name))
            else:
                patch(names, name)
        original = flambeau.nn.Module.__call__

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            forward = functools.partial(original, module)
            return self.call_module(module, forward, args, kwargs)

        flambeau.nn.Module.__call__ = call  # type: ignore[method-assign, assignment]
        _tracing += 1
        try:
            yield
        finally:
            _tracing -= 1
            del flambeau.nn.Module.__call__
            for names, name, value in reversed(patches):
                if value is _MISSING:
                    del names[name]
                else:
                    names[name] = value


_MISSING = object()


def _with_stars(function: Any, parameters: list[Any], leading: int) -> Callable[..., Any]:
    """A function of plain arguments that calls one with *args or **kwargs, which stay whole."""

    def call(*values: Any) -> Any:
        code = function.__code__
        plain = leading + len(
            [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        )
        keywords, rest, extra = {}, (), {}  # type: ignore[var-annotated]
        for parameter, value in zip(parameters[plain - leading :], values[plain:]):
            if parameter.kind == parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            elif parameter.kind == parameter.VAR_POSITIONAL:
                rest = value
            else:
                extra = value
        # Python would unpack *rest, which a proxy cannot be: the body takes the proxy itself.
        flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        count = code.co_argcount + code.co_kwonlyargcount
        stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(
            code.co_flags & inspect.CO_VARKEYWORDS
        )
        whole = code.replace(co_flags=flags, co_argcount=count + stars, co_kwonlyargcount=0)
        import types

        body = types.FunctionType(
            whole, function.__globals__, function.__name__, None, function.__closure__
        )
        names = code.co_varnames[code.co_argcount : count]
        ordered = [*values[:plain], *(keywords[name] for name in names)]
        if code.co_flags & inspect.CO_VARARGS:
            ordered.append(rest)
        if code.co_flags & inspect.CO_VARKEYWORDS:
            ordered.append(extra)
        return body(*ordered)

    return call


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A module that does what another module, or a function, does with its inputs.

    Args:
        root: the module or function.
        concrete_args: values of inputs that are not traced, by name.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, flambeau.nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
