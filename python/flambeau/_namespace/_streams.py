"""torch.Stream and torch.Event: queues of work and marks in them for whatever device is given.

On CUDA they stand for flambeau.cuda.Stream and .Event, which are made on first use. The CPU does
its work at once, so that its streams are always done and its marks always passed.
"""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Event", "Stream"]


def _device_of(device: Any) -> Any:
    return flambeau.device("cuda" if device is None else device)


class _OfCudaToo(type):
    """The classes of the same name in flambeau.cuda count as subclasses."""

    def __subclasscheck__(cls, subclass: type) -> bool:
        return super().__subclasscheck__(subclass) or issubclass(
            subclass, getattr(flambeau.cuda, cls.__name__)
        )

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), cls)


class Stream(metaclass=_OfCudaToo):
    """A queue of work on a device. On CUDA, making one gives a flambeau.cuda.Stream.

    Args:
        device: the device, by default the accelerator.
        priority: a negative number is served first.
    """

    def __new__(cls, device: Any = None, *, priority: int = 0, **_: Any) -> Any:
        place = _device_of(device)
        if place.type == "cuda":
            return flambeau.cuda.Stream(place, priority=priority)
        return super().__new__(cls)

    def __init__(self, device: Any = None, **_: Any) -> None:
        self.device = _device_of(device)
        self.device_index, self.stream_id = -1, 0

    def query(self) -> bool:
        """Whether all work in it is done."""
        return True

    def synchronize(self) -> None:
        """Waits until all work in it is done."""

    def record_event(self, event: Event | None = None) -> Event:
        """Sets a mark behind the work it has been given, and returns it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Lets what is put into it from now on wait for a mark."""
        event.synchronize()

    def wait_stream(self, stream: Stream) -> None:
        """Lets what is put into it from now on wait for what another stream has been given."""
        self.wait_event(stream.record_event())

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id=0"


class Event(metaclass=_OfCudaToo):
    """A mark in a stream, for waiting until work is done and for measuring the time it took.

    Args:
        device: the device, by default the accelerator.
        enable_timing: whether it can measure.
        blocking: whether synchronize() sleeps instead of spinning.
        interprocess: not supported.
    """

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        if interprocess:
            raise NotImplementedError("Event: interprocess events are not implemented")
        self.device = _device_of(device)
        self._timed, self._blocking = enable_timing, blocking
        self._mark: Any = None

    @property
    def event_id(self) -> int:
        """The driver's handle; 0 before the mark is set."""
        return 0 if self._mark is None else self._mark.cuda_event

    def record(self, stream: Any = None) -> None:
        """Sets the mark behind the work that a stream, by default the current one, was given."""
        if self.device.type != "cuda":
            raise RuntimeError(f"{self.device.type} backend doesn't support events.")
        if self._mark is None:
            self._mark = flambeau.cuda.Event(self._timed, self._blocking)
        self._mark.record(stream)

    def wait(self, stream: Any = None) -> None:
        """Lets what is put into a stream, by default the current one, wait for the mark."""
        if self._mark is not None:
            self._mark.wait(stream)

    def query(self) -> bool:
        """Whether the work before the mark is done; so it is if the mark was never set."""
        return self._mark is None or self._mark.query()

    def synchronize(self) -> None:
        """Waits until the work before the mark is done."""
        if self._mark is not None:
            self._mark.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this mark to another."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._mark is None or end_event._mark is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return self._mark.elapsed_time(end_event._mark)

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return (
            f"torch.Event device_type={self.device.type}, device_index={index}, "
            f"event_flag={int(self._timed)}, event_id={self.event_id}"
        )
