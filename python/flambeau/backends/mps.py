"""Apple's GPUs, for which there are no kernels."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_built() -> bool:
    """False: there are no kernels for them."""
    return False


def is_available() -> bool:
    """False: there are no kernels for them."""
    return False
