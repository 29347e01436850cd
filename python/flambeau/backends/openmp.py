"""OpenMP, whose threads kernels on the CPU run on."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """True: the core is built with it."""
    return True
