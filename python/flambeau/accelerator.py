"""The accelerator of this machine, whichever kind it is: CUDA, or none."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is one."""
    return flambeau.cuda.is_available()


def device_count() -> int:
    """How many there are."""
    return flambeau.cuda.device_count() if is_available() else 0


def current_accelerator(check_available: bool = False) -> Any:
    """The kind of device, without a number; None where there is none."""
    return flambeau.device("cuda") if is_available() else None


def _needed(name: str) -> Any:
    """The module of the accelerator."""
    if not is_available():
        raise RuntimeError(f"{name}: Cannot access accelerator device when none is available.")
    return flambeau.cuda


def current_device_index() -> int:
    """The number of the current device."""
    return _needed("current_device_index").current_device()


def set_device_index(device: Any, /) -> None:
    """Makes a device the current one."""
    _needed("set_device_index").set_device(device)


def current_stream(device: Any = None, /) -> Any:
    """The current stream of a device."""
    return _needed("current_stream").current_stream(device)


def set_stream(stream: Any) -> None:
    """Makes a stream the current one."""
    _needed("set_stream").set_stream(stream)


def synchronize(device: Any = None, /) -> None:
    """Waits for all work on a device."""
    _needed("synchronize").synchronize(device)


def empty_cache() -> None:
    """Gives memory that is kept for later back to the device, where there is one."""
    if is_available():
        flambeau.cuda.empty_cache()


def empty_host_cache() -> None:
    """Gives page-locked memory of the host that no tensor uses back to the system."""
    if flambeau.cuda.is_initialized():
        flambeau._C._cuda_empty_host_cache()


def get_memory_info(device: Any = None, /) -> tuple[int, int]:
    """The free and the whole memory of a device, in bytes."""
    return _needed("get_memory_info").mem_get_info(device)


def memory_allocated(device: Any = None, /) -> int:
    """How many bytes tensors hold."""
    return flambeau.cuda.memory_allocated(device) if is_available() else 0


def max_memory_allocated(device: Any = None, /) -> int:
    """How many bytes tensors held at most."""
    return flambeau.cuda.max_memory_allocated(device) if is_available() else 0


def memory_reserved(device: Any = None, /) -> int:
    """How many bytes are held, for tensors or for later."""
    return flambeau.cuda.memory_reserved(device) if is_available() else 0


def max_memory_reserved(device: Any = None, /) -> int:
    """How many bytes were held at most."""
    return flambeau.cuda.max_memory_reserved(device) if is_available() else 0


def memory_stats(device: Any = None, /) -> dict[str, Any]:
    """All that is counted about memory; nothing where there is no device."""
    return dict(flambeau.cuda.memory_stats(device)) if is_available() else {}


def reset_peak_memory_stats(device: Any = None, /) -> None:
    """Counts the most that is held anew from here on."""
    if is_available():
        flambeau.cuda.reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Any = None, /) -> None:
    """Counts what was taken and given back anew from here on."""
    if is_available():
        flambeau.cuda.reset_accumulated_memory_stats(device)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What a device can compute with: the dtypes, under "supported_dtypes"."""
    _needed("get_device_capability")
    return {"supported_dtypes": {x for x in vars(flambeau).values() if type(x) is flambeau.dtype}}


# Their names before PyTorch 2.7.
current_device_idx = current_device_index
set_device_idx = set_device_index


class device_index:
    """A context in which a device is the current one; None leaves it as it is."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self._before = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self._before = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *exception: Any) -> None:
        if self.idx is not None:
            set_device_index(self._before)
