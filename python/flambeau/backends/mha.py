"""Whether MultiheadAttention and TransformerEncoder may take their fast path in evaluation."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """Whether the fast path may be taken."""
    return _fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Sets whether the fast path may be taken."""
    global _fastpath_enabled
    _fastpath_enabled = bool(value)
