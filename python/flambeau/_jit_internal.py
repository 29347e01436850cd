"""Marks that libraries put on methods for a compiler of PyTorch's; they change nothing."""

from __future__ import annotations

from flambeau.jit import _overload, _overload_method, export, ignore, is_scripting, unused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "_copy_to_script_wrapper",
    "_overload",
    "_overload_method",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]


def _copy_to_script_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The method."""
    return fn
