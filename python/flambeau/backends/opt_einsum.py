"""The package opt_einsum, which could choose the order of an einsum of many operands."""

from __future__ import annotations

__all__ = ["get_opt_einsum", "is_available"]

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: einsum contracts from left to right."""
    return False


def get_opt_einsum() -> None:
    """None: the package is not used."""
    return None
