"""Intel's GPUs, for which there are no kernels."""

from __future__ import annotations

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
