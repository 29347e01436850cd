"""Streams, the queues of work on a device, and events, the marks in them."""

from __future__ import annotations

import ctypes

import flambeau
from flambeau import _C
from flambeau.cuda._device import device as device_context
from flambeau.cuda._device import device_index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from typing_extensions import Self


# Streams that are served first, by their numbers, which stay with them.
_urgent: set[int] = set()


class Stream:
    """A queue of work: what is put into it runs in order, beside the work of other streams.

    Args:
        device: the device it belongs to, by default the current one.
        priority: a negative number is served first.
    """

    _raw: tuple[int, int, int]

    def __new__(cls, device: Any = None, priority: int = 0, **_: Any) -> Self:
        raw = _C._cuda_new_stream(device_index(device), priority)
        if priority < 0:
            _urgent.add(raw[1])
        return cls._wrap(raw)

    @classmethod
    def _wrap(cls, raw: tuple[int, int, int]) -> Self:
        self = object.__new__(cls)
        self._raw = raw
        return self

    @property
    def device(self) -> Any:
        import flambeau

        return flambeau.device("cuda", self._raw[0])

    @property
    def device_index(self) -> int:
        return self._raw[0]

    @property
    def device_type(self) -> int:
        """The number of CUDA among the kinds of devices."""
        return 1

    @property
    def stream_id(self) -> int:
        return self._raw[1]

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return self._raw[2]

    @property
    def native_handle(self) -> int:
        """The driver's handle."""
        return self.cuda_stream

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    @property
    def priority(self) -> int:
        """-1 for a stream that is served first, 0 for others."""
        return -1 if self.stream_id in _urgent else 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return 0, -1

    def is_capturing(self) -> bool:
        """Whether what it is given is captured instead of run."""
        with StreamContext(self):
            return bool(_C._cuda_is_capturing())

    def query(self) -> bool:
        """Whether all work in it is done."""
        return bool(_C._cuda_stream_query(self._raw))

    def synchronize(self) -> None:
        """Waits until all work in it is done."""
        _C._cuda_stream_synchronize(self._raw)

    def record_event(self, event: Event | None = None) -> Event:
        """Sets a mark, a new one by default, behind the work it has been given, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Lets what is put into it from now on wait for a mark."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Lets what is put into it from now on wait for what another stream has been given."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._raw == other._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that somebody else made and will destroy, by the driver's handle."""

    def __new__(cls, stream_ptr: int, device: Any = None, **_: Any) -> ExternalStream:
        return cls._wrap(_C._cuda_external_stream(device_index(device), stream_ptr))


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that somebody else made, by the driver's handle."""
    return ExternalStream(data_ptr, device)


class Event:
    """A mark in a stream, for waiting until work is done and for measuring the time it took.

    Args:
        enable_timing: whether it can measure.
        blocking: whether synchronize() sleeps instead of spinning.
        interprocess: whether other processes may open it by its ipc_handle(); it cannot measure.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess and enable_timing:
            raise ValueError("Event: an interprocess event cannot have enable_timing=True")
        self._raw = _C._cuda_new_event(enable_timing, blocking, interprocess)
        self._device = -1  # until it is known

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """The event of another process that its ipc_handle() names."""
        event = cls.__new__(cls)
        event._device = device_index(device)
        event._raw = _C._cuda_open_event(event._device, handle)
        return event

    def ipc_handle(self) -> bytes:
        """What another process opens the event by, if it was made with interprocess=True."""
        if self._device < 0:
            self._device = int(_C._cuda_current_device())
        return bytes(_C._cuda_event_name(self._raw, self._device))

    @property
    def device(self) -> Any:
        """Whose mark it is; None before it is set."""
        return None if self._device < 0 else flambeau.device("cuda", self._device)

    def record(self, stream: Stream | None = None) -> None:
        """Sets the mark behind the work that a stream, by default the current one, was given."""
        raw = (stream or current_stream())._raw
        _C._cuda_event_record(self._raw, raw)
        self._device = raw[0]

    def wait(self, stream: Stream | None = None) -> None:
        """Lets what is put into a stream, by default the current one, wait for the mark."""
        _C._cuda_event_wait(self._raw, (stream or current_stream())._raw)

    def query(self) -> bool:
        """Whether the work before the mark is done."""
        return bool(_C._cuda_event_query(self._raw))

    def synchronize(self) -> None:
        """Waits until the work before the mark is done."""
        _C._cuda_event_synchronize(self._raw)

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this mark to another."""
        return float(_C._cuda_event_elapsed(self._raw, end_event._raw))

    @property
    def cuda_event(self) -> int:
        """The driver's handle; 0 before the mark is set."""
        return int(_C._cuda_event_handle(self._raw))

    @property
    def event_id(self) -> int:
        """The driver's handle; 0 before the mark is set."""
        return self.cuda_event

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self) -> str:
        handle = self.cuda_event
        return f"<torch.cuda.Event {handle:#x}>" if handle else "<torch.cuda.Event uninitialized>"


def current_stream(device: Any = None) -> Stream:
    """The stream that work on a device goes to in this thread."""
    return Stream._wrap(_C._cuda_current_stream(device_index(device)))


def _reading_stream(device: int) -> int:
    """What DLPack calls the current stream, to tell a producer who will read: the default is 1."""
    return current_stream(device).cuda_stream or 1


def _hand_over(device: int, stream: int) -> None:
    """Lets a stream that DLPack names, in which others will read, wait for the current one."""
    reading = default_stream(device) if stream in (0, 1) else ExternalStream(stream, device)
    reading.wait_stream(current_stream(device))


def default_stream(device: Any = None) -> Stream:
    """The stream that is current on a device unless another is set."""
    return Stream._wrap(_C._cuda_default_stream(device_index(device)))


def set_stream(stream: Stream | None) -> None:
    """Makes a stream current on its device in this thread."""
    if stream is not None:
        _C._cuda_set_stream(stream._raw)


class StreamContext:
    """A context in which a stream, and its device, are current. None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Stream | None = None
        self._device = device_context(-1 if stream is None else stream.device_index)

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._before = current_stream(self.stream.device_index)
        self._device.__enter__()
        set_stream(self.stream)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.stream is None:
            return
        set_stream(self._before)
        self._device.__exit__(kind, error, trace)


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream, and its device, are current."""
    return StreamContext(stream)
