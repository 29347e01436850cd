"""The parts of TorchScript that have a meaning where functions run as they stand: what marks a
function for its compiler changes nothing here, and nothing is ever scripted or recorded.

Files of TorchScript hold programs of its own language, which are not run: `load` reads the modules
around them, with their parameters and buffers; `save` says that it is not here.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Final, NamedTuple

# The module: `annotations` is a feature of __future__ otherwise.
import flambeau.jit.annotations
from flambeau import nn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class ScriptModule(nn.Module):
    """A compiled module in PyTorch; here a base class like nn.Module."""


class ScriptFunction:
    """A compiled function, of which there are none: isinstance says no."""


class CompilationUnit:
    """Compiled text, which there is not."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "torch.jit.CompilationUnit: Flambeau does not compile TorchScript"
        )


Error = RuntimeError


class Attribute(NamedTuple):
    """A value of a module and its type, which a compiler would be told."""

    value: Any
    type: Any


class TracerWarning(Warning):
    """What tracing a function would warn of."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Silences this warning."""
        warnings.filterwarnings("ignore", category=TracerWarning)


def is_scripting() -> bool:
    """False: this line is being run by Python."""
    return False


def is_tracing() -> bool:
    """False: no call is being recorded."""
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, whose type a compiler would be told."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether `obj` is of a type such as list[int]: the elements are looked at, too."""
    return _matches(obj, target_type)


def _matches(obj: Any, kind: Any) -> bool:
    import builtins
    import types
    import typing

    if builtins.isinstance(kind, tuple):
        return any(_matches(obj, one) for one in kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return builtins.isinstance(obj, kind)
    if origin is typing.Union or origin is types.UnionType:
        return any(_matches(obj, one) for one in arguments)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        key, value = arguments
        return all(_matches(k, key) and _matches(v, value) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(arguments) and all(map(_matches, obj, arguments))
    return all(_matches(item, arguments[0]) for item in obj)


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function, or a decorator that gives it back."""
    return drop if callable(drop) else lambda function: function


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function."""
    return fn


def interface(obj: Any) -> Any:
    """The class."""
    return obj


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself: what it computes is the same scripted or not, and here
    Python runs it. It cannot be saved without its source.
    """
    if not callable(obj):
        raise RuntimeError(f"script: expected a function, class or module, got {type(obj)}")
    return obj


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method."""
    return fn


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """The function or module itself, after calling it with the example inputs.

    In PyTorch the call is recorded, and what was recorded runs from then on: choices that the
    function made are frozen. Here Python goes on running the function, so that it chooses each
    time.
    """
    import flambeau

    inputs = example_inputs
    if inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("trace: expected example_inputs or example_kwarg_inputs")
    if inputs is None:
        inputs = ()
    elif not (_is(inputs, tuple) or _is(inputs, list)):
        inputs = (inputs,)
    keywords = example_kwarg_inputs or {}
    with flambeau.no_grad():
        func(*inputs, **keywords)
    return func


def _is(value: Any, kind: type) -> bool:
    import builtins

    return builtins.isinstance(value, kind)


def trace_module(mod: Any, inputs: dict[str, Any], **kwargs: Any) -> Any:
    """The module itself, after calling each method that `inputs` names."""
    for method, given in inputs.items():
        function = mod if method == "forward" else getattr(mod, method)
        trace(function, given)
    return mod


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """The module itself, which must be in eval mode."""
    if getattr(mod, "training", False):
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            "on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself."""
    return mod


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Refuses: the files hold programs in TorchScript's language."""
    raise NotImplementedError(
        "torch.jit.save: Flambeau does not write TorchScript files, which hold compiled programs; "
        "exchange state_dict()s with flambeau.save and flambeau.load"
    )


def load(f: Any, map_location: Any = None, _extra_files: Any = None, **kwargs: Any) -> Any:
    """The module of a TorchScript file: its state_dict() can be loaded, its program not be run.

    Args:
        f: a path, or a file object opened for reading bytes that can seek.
        map_location: where storages go, as in `flambeau.load`.
        _extra_files: a dict whose values become the text of the file's records of these names.
    """
    from flambeau.jit._files import load as load_file

    return load_file(f, map_location, _extra_files)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A Future of what the function returns; it is called at once."""
    from flambeau.futures import Future

    future = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def wait(future: Any) -> Any:
    """What a Future holds."""
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A context that chooses a compiler, of which there is none."""
    yield


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A context that lets a compiler optimize, of which there is none."""
    yield


class strict_fusion:
    """A context that complains where a compiler could not fuse; nothing is compiled."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        return None


def onednn_fusion_enabled() -> bool:
    """False: there is no compiler that would fuse."""
    return False


def enable_onednn_fusion(enabled: bool) -> None:
    """Sets what a compiler may fuse, of which there is none."""


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Sets how often a compiler specializes, of which there is none; gives the one before."""
    return []


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function: it would be scripted while a call of it is traced, which never happens."""
    return fn


_script_if_tracing = script_if_tracing


def _overload(func: Callable[..., Any]) -> Callable[..., Any]:
    return func


_overload_method = _overload


def _get_trace_graph(*args: Any, **kwargs: Any) -> Any:
    """Would give the graph of a call in TorchScript's form."""
    raise NotImplementedError(
        "torch.jit._get_trace_graph: Flambeau has no TorchScript graphs; torch.fx traces modules, "
        "and torch.utils.flop_counter counts their operations"
    )
