"""The profiler of ops and of steps of backward, and names for stretches of a program.

The core records a span for each op that Python calls and each step of backward; while nobody
profiles, that is one read of a flag.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau import _C
from flambeau.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "profile",
    "record_function",
]


class record_function:
    """Names a stretch of a program for the profiler; a context manager or a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._span: Any = None

    def __enter__(self) -> record_function:
        self._span = _C._profiler_span(self.name)
        return self

    def __exit__(self, *error: Any) -> None:
        self._span = None

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


class profile:
    """Records what runs inside of it.

    Args:
        enabled: False makes it do nothing.
        record_shapes: keeps the shapes of arguments.
        profile_memory: keeps how much memory ops take and give back.
        use_cuda, use_device: also records what runs on CUDA devices, by NVIDIA's library CUPTI.

    The other arguments are PyTorch's and have no effect.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **options: Any,
    ) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.use_device = "cuda" if use_cuda else use_device
        self.entered = False
        self.function_events: EventList | None = None

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        if _C._profiler_enabled():
            raise RuntimeError("Profiler is already enabled on this thread")
        self.entered = True
        if self.use_device == "cuda":
            _C._profiler_start_device()
        _C._profiler_start()
        return self

    def __exit__(self, *error: Any) -> None:
        if not self.enabled:
            return
        rows = _C._profiler_stop()
        on_device = _C._profiler_stop_device() if self.use_device == "cuda" else None
        if not self.record_shapes:
            rows = [(*row[:6], []) for row in rows]
        self.function_events = EventList.of_records(rows, self.profile_memory, on_device)

    def _events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The events by name; see `EventList.key_averages`."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events as one row."""
        return self._events().total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as text; see `EventList.table`."""
        return self._events().table(*args, **kwargs)

    def export_chrome_trace(self, path: Any) -> None:
        """Writes the events for `chrome://tracing` and Perfetto."""
        self._events().export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds, nothing counted twice."""
        return self._events().self_cpu_time_total

    def __repr__(self) -> str:
        return (
            repr(self.function_events)
            if self.function_events is not None
            else "<unfinished profile>"
        )

    def __str__(self) -> str:
        return str(self.function_events) if self.function_events is not None else repr(self)


class _NotThere:
    """Marks for a profiler of others, which nobody here sends: it refuses to be entered."""

    what = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise RuntimeError(f"{self.what} marks are not built in; use torch.profiler.profile")
        return self

    def __exit__(self, *error: Any) -> None:
        return None


class emit_nvtx(_NotThere):
    """Ops as NVTX ranges: not there."""

    what = "NVTX"


class emit_itt(_NotThere):
    """Ops as ITT ranges: not there."""

    what = "ITT"
