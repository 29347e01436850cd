"""`record`, which marks the entry of a program that a launcher starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["record"]

Entry = TypeVar("Entry", bound=Callable[..., Any])


def record(fn: Entry, error_handler: Any = None) -> Entry:
    """The function itself: without a launcher nobody collects the errors of processes, and an
    exception ends the program with its traceback.
    """
    return fn
