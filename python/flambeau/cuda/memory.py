"""The memory of CUDA devices: what tensors use, and what the caching allocator holds for them."""

from __future__ import annotations

import collections
import contextlib
import os

from flambeau import _C
from flambeau.cuda._device import current_device, device_index, is_initialized
from flambeau.cuda.streams import Stream
from flambeau.cuda.streams import stream as stream_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "CUDAPluggableAllocator",
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "change_current_allocator",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


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


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Lets the totals of what was ever allocated and freed start again from zero."""
    _C._cuda_reset_accumulated(device_index(device))


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
    return _nested(memory_stats(device))


def _nested(numbers: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in numbers.items():
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


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Lets the allocator hold no more than a fraction of a device's memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    index = device_index(device)
    _C._cuda_set_memory_limit(index, int(fraction * mem_get_info(index)[1]))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The fraction of a device's memory that the allocator may hold."""
    index = device_index(device)
    return float(_C._cuda_memory_limit(index) / mem_get_info(index)[1])


# --- Tables and pictures -------------------------------------------------------------------------

# What a line of the summary is called, its number in memory_stats, and whether that is in bytes.
_SUMMARY = (
    ("Allocated memory", "allocated_bytes", True),
    ("Active memory", "active_bytes", True),
    ("Requested memory", "requested_bytes", True),
    ("GPU reserved memory", "reserved_bytes", True),
    ("Non-releasable memory", "inactive_split_bytes", True),
    ("Allocations", "allocation", False),
    ("Active allocs", "active", False),
    ("GPU reserved segments", "segment", False),
    ("Non-releasable allocs", "inactive_split", False),
)


def _in_units(value: int, is_bytes: bool) -> str:
    units = ("B  ", "KiB", "MiB", "GiB", "TiB") if is_bytes else ("   ", "K  ", "M  ")
    step = 1024 if is_bytes else 1000
    power = 0
    while value >= 10 * step and power + 1 < len(units):
        value //= step
        power += 1
    return f"{value:7d} {units[power]}"


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The allocator's numbers for a device as a table.

    Args:
        device: the device, by default the current one.
        abbreviated: whether to leave out the lines of small and large blocks.
    """
    numbers = memory_stats(device)
    index = device_index(device)
    index = current_device() if index < 0 else index
    width = 75
    full, thin = "|" + "=" * width + "|", "|" + "-" * width + "|"
    head = f"Flambeau CUDA memory summary, device ID {index}"
    failures = (
        f"CUDA OOMs: {numbers.get('num_ooms', 0):<12d}"
        f"cudaMalloc retries: {numbers.get('num_alloc_retries', 0):<8d}"
    )
    columns = ("Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")
    title = f" {columns[0]:^21} | " + " | ".join(f"{name:^10} " for name in columns[1:])
    lines = [full, f"|{head:^{width}}|", thin, f"|{failures:^{width}}|", full, f"|{title}|"]
    pools = (("all", None),) if abbreviated else _POOLS
    for label, key, is_bytes in _SUMMARY:
        lines.append(thin)
        for pool, indented in pools:
            values = [
                numbers.get(f"{key}.{pool}.{part}", 0)
                for part in ("current", "peak", "allocated", "freed")
            ]
            name = label if indented is None else indented
            cells = " | ".join(_in_units(value, is_bytes) for value in values)
            lines.append(f"| {name:<21} | {cells} |")
    return "\n".join([*lines, full]) + "\n"


_POOLS = (
    ("all", None),
    ("large_pool", "      from large pool"),
    ("small_pool", "      from small pool"),
)


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """All segments of memory on all devices, and the blocks in them.

    Args:
        mempool_id: only those of a pool.
    """
    from flambeau.cuda._device import device_count

    segments = []
    for index in range(device_count() if is_initialized() else 0):
        for segment in _C._cuda_memory_snapshot(index):
            if mempool_id is not None and segment["segment_pool_id"] != tuple(mempool_id):
                continue
            segment["frames"] = []
            for block in segment["blocks"]:
                op = block.pop("op")
                block["frames"] = [{"name": op, "filename": "", "line": 0}] if op else []
            segments.append(segment)
    return segments


def _record_memory_history(
    enabled: Any = "all", context: Any = "all", stacks: str = "all", max_entries: int = 2**31 - 1,
    device: Any = None, clear_history: bool = False, **_: Any,
) -> None:  # fmt: skip
    """Starts to keep a list of allocations and frees for _snapshot(); None ends it."""
    from flambeau.cuda._device import device_count

    on = enabled not in (None, False)
    for index in range(device_count()):
        _C._cuda_record_history(index, max_entries if on else 0)


def _snapshot(device: Any = None, **_: Any) -> dict[str, Any]:
    """The segments of memory, and, where it is recorded, what happened to them."""
    from flambeau.cuda._device import device_count

    traces = []
    for index in range(device_count()):
        events = _C._cuda_memory_history(index)
        for event in events:
            op = event.pop("op")
            event["frames"] = [{"name": op, "filename": "", "line": 0}] if op else []
        traces.append(events)
    return {
        "segments": memory_snapshot(),
        "device_traces": traces,
        "allocator_settings": {"expandable_segments": True},
        "external_annotations": [],
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes _snapshot() to a file, for PyTorch's page that draws it."""
    import pickle

    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


