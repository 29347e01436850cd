"""autocast: within it, ops that gain by it compute in half precision, and those that would lose
too much in single precision.

It is a mode (see flambeau.overrides): while one is active, every op passes by with its arguments.
Backward runs in the dtypes that forward chose.
"""

from __future__ import annotations

import functools
import threading
import warnings

import flambeau
from flambeau import _C
from flambeau.amp._policy import POLICIES, cast_arguments, eligible, mapped
from flambeau.overrides import TorchFunctionMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

_DEFAULT_DTYPES = {"cpu": flambeau.bfloat16, "cuda": flambeau.float16}


class _State(threading.local):
    """What autocast does in this thread."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = dict.fromkeys(_DEFAULT_DTYPES, False)
        self.dtypes = dict(_DEFAULT_DTYPES)
        self.cache_enabled = True
        # Parameters that were cast, kept beside their casts: while they are, ids are not reused.
        self.casts: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.depth = 0
        self.active = False

    def cast(self, tensor: Any, dtype: Any) -> Any:
        """A tensor of another dtype; a parameter is cast once within the outermost autocast."""
        if not (self.cache_enabled and tensor.is_leaf and tensor.requires_grad):
            return tensor.to(dtype)
        # What was cast where nothing is recorded has no history, and is of no use where it is.
        key = (id(tensor), dtype, _C.is_grad_enabled(), _C.is_inference_mode_enabled())
        if key not in self.casts:
            self.casts[key] = (tensor, tensor.to(dtype))
        return self.casts[key][1]


_state = _State()


class _Mode(TorchFunctionMode):
    """Hands the arguments of each op to its policy."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        enabled = {kind: _state.dtypes[kind] for kind, on in _state.enabled.items() if on}
        if enabled:
            name = getattr(func, "__name__", "")
            inside = getattr(func, "__wrapped__", None)
            # What is made of other ops has no policy: those have.
            if (
                inside is not None
                and not any(name in table for table in POLICIES.values())
                and not _C._has_torch_function((*args, *kwargs.values()))
            ):
                with self:
                    return inside(*args, **kwargs)
            args, kwargs = cast_arguments(name, args, kwargs, enabled, _state.cast)
        return func(*args, **kwargs)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an autocast for a kind of device; its number does not matter."""
    return device_type.split(":")[0] in POLICIES


# Devices that PyTorch casts on and for which there are no kernels here.
_OTHER_DEVICES = frozenset({"hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu"})


def _checked_device(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if not is_autocast_available(device_type):
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device_type.split(":")[0]


class autocast:
    """A context, or a decorator, in which ops choose their dtype.

    Args:
        device_type: "cpu" or "cuda"; ops on other devices are left alone.
        dtype: the low precision, by default bfloat16 on the CPU and float16 on CUDA.
        enabled: False for a part that is to compute in the dtypes of its inputs.
        cache_enabled: whether parameters are cast once for all uses.
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _checked_device(device_type)
        self.fast_dtype = _state.dtypes[self.device] if dtype is None else dtype
        self._cache_enabled = _state.cache_enabled if cache_enabled is None else cache_enabled
        if self.device == "cuda" and enabled and not flambeau.cuda.is_available():
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                stacklevel=2,
            )
            enabled = False
        if enabled and self.fast_dtype not in (flambeau.bfloat16, flambeau.float16):
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. "
                f"Disabling autocast.\n{self.device.upper()} Autocast only supports dtypes of "
                "torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[Any, ...]] = []

    def __enter__(self) -> autocast:
        mode = None
        if self._enabled and not _state.active:
            mode = _Mode()
            mode.__enter__()
            _state.active = True
        self._before.append(
            (_state.enabled[self.device], _state.dtypes[self.device], _state.cache_enabled, mode)
        )
        _state.enabled[self.device] = self._enabled
        _state.dtypes[self.device] = self.fast_dtype
        _state.cache_enabled = self._cache_enabled
        _state.depth += 1
        return self

    def __exit__(self, *exception: Any) -> None:
        enabled, dtype, cache_enabled, mode = self._before.pop()
        _state.enabled[self.device], _state.dtypes[self.device] = enabled, dtype
        _state.cache_enabled = cache_enabled
        _state.depth -= 1
        if _state.depth == 0:
            clear_autocast_cache()
        if mode is not None:
            mode.__exit__(*(exception or (None, None, None)))
            _state.active = False

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. To use it "
                f"as a context manager, write `with torch.autocast({self.device!r}):`"
            )

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated


# Functions of the top-level namespace -------------------------------------------------------------
def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a kind of device; without one, for CUDA."""
    if device_type in _OTHER_DEVICES:
        return False
    return _state.enabled[_checked_device("cuda" if device_type is None else device_type)]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turns autocast on or off for a kind of device, in this thread."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _state.enabled[_checked_device(device_type)] = bool(enabled)
    if enabled and not _state.active:
        _Mode().__enter__()
        _state.active = True


def get_autocast_dtype(device_type: str) -> Any:
    """The low precision of autocast for a kind of device."""
    return _state.dtypes[_checked_device(device_type)]


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Sets the low precision of autocast for a kind of device."""
    _state.dtypes[_checked_device(device_type)] = dtype


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    return is_autocast_enabled("cpu")


def get_autocast_gpu_dtype() -> Any:
    """The low precision of autocast for CUDA."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype() -> Any:
    """The low precision of autocast for the CPU."""
    return get_autocast_dtype("cpu")


def is_autocast_cache_enabled() -> bool:
    """Whether parameters are cast once for all uses."""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets whether parameters are cast once for all uses."""
    _state.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forgets the parameters that were cast."""
    _state.casts.clear()


# Functions with a backward of their own -----------------------------------------------------------
def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    """A value, or a collection of values, whose tensors that autocast would cast have a dtype."""
    return mapped(value, lambda t: t.to(dtype) if eligible(t, device_type) else t)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Any:
    """Decorates forward of a Function: notes whether autocast is on, for `custom_bwd`.

    With `cast_inputs`, floating-point inputs are cast to that dtype and autocast is off within.
    """
    _checked_device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    function: Callable[..., Any] = fwd

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        context._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return function(*args, **kwargs)

        with autocast(device_type, enabled=False):
            return function(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates backward of a Function: runs it with autocast as forward had it."""
    _checked_device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    function: Callable[..., Any] = bwd

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        used, dtype = context._fwd_used_autocast, context._dtype
        with autocast(device_type=device_type, enabled=used, dtype=dtype):
            return function(*args, **kwargs)

    return decorated
