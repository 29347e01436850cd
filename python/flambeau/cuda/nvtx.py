"""Ranges and marks that NVIDIA's profilers show."""

from __future__ import annotations

import contextlib

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Begins a range inside the innermost one; returns how deep it lies."""
    return int(_C._cuda_range_push(msg))


def range_pop() -> int:
    """Ends the innermost range; returns how deep it lay."""
    return int(_C._cuda_range_pop())


def range_start(msg: str) -> int:
    """Begins a range that another thread may end; returns its number."""
    return int(_C._cuda_range_start(msg))


def range_end(range_id: int) -> None:
    """Ends a range that range_start began."""
    _C._cuda_range_end(range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    _C._cuda_mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or a decorator, that is a range. The text is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
