"""The functions of the core under the name by which PyTorch's own Python code calls them."""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(_C, name)
