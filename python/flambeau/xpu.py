"""Intel's GPUs, for which there are no kernels."""

from __future__ import annotations

from flambeau._absent import refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]


def is_available() -> bool:
    """False: there are no kernels for them."""
    return False


def is_initialized() -> bool:
    """False: there is nothing to initialize."""
    return False


def device_count() -> int:
    """None."""
    return 0


def empty_cache() -> None:
    """Gives back cached memory, of which there is none."""


def manual_seed(seed: int) -> None:
    """Seeds a generator that nothing draws from."""


def synchronize(device: Any = None) -> None:
    """Refuses: there is no device to wait for."""
    raise AssertionError("synchronize: there are no kernels for these devices")


def manual_seed_all(seed: int) -> None:
    """Seeds generators that nothing draws from."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there are no kernels for them."""
    return False


def memory_allocated(device: Any = None) -> int:
    """None."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


__getattr__ = refusing(
    __name__,
    """can_device_access_peer current_device current_stream device_of get_arch_list
    get_device_capability get_device_name get_device_properties get_rng_state get_rng_state_all
    init initial_seed mem_get_info memory_snapshot memory_stats reset_accumulated_memory_stats
    reset_peak_memory_stats seed seed_all set_device set_rng_state set_rng_state_all set_stream
    stream""",
    "Event Stream StreamContext device",
    AssertionError,
    "there are no kernels for these devices",
)
