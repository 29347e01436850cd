"""Intel's MKL, which nothing here uses."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False: matrix products and linear algebra come from oneDNN and OpenBLAS."""
    return False
