"""What `torch.cuda.amp` and `torch.cpu.amp` say of the names they had before `torch.amp`."""

from __future__ import annotations

import warnings

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def warn_older_name(name: str, device: str) -> None:
    """Tells the caller of the caller which name to use."""
    args = "args..., device_type=" if name.startswith("custom") else ""
    use = f"{name}({args}'{device}'{'' if args else ', args...'})"
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{use}` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )


def _warn(older: str, use: str) -> None:
    warnings.warn(
        f"torch.{older} is deprecated. Please use torch.{use} instead.",
        DeprecationWarning,
        stacklevel=3,
    )


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    _warn("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return _C.is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Turns autocast on or off for the CPU."""
    _warn("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    _C.set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """The low precision of autocast for the CPU."""
    _warn("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return _C.get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Sets the low precision of autocast for the CPU."""
    _warn("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    _C.set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """The low precision of autocast for CUDA."""
    _warn("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return _C.get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """Sets the low precision of autocast for CUDA."""
    _warn("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    _C.set_autocast_dtype("cuda", dtype)
