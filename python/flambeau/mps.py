"""Apple's GPUs, for which there are no kernels."""

from __future__ import annotations

from flambeau._absent import refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def is_available() -> bool:
    """False: there are no kernels for them."""
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


__getattr__ = refusing(
    __name__,
    """compile_shader current_allocated_memory current_stream default_stream driver_allocated_memory
    get_rng_state load_metallib recommended_max_memory seed set_per_process_memory_fraction
    set_rng_state set_stream stream""",
    "Event Stream",
    RuntimeError,
    "there are no kernels for these devices",
)
