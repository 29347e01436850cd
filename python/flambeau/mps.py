"""Apple's GPUs, for which there are no kernels."""

from __future__ import annotations

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    """False: there are no kernels for them."""
    return False


def device_count() -> int:
    """None."""
    return 0
