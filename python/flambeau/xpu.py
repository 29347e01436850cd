"""Intel's GPUs, for which there are no kernels."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "is_initialized"]


def is_available() -> bool:
    """False: there are no kernels for them."""
    return False


def is_initialized() -> bool:
    """False: there is nothing to initialize."""
    return False


def device_count() -> int:
    """None."""
    return 0
