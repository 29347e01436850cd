"""Questions about the compiler that programs ask before they use it."""

from __future__ import annotations

import collections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["counters", "is_compile_supported"]

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
)


def is_compile_supported(device_type: Any) -> bool:
    """False: there is no compiler."""
    return False
