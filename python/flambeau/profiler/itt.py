"""Marks for Intel's profilers, for which Flambeau has no library: `is_available()` says so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """False."""
    return False


def _refuse() -> NoReturn:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg: str) -> None:
    """Refuses to begin a range."""
    _refuse()


def range_pop() -> None:
    """Refuses to end a range."""
    _refuse()


def mark(msg: str) -> None:
    """Refuses to mark a moment."""
    _refuse()


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Refuses to be entered."""
    range_push(msg.format(*args, **kwargs))
    yield
