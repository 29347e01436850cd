"""autocast: within it, ops that gain by it compute in half precision, and those that would lose
too much in single precision.

The core does it (flambeau/ops/layers/autocast.h); here are the contexts. Backward runs in the
dtypes that forward chose.
"""

from __future__ import annotations

import functools
import warnings

import flambeau
from flambeau import _C, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """Whether there is an autocast for a kind of device; its number does not matter."""
    return _C._is_autocast_available(device_type)


def _checked_device(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if not is_autocast_available(device_type):
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    return device_type.split(":")[0]


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """A function that runs within a context."""

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


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
        self.fast_dtype = _C.get_autocast_dtype(self.device) if dtype is None else dtype
        if cache_enabled is None:
            cache_enabled = _C.is_autocast_cache_enabled()
        self._cache_enabled = cache_enabled
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
        self._enabled = bool(enabled)
        self._before: list[tuple[Any, ...]] = []

    def __enter__(self) -> autocast:
        self._before.append(
            (
                _C.is_autocast_enabled(self.device),
                _C.get_autocast_dtype(self.device),
                _C.is_autocast_cache_enabled(),
            )
        )
        _C.set_autocast_enabled(self.device, self._enabled)
        _C.set_autocast_dtype(self.device, self.fast_dtype)
        _C.set_autocast_cache_enabled(self._cache_enabled)
        _C.autocast_increment_nesting()
        return self

    def __exit__(self, *exception: Any) -> Literal[False]:
        enabled, dtype, cache_enabled = self._before.pop()
        if _C.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
        _C.set_autocast_enabled(self.device, enabled)
        _C.set_autocast_dtype(self.device, dtype)
        _C.set_autocast_cache_enabled(cache_enabled)
        return False

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. To use it "
                f"as a context manager, write `with torch.autocast({self.device!r}):`"
            )
        return autocast_decorator(self, func)


def cast(value: Any, device_type: str, dtype: Any) -> Any:
    """A value, or a collection of values, whose tensors that autocast would cast have a dtype."""
    if isinstance(value, Tensor):
        double = value.dtype == flambeau.float64
        fits = value.is_floating_point() and not double and value.device.type == device_type
        return value.to(dtype) if fits else value
    if type(value) in (list, tuple):
        return type(value)(cast(item, device_type, dtype) for item in value)
    if type(value) is dict:
        return {key: cast(item, device_type, dtype) for key, item in value.items()}
    return value


# Functions with a backward of their own -----------------------------------------------------------


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
        context._dtype = _C.get_autocast_dtype(device_type)
        enabled = _C.is_autocast_enabled(device_type)
        context._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return function(*args, **kwargs)

        with autocast(device_type, enabled=False):
            return function(
                *cast(args, device_type, cast_inputs), **cast(kwargs, device_type, cast_inputs)
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
