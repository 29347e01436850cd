"""Questions about the compiler that programs ask before they use it."""

from __future__ import annotations

import collections
import contextlib
import functools
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["counters", "disable_cache_limit", "is_compile_supported", "warn_once"]

counters: collections.defaultdict[str, collections.Counter[str]] = collections.defaultdict(
    collections.Counter
)


def is_compile_supported(device_type: Any) -> bool:
    """False: there is no compiler."""
    return False


@functools.lru_cache(None)
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warns, the first time that this is said."""
    warnings.warn(msg, stacklevel=stacklevel + 2)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """A context in which compiled functions are not counted; there are none."""
    yield
