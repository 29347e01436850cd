"""The CPU as a device among others, for programs that ask any device the same questions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from flambeau.cpu import amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: an op on the CPU is done when its call returns."""


def stream(stream: Any) -> AbstractContextManager[None]:
    """A context that does nothing: there are no streams."""
    return nullcontext()
