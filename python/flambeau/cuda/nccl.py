"""NVIDIA's library for communication between devices: whether it is there, and which it is."""

from __future__ import annotations

import ctypes

from flambeau.cuda import _libraries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_available", "version"]


def _library() -> Any:
    return _libraries.open_library("libnccl.so.2")


def is_available(tensors: Any = ()) -> bool:
    """Whether the library can be loaded, and the tensors, if any, are dense, contiguous and each on
    a device of its own.
    """
    devices = set()
    for tensor in tensors:
        if tensor.is_sparse or not tensor.is_contiguous() or not tensor.is_cuda:
            return False
        if tensor.get_device() in devices:
            return False
        devices.add(tensor.get_device())
    try:
        _library()
    except OSError:
        return False
    return True


def version() -> tuple[int, int, int]:
    """The version of the library: major, minor, patch."""
    number = ctypes.c_int()
    if _library().ncclGetVersion(ctypes.byref(number)) != 0:
        raise RuntimeError("NCCL does not tell its version")
    return number.value // 10000, number.value // 100 % 100, number.value % 100
