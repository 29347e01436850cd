"""CUDA devices, streams, events, memory and random numbers.

Importing this touches no driver: the library that does is loaded when a device is first used, or
asked for.
"""

from __future__ import annotations

import os

from flambeau import _C
from flambeau._namespace._interop import AcceleratorError
from flambeau._namespace._tensor_types import tensor_type
from flambeau._utils import _get_device_index
from flambeau.cuda import _libraries, graphs, memory, random, streams
from flambeau.cuda._device import (
    _CudaDeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    get_sync_debug_mode,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    set_sync_debug_mode,
    synchronize,
)
from flambeau.cuda._device import (
    _DeviceGuard as _DeviceGuard,
)
from flambeau.cuda._device import (
    _exchange_device as _exchange_device,
)
from flambeau.cuda._device import (
    _maybe_exchange_device as _maybe_exchange_device,
)
from flambeau.cuda._libraries import (
    CudaError,
    DeferredCudaCallError,
    check_error,
    cudart,
    cudaStatus,
    current_blas_handle,
    current_solver_handle,
)
from flambeau.cuda._management import (
    clock_rate,
    device_memory_used,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from flambeau.cuda.graphs import (
    CUDAGraph,
    export_dot,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from flambeau.cuda.memory import (
    CUDAPluggableAllocator,
    MemPool,
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_disabled,
    caching_allocator_enable,
    change_current_allocator,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from flambeau.cuda.random import (
    _get_generator as _get_generator,
)
from flambeau.cuda.random import (
    _get_rng_state_offset as _get_rng_state_offset,
)
from flambeau.cuda.random import (
    _set_rng_state_offset as _set_rng_state_offset,
)
from flambeau.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from flambeau.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OutOfMemoryError = _C.OutOfMemoryError
has_half = True
has_magma = False  # linear algebra is cuSOLVER's

__all__ = [
    "AcceleratorError",
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "CudaError",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "_CudaDeviceProperties",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "can_device_access_peer",
    "change_current_allocator",
    "check_error",
    "clock_rate",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_solver_handle",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "export_dot",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "power_draw",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]


def _sleep(cycles: int) -> None:
    """Keeps the current stream busy for so many cycles of the device's clock."""
    _C._cuda_sleep(cycles)


def _lazy_init() -> None:
    """Loads the CUDA library, or says why it cannot be used."""
    init()


def _lazy_call(callable: Callable[[], Any], **_: Any) -> None:
    """Calls a function that needs a device: at once, since using one is what initialises it."""
    if is_available():
        callable()


def _is_compiled() -> bool:
    """Whether there is a library for CUDA devices beside the core."""
    return bool(_C._cuda_is_loaded()) or device_count() > 0


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that uses a device: then it cannot use any."""
    return _in_bad_fork


_in_bad_fork = False


def _note_fork() -> None:
    global _in_bad_fork
    _in_bad_fork = bool(_C._cuda_is_loaded())


os.register_at_fork(after_in_child=_note_fork)
_C._set_vendor_folders(_libraries.wheel_folders())


# Imported when they are first asked for.
_LATE_MODULES = frozenset(
    "amp comm gds green_contexts jiterator nccl nvtx profiler sparse tunable".split()
)
_LATE_NAMES = {"GreenContext": "green_contexts", "_compile_kernel": "_nvrtc"}


def __getattr__(name: str) -> object:
    if name == "default_generators":
        return tuple(random.default_generator(index) for index in range(device_count()))
    if name in _LATE_MODULES:
        import importlib

        return importlib.import_module(f"flambeau.cuda.{name}")
    if name in _LATE_NAMES:
        import importlib

        return getattr(importlib.import_module(f"flambeau.cuda.{_LATE_NAMES[name]}"), name)
    if name.endswith("Tensor"):
        return tensor_type(name, cuda=True)
    if name.endswith("Storage"):
        import flambeau

        return getattr(flambeau, name)
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module 'flambeau.cuda' has no attribute '{name}'")
