"""Meta's accelerators, for which there are no kernels."""

from __future__ import annotations

from flambeau._absent import refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["device_count", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """False: there are no kernels for them."""
    return False


is_initialized = is_available


def device_count() -> int:
    """None."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds a generator that nothing draws from."""


manual_seed_all = manual_seed


def memory_allocated(device: Any = None) -> int:
    """None."""
    return 0


max_memory_allocated = memory_allocated

__getattr__ = refusing(
    __name__,
    """current_device current_stream default_stream empty_cache get_device_capability
    get_device_properties get_rng_state init memory_stats reset_peak_memory_stats set_device
    set_rng_state set_stream stream synchronize""",
    "Event Stream StreamContext device",
    RuntimeError,
    "there are no kernels for these devices",
)
