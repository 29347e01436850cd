"""Settings for convolutions on CUDA, which cuDNN computes.

`benchmark` times several algorithms for each new shape and keeps the fastest, `deterministic`
leaves out those that give other results in another run, `allow_tf32` lets single precision be
multiplied with the ten bits of TF32. `conv.fp32_precision` and `rnn.fp32_precision` say that of
convolutions and recurrent layers apart, `fp32_precision` of both.
"""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager

from flambeau import _C, cuda
from flambeau.backends._flags import Precision, changed, everything

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["flags", "is_acceptable", "is_available", "set_flags", "version"]

enabled = True
benchmark = False
deterministic = False
benchmark_limit: int | None = 10


def is_available() -> bool:
    """Whether convolutions on CUDA can be computed."""
    return cuda.is_available()


def is_acceptable(tensor: Any) -> bool:
    """Whether `tensor` is one that convolutions on CUDA take."""
    return bool(enabled and is_available() and tensor.is_cuda and tensor.is_floating_point())


def version() -> int | None:
    """The version of cuDNN that is found, as 90600 for 9.6; None without a device or without it."""
    if not is_available():
        return None
    try:
        return int(cuda._libraries.open_library("libcudnn.so.9").cudnnGetVersion())
    except OSError:
        return None


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Sets what is not None; gives back all settings as they were before."""
    module = sys.modules[__name__]
    new = {
        "enabled": _enabled,
        "benchmark": _benchmark,
        "benchmark_limit": _benchmark_limit,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
    }
    before = tuple(getattr(module, name) for name in new)
    for name, value in new.items():
        if value is not None:
            setattr(module, name, value)
    return before


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """A context in which the settings are these."""
    return changed(
        sys.modules[__name__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
    )


_precision = Precision(everything)
conv = Precision(_precision, "tf32", "conv_tf32")
rnn = Precision(_precision, "tf32", "rnn_tf32")

_MODES = {"benchmark": "conv_benchmark", "deterministic": "deterministic"}


class _Settings(types.ModuleType):
    """This module, telling the core of settings that programs assign to."""

    @property
    def fp32_precision(self) -> str:
        return _precision.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        _precision.fp32_precision = value

    @property
    def allow_tf32(self) -> bool:
        if conv.allow_tf32 != rnn.allow_tf32:
            raise RuntimeError(
                "cudnn.allow_tf32: convolutions and recurrent layers have different precisions: ask"
                " cudnn.conv.fp32_precision and cudnn.rnn.fp32_precision"
            )
        return conv.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        conv.allow_tf32 = rnn.allow_tf32 = value

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _MODES:
            _C._set_math_mode(_MODES[name], bool(value))


sys.modules[__name__].__class__ = _Settings
