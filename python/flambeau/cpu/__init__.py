"""The CPU as a device among others, for programs that ask any device the same questions."""

from __future__ import annotations

from contextlib import AbstractContextManager

from flambeau.cpu import amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
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


class Stream:
    """The one order in which the CPU works; what is given to it is done at once."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Event:
        """An event that has happened."""
        return event or Event()

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


class Event:
    """A moment of the CPU's work, which has passed when it can be asked."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to remember."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    """The stream that work is given to."""
    return _stream


class StreamContext(AbstractContextManager[None]):
    """A context in which work is given to a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream, self._before = stream, _stream

    def __enter__(self) -> None:
        global _stream
        self._before = _stream
        _stream = self.stream or _stream

    def __exit__(self, *error: object) -> None:
        global _stream
        _stream = self._before


def stream(stream: Any) -> AbstractContextManager[None]:
    """A context in which work is given to a stream."""
    return StreamContext(stream)
