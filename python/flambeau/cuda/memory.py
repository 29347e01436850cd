"""The memory of CUDA devices: what tensors use, and what the caching allocator holds for them."""

from __future__ import annotations

import collections

from flambeau import _C
from flambeau.cuda._device import device_index, is_initialized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the driver, for other programs."""
    if is_initialized():
        _C._cuda_empty_cache()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The allocator's numbers for a device; empty as long as no device has been used."""
    if not is_initialized():
        return collections.OrderedDict()
    numbers = _C._cuda_memory_statistics(device_index(device))
    return collections.OrderedDict(sorted(numbers.items()))


def memory_allocated(device: Any = None) -> int:
    """The bytes that tensors on a device use now."""
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors on a device used at a time since the last reset."""
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: Any = None) -> int:
    """The bytes that the allocator holds on a device, used or not."""
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held on a device since the last reset."""
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Lets the peaks start again from what is in use now."""
    _C._cuda_reset_peaks(device_index(device))


def reset_max_memory_allocated(device: Any = None) -> None:
    """The same as reset_peak_memory_stats."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """The same as reset_peak_memory_stats."""
    reset_peak_memory_stats(device)


def memory_cached(device: Any = None) -> int:
    """The older name of memory_reserved."""
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """The older name of max_memory_reserved."""
    return max_memory_reserved(device)


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """memory_stats, a dictionary for each part of its names."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *groups, last = name.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = value
    return nested


def get_allocator_backend() -> str:
    """The kind of the allocator of device memory: the library's own."""
    return "native"


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """The bytes that are free on a device, and those it has, as the driver counts them."""
    free, total = _C._cuda_memory_info(device_index(device))
    return free, total


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The allocator's numbers for a device as a table."""
    numbers = memory_stats(device)
    width = max((len(name) for name in numbers), default=0)
    return "\n".join(f"{name:<{width}}  {value:>16,}" for name, value in numbers.items())
