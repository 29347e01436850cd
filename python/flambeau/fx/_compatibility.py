"""Marks on functions that say whether they stay as they are."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MARKED_WITH_COMPATIBILITY: dict[Any, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that remembers what it is put on."""

    def mark(function: Any) -> Any:
        _MARKED_WITH_COMPATIBILITY.setdefault(function)
        return function

    return mark