# --- Raw memory and pools ------------------------------------------------------------------------

_raw_devices: dict[int, int] = {}  # of blocks that a program holds by their address


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of new memory on a device, for other libraries that use it in a stream."""
    index = device_index(device)
    index = current_device() if index < 0 else index
    if isinstance(stream, int):
        from flambeau.cuda.streams import ExternalStream

        stream = ExternalStream(stream, index)
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(
            "Invalid type for stream argument, must be `torch.cuda.Stream` or `int` representing "
            "a pointer to a existing stream"
        )
    with stream_context(stream):
        address = int(_C._cuda_allocate(index, size))
    _raw_devices[address] = index
    return address


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees what caching_allocator_alloc gave."""
    _C._cuda_deallocate(_raw_devices.pop(mem_ptr, 0), mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Whether memory is cached is decided when the process starts, by an environment variable."""
    if not value:
        raise RuntimeError(
            "caching_allocator_enable(False): set FLAMBEAU_NO_CUDA_MEMORY_CACHING=1 before the "
            "first use of a device instead"
        )


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """A context without caching, which cannot be had while a process runs: raises."""
    caching_allocator_enable(False)
    yield


def _set_allocator_settings(env: str) -> None:
    """Settings in the form of PYTORCH_CUDA_ALLOC_CONF, before the first use of a device."""
    if is_initialized() and env.replace(" ", "") not in ("", "expandable_segments:True"):
        raise RuntimeError(
            f"_set_allocator_settings({env!r}): the allocator is in use; set "
            "PYTORCH_CUDA_ALLOC_CONF, or call this, before the first use of a device"
        )
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = env


class CUDAPluggableAllocator:
    """An allocator out of somebody's library. Not supported."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        raise NotImplementedError("CUDAPluggableAllocator: allocators cannot be replaced")


def change_current_allocator(allocator: Any) -> None:
    """Replaces the allocator of device memory. Not supported."""
    raise NotImplementedError("change_current_allocator: allocators cannot be replaced")


class MemPool:
    """Memory of its own: what is allocated within use_mem_pool comes from it and goes back to it.

    Args:
        allocator: must be None: the pool is the library's own.
        use_on_oom: accepted; the memory of pools that nobody holds is used anyway.
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, **_: Any) -> None:
        if allocator is not None:
            raise NotImplementedError("MemPool: allocators cannot be replaced")
        self._id = _C._cuda_new_pool(False)
        self._device = current_device()
        _C._cuda_retain_pool(self._device, self._id)

    def __del__(self) -> None:
        if hasattr(self, "_device"):
            _C._cuda_release_pool(self._device, self._id)

    @property
    def id(self) -> tuple[int, int]:
        """The pool's name."""
        capture, user = self._id
        return capture, user

    @property
    def allocator(self) -> None:
        """Whose allocator is used: None for the library's own."""
        return None

    def use_count(self) -> int:
        """How many hold the pool: this object, and the contexts that use it."""
        return int(_C._cuda_pool_users(self._device, self._id))

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """The segments of the pool."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """A context in which this thread's memory on a device comes from a pool."""
    index = device_index(device)
    index = current_device() if index < 0 else index
    _C._cuda_use_pool(index, pool.id)
    try:
        yield
    finally:
        _C._cuda_leave_pool(index, pool.id)


# --- The host's memory ---------------------------------------------------------------------------


def host_memory_stats() -> dict[str, Any]:
    """The numbers of page-locked memory; empty as long as no device has been used."""
    if not is_initialized():
        return collections.OrderedDict()
    return collections.OrderedDict(sorted(_C._cuda_host_statistics().items()))


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """host_memory_stats, a dictionary for each part of its names."""
    return _nested(host_memory_stats())


def reset_accumulated_host_memory_stats() -> None:
    """Lets the totals of host_memory_stats start again from zero."""
    _C._cuda_reset_host_statistics(False)


def reset_peak_host_memory_stats() -> None:
    """Lets the peaks of host_memory_stats start again from what is in use now."""
    _C._cuda_reset_host_statistics(True)


# --- Other programs ------------------------------------------------------------------------------


def list_gpu_processes(device: Any = None) -> str:
    """The programs that use a device and the memory they hold, as a text."""
    from flambeau.cuda import _management

    index = device_index(device)
    index = current_device() if index < 0 else index
    lines = [f"GPU:{index}"]
    processes = _management.processes(index)
    if not processes:
        lines.append("no processes are running")
    for pid, used in processes:
        lines.append(f"process {pid:>10d} uses {used / 2**20:>12.3f} MB GPU memory")
    return "\n".join(lines)
