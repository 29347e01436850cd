"""What functions of PyTorch's own are kept away from its compiler by."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _disable_dynamo(fn: Callable[..., Any] | None = None, recursive: bool = True) -> Any:
    """The function itself; without one, a decorator."""
    return fn if fn is not None else lambda function: function
