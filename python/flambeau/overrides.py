"""`__torch_function__`: classes that take over operations on their instances, and modes that take
over all.

An operation asks each class among its arguments, subclasses before their bases and otherwise from
left to right, until one does not answer NotImplemented. The core does this for ops; the functions
here do it for functions written in Python.
"""

from __future__ import annotations

import contextlib
import functools

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

_MISSING = object()


def _overrides(value: Any) -> bool:
    kind = type(value)
    if kind is flambeau.Tensor:
        return False
    method = getattr(kind, "__torch_function__", _MISSING)
    return method is not _MISSING and method is not _C._disabled_torch_function_impl


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any of the arguments, or a mode that is active, takes over."""
    return _C._has_torch_function(relevant_args)


def has_torch_function_unary(obj: Any) -> bool:
    """has_torch_function for one argument."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """has_torch_function for its arguments."""
    return has_torch_function(args)


def _get_overloaded_args(relevant_args: Iterable[Any]) -> list[Any]:
    """One argument of each class that takes over, in the order in which they are asked."""
    chosen: list[Any] = []
    for arg in relevant_args:
        if not _overrides(arg) or any(type(arg) is type(other) for other in chosen):
            continue
        # A subclass goes before its first base; everything else at the end.
        position = len(chosen)
        for index, other in enumerate(chosen):
            if issubclass(type(arg), type(other)):
                position = index
                break
        chosen.insert(position, arg)
    return chosen


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls what takes over `public_api`: the innermost mode, then the classes of `relevant_args`.

    Args:
        public_api: the function that was called.
        relevant_args: its arguments that may take over.
        args, kwargs: all its arguments.
    """
    overloaded = _get_overloaded_args(relevant_args)
    types = tuple(map(type, overloaded))
    if _C._len_torch_function_stack() > 0:
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for arg in overloaded:
        result = type(arg).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    tried = [type(arg) for arg in overloaded]
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: {tried}"
    )


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a Python function so that it can be taken over.

    Args:
        dispatcher: takes the arguments of the function and gives those that may take over.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant_args = dispatcher(*args, **kwargs)
            if has_torch_function(relevant_args):
                return handle_torch_function(wrapped, relevant_args, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether `inp` is a tensor or has a `__torch_function__`."""
    return isinstance(inp, flambeau.Tensor) or hasattr(inp, "__torch_function__")


# Modes --------------------------------------------------------------------------------------------
class TorchFunctionMode:
    """Inside `with mode:` every operation calls `mode.__torch_function__(func, types, args,
    kwargs)`.

    While that method runs, the mode itself is not active; those around it are.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        _C._push_on_torch_function_stack(self)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _C._pop_torch_function_stack()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _pop_mode_temporarily:
    """Takes the innermost mode off the stack for the length of a block."""

    def __enter__(self) -> Any:
        self.mode = _C._pop_torch_function_stack()
        return self.mode

    def __exit__(self, *args: object) -> None:
        _C._push_on_torch_function_stack(self.mode)


def _get_current_function_mode_stack() -> list[Any]:
    return [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]


def _get_current_function_mode() -> Any:
    stack = _get_current_function_mode_stack()
    return stack[-1] if stack else None


# What can be taken over ---------------------------------------------------------------------------


def _public_functions(namespace: Any) -> Iterator[tuple[str, Any]]:
    for name in dir(namespace):
        value = getattr(namespace, name, None)
        if name.startswith("_") or isinstance(value, type) or not callable(value):
            continue
        yield name, value


def _tensor_members() -> Iterator[tuple[str, Any]]:
    ignored = get_ignored_functions()
    for name in dir(flambeau.Tensor):
        value = getattr(flambeau.Tensor, name)
        if name == "__dict__" or value is getattr(object, name, None) or value.__hash__ is None:
            continue
        if value in ignored:
            continue
        if callable(value):
            yield name, value
        elif hasattr(value, "__get__"):
            yield f"{name}.__get__", value.__get__


@functools.lru_cache(None)
def _overridable() -> tuple[dict[Any, list[Any]], dict[Any, str]]:
    namespaces = [(flambeau, "torch"), (flambeau.nn.functional, "torch.nn.functional")]
    for name in ("linalg", "fft", "special"):
        if hasattr(flambeau, name):
            namespaces.append((getattr(flambeau, name), f"torch.{name}"))
    functions: dict[Any, list[Any]] = {}
    names: dict[Any, str] = {}
    ignored = get_ignored_functions()
    for namespace, prefix in namespaces:
        found = [
            (name, value) for name, value in _public_functions(namespace) if value not in ignored
        ]
        functions[namespace] = [value for _, value in found]
        for name, value in found:
            names.setdefault(value, f"{prefix}.{name}")
    members = list(_tensor_members())
    functions[flambeau.Tensor] = [value for _, value in members]
    for name, value in members:
        names.setdefault(value, f"torch.Tensor.{name}")
    return functions, names


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """By namespace, the functions that `__torch_function__` can take over."""
    return {namespace: list(found) for namespace, found in _overridable()[0].items()}


_IGNORED = """is_tensor is_storage set_default_dtype set_default_device get_default_dtype
set_printoptions manual_seed seed initial_seed get_rng_state set_rng_state is_grad_enabled
set_grad_enabled is_inference_mode_enabled no_grad enable_grad inference_mode save load typename
compile set_num_threads get_num_threads set_num_interop_threads get_num_interop_threads finfo iinfo
promote_types can_cast result_type from_numpy frombuffer
is_deterministic_algorithms_warn_only_enabled use_deterministic_algorithms
are_deterministic_algorithms_enabled set_default_tensor_type get_default_device get_file_path
set_float32_matmul_precision get_float32_matmul_precision vmap broadcast_shapes
set_flush_denormal"""
# What makes tensors out of none, and is no op of the core.
_CREATION = """as_tensor asarray from_file normal rand_like randint_like randn_like tensor vander
sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_csc_tensor sparse_csr_tensor
sparse_coo_tensor"""
_IGNORED_METHODS = """__new__ __init__ __init_subclass__ __torch_function__ __setstate__
_make_subclass as_subclass new new_empty new_empty_strided new_full new_ones new_tensor
new_zeros"""


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A context inside of `__torch_dispatch__` in which autograd records again."""
    with flambeau.enable_grad():
        yield


@functools.lru_cache(None)
def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions that are never handed to `__torch_function__`."""
    takes_tensors: dict[bool, set[str]] = {True: set(), False: set()}
    for row in _C._op_registry():
        tensors = any(word.startswith(("tensor", "operand")) for word in row["arguments"])
        takes_tensors[tensors].add(row["name"])
    creation = takes_tensors[False] - takes_tensors[True]
    names = [*f"{_IGNORED} {_CREATION}".split(), *creation]
    functions = [(flambeau, name) for name in names if not name.startswith("_")]
    methods = [(flambeau.Tensor, name) for name in _IGNORED_METHODS.split()]
    return {getattr(home, name) for home, name in functions + methods if hasattr(home, name)}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be taken over a stand-in that returns -1."""
    return {
        func: (lambda *args, **kwargs: -1) for found in _overridable()[0].values() for func in found
    }


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name under which users know a function that can be taken over, or None."""
    names = _overridable()[1]
    try:
        return names.get(f)
    except TypeError:  # `f` is not even hashable, so it is no function
        return None


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether `func` is a method of Tensor, or the getter of one of its properties."""
    return func in _overridable()[0][flambeau.Tensor] or getattr(func, "__name__", "") == "__get__"


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The getters of attributes whose tensors keep their class when a subclass is asked."""
    tensor = flambeau.Tensor
    names = ("_base", "grad", "_grad")
    return {getattr(tensor, name).__get__ for name in names if hasattr(tensor, name)}
