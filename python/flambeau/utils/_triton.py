"""Whether there is a compiler of Triton's kernels to be used: there is none here."""

from __future__ import annotations

__all__: list[str] = []


def has_triton_package() -> bool:
    """False: nothing here would call Triton, installed or not."""
    return False


def has_triton() -> bool:
    """False: nothing here would call Triton, installed or not."""
    return False


def has_triton_tma() -> bool:
    """False: nothing here would call Triton, installed or not."""
    return False
