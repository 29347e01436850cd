"""What the profiler found: events, their averages by name, tables and traces of them."""

from __future__ import annotations

import bisect
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]

_USER, _BACKWARD = 2, 1


def _format_time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def _format_memory(count: float) -> str:
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count:.0f} B"


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """How long it took."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Work on a device that an event asked for; its duration in microseconds."""

    name: str
    device: int
    duration: float


class _Times:
    """The words for times that events and averages share."""

    count = 1
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    device_memory_usage = 0
    self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """The mean time on the CPU, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The mean time on an accelerator, in microseconds."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time(self) -> float:
        """The mean time on a CUDA device."""
        return self.device_time

    @property
    def cuda_time_total(self) -> float:
        """The time on CUDA devices."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """The time on CUDA devices without that of children."""
        return self.self_device_time_total

    @property
    def cpu_time_str(self) -> str:
        return _format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return _format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return _format_time(self.self_cpu_time_total)

    @property
    def device_time_str(self) -> str:
        return _format_time(self.device_time)

    @property
    def device_time_total_str(self) -> str:
        return _format_time(self.device_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        return _format_time(self.self_device_time_total)


class FunctionEvent(_Times):
    """One call of an op, one step of backward, or one stretch that the user named."""

    def __init__(self, number: int, row: tuple[Any, ...], origin: int) -> None:
        name, self.kind, begin, end, self.thread, self.cpu_memory_usage, self.input_shapes = row
        self.id = number
        self.name = self.key = name if self.kind else f"aten::{name}"
        self.trace_name = self.name
        self.time_range = Interval((begin - origin) / 1e3, (end - origin) / 1e3)
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.is_user_annotation = self.kind == _USER
        self.is_async = self.is_remote = False
        self.device_index = 0
        self.device_type = "cpu"
        self.stack: list[str] = []
        self.kernels: list[Kernel] = []

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """How long devices worked on what it asked for itself."""
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """How long devices worked on what it, and what it called, asked for."""
        inner = sum(child.device_time_total for child in self.cpu_children)
        return self.self_device_time_total + inner

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """How long it took, in microseconds."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """How long it took without what it called."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """The bytes it took, less those it gave back, without what it called."""
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class DeviceEvent(FunctionEvent):
    """A kernel, copy or fill on a CUDA device; it takes no time of the CPU."""

    def __init__(self, number: int, row: tuple[Any, ...], origin: int) -> None:
        name, kind, begin, end, device, stream, count, asked, thread = row
        super().__init__(number, (name, _USER, begin, end, thread, 0, []), origin)
        self.category: str = kind
        self.is_user_annotation = False
        self.is_async = True
        self.device_type = "cuda"
        self.device_index = self.device_resource_id = device
        self.stream, self.bytes = stream, count
        self.asked = (asked - origin) / 1e3 if asked else None
        self.asked_by: FunctionEvent | None = None
        self.kernels = [Kernel(name, device, self.time_range.elapsed_us())]

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Nothing: the CPU does not wait for it."""
        return 0.0


class FunctionEventAvg(_Times):
    """All events of one name."""

    def __init__(self, key: str = "Total") -> None:
        self.key = key
        self.count = 0
        self.device_type = "cpu"
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
        self.device_time_total = 0.0
        self.self_device_time_total = 0.0
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.input_shapes: Any = ""
        self.stack: list[str] = []
        self.is_user_annotation = False

    def add(self, event: Any) -> FunctionEventAvg:
        """Counts one more event in, or another average."""
        # A function that calls itself has its inner time in the outer one.
        ancestor = getattr(event, "cpu_parent", None)
        while ancestor is not None and ancestor.key != self.key:
            ancestor = ancestor.cpu_parent
        if ancestor is None:
            self.cpu_time_total += event.cpu_time_total
            self.device_time_total += event.device_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_device_time_total += event.self_device_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.count += event.count
        self.is_user_annotation = event.is_user_annotation
        self.device_type = event.device_type
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time={self.self_device_time_total_str} "
            f"cuda_time={self.device_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            "cuda_memory_usage=0>"
        )


def _nested(events: list[FunctionEvent]) -> None:
    """Finds out which event ran within which."""
    open_ones: dict[int, list[FunctionEvent]] = {}
    for event in sorted(events, key=lambda e: (e.thread, e.time_range.start, -e.time_range.end)):
        stack = open_ones.setdefault(event.thread, [])
        while stack and stack[-1].time_range.end <= event.time_range.start:
            stack.pop()
        if stack and event.time_range.end <= stack[-1].time_range.end:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)


def _give_kernels(events: list[FunctionEvent], kernels: list[DeviceEvent]) -> None:
    """Finds out which event asked for which kernel: the innermost of the thread at that time."""
    by_thread: dict[int, list[FunctionEvent]] = {}
    for event in events:
        by_thread.setdefault(event.thread, []).append(event)
    starts = {}
    for thread, own in by_thread.items():
        own.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
        starts[thread] = [event.time_range.start for event in own]
    for kernel in kernels:
        if kernel.asked is None or kernel.thread not in by_thread:
            continue
        place = bisect.bisect_right(starts[kernel.thread], kernel.asked) - 1
        around: FunctionEvent | None = by_thread[kernel.thread][place] if place >= 0 else None
        # The latest that began before, or what that ran within.
        while around is not None and around.time_range.end < kernel.asked:
            around = around.cpu_parent
        if around is not None:
            around.kernels.extend(kernel.kernels)
            kernel.asked_by = around


class EventList(list[Any]):
    """Events, or their averages, in a list that prints as a table."""

    def __init__(self, items: Iterable[Any] = (), profile_memory: bool = False) -> None:
        super().__init__(items)
        self._profile_memory = profile_memory

    @classmethod
    def of_records(
        cls,
        rows: list[tuple[Any, ...]],
        profile_memory: bool,
        device_rows: list[tuple[Any, ...]] | None = None,
    ) -> EventList:
        """The events that the core recorded, in the order in which they began; after them what ran
        on devices, unless that is None and was not looked at."""
        rows = sorted(rows, key=lambda row: (row[2], -row[3]))
        device_rows = device_rows and sorted(device_rows, key=lambda row: row[2])
        origin = min((group[0][2] for group in (rows, device_rows) if group), default=0)
        found = cls((FunctionEvent(k, r, origin) for k, r in enumerate(rows)), profile_memory)
        _nested(found)
        found._origin = origin
        if device_rows is not None:
            found._with_device = True
            kernels = [DeviceEvent(len(rows) + k, r, origin) for k, r in enumerate(device_rows)]
            _give_kernels(list(found), kernels)
            found.extend(kernels)
        return found

    _with_device = False

    _origin = 0

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds, nothing counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    @property
    def self_device_time_total(self) -> float:
        """How long devices worked, in microseconds, every kernel counted once."""
        return sum(e.self_device_time_total for e in self if e.device_type == "cuda")

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row for each name, or for each name and each shape of arguments."""
        averages: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            key = (event.key, shapes, event.device_type)
            if key not in averages:
                averages[key] = FunctionEventAvg(event.key)
                averages[key].input_shapes = event.input_shapes if group_by_input_shapes else ""
            averages[key].add(event)
        result = EventList(averages.values(), self._profile_memory)
        result._with_device = self._with_device
        return result

    def total_average(self) -> FunctionEventAvg:
        """One row for all."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
            total.is_user_annotation = False
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, in columns.

        Args:
            sort_by: an attribute by which the rows come, the largest first, such as
                `cpu_time_total`.
            row_limit: how many rows; -1 for all.
            max_name_column_width: where longer names are cut.
            max_shapes_column_width: where longer shapes are cut.
            header: a line to put above.
            top_level_events_only: leaves out what ran within another event.
        """
        rows = list(self)
        if top_level_events_only:
            rows = [row for row in rows if getattr(row, "cpu_parent", None) is None]
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        shown = rows if row_limit == -1 else rows[:row_limit]
        columns = self._columns(shown, max_name_column_width, max_shapes_column_width)
        widths = [max(12, *(len(cell) for cell in column)) for column in columns]
        widths[0] = max(len(cell) for cell in columns[0]) + 4
        rule = "".join("-" * width + "  " for width in widths)
        lines = [
            "".join(f"{cell:>{width}}  " for cell, width in zip(row, widths))
            for row in zip(*columns)
        ]
        above = ["=" * len(rule), header] if header else []
        end = f"Self CPU time total: {_format_time(self.self_cpu_time_total)}\n"
        if self._with_device:
            end += f"Self CUDA time total: {_format_time(self.self_device_time_total)}\n"
        return "\n".join([*above, rule, lines[0], rule, *lines[1:], rule, end])

    def _columns(self, rows: list[Any], name_width: int, shapes_width: int) -> list[list[str]]:
        cpu_total, device_total = self.self_cpu_time_total, self.self_device_time_total

        def part(time: float, total: float) -> str:
            return f"{100 * time / (total or 1.0):.2f}%"

        def cut(text: str, width: int) -> str:
            return text if len(text) <= width else text[: width - 3] + "..."

        columns = [
            ["Name", *(cut(row.key, name_width) for row in rows)],
            ["Self CPU %", *(part(row.self_cpu_time_total, cpu_total) for row in rows)],
            ["Self CPU", *(row.self_cpu_time_total_str for row in rows)],
            ["CPU total %", *(part(row.cpu_time_total, cpu_total) for row in rows)],
            ["CPU total", *(row.cpu_time_total_str for row in rows)],
            ["CPU time avg", *(row.cpu_time_str for row in rows)],
        ]
        if self._with_device:
            shares = (part(row.self_device_time_total, device_total) for row in rows)
            columns += [
                ["Self CUDA", *(row.self_device_time_total_str for row in rows)],
                ["Self CUDA %", *shares],
                ["CUDA total", *(row.device_time_total_str for row in rows)],
                ["CUDA time avg", *(row.device_time_str for row in rows)],
            ]
        if self._profile_memory:
            columns.append(["CPU Mem", *(_format_memory(r.cpu_memory_usage) for r in rows)])
            columns.append(
                ["Self CPU Mem", *(_format_memory(r.self_cpu_memory_usage) for r in rows)]
            )
        columns.append(["# of Calls", *(str(row.count) for row in rows)])
        if any(isinstance(row, FunctionEventAvg) and row.input_shapes for row in rows):
            columns.append(
                ["Input Shapes", *(cut(str(row.input_shapes), shapes_width) for row in rows)]
            )
        return columns

    def export_chrome_trace(self, path: Any, metadata: dict[str, Any] | None = None) -> None:
        """Writes the events for `chrome://tracing` and Perfetto, with what is known besides."""
        pid = os.getpid()
        found = [_name("process_name", pid, 0, "python")]
        streams = set()
        for event in self:
            if isinstance(event, DeviceEvent):
                streams.add((event.device_index, event.stream))
                found += self._device_trace(event, pid)
            else:
                found.append(self._host_trace(event, pid))
        for device, stream in sorted(streams):
            found.append(_name("process_name", device, 0, f"GPU {device}"))
            found.append(_name("thread_name", device, stream, f"stream {stream}"))
        with open(path, "w") as file:
            known = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {})}
            json.dump(known | {"traceEvents": found}, file)

    def _host_trace(self, event: FunctionEvent, pid: int) -> dict[str, Any]:
        kinds = ("cpu_op", "cpu_op", "user_annotation")
        place = {"cat": kinds[event.kind], "pid": pid, "tid": event.thread}
        args = {"External id": event.id, "Input Dims": event.input_shapes}
        return self._bar(event, place, args)

    def _device_trace(self, event: DeviceEvent, pid: int) -> list[dict[str, Any]]:
        """A bar in the row of the stream, and an arrow to it from where it was asked for."""
        device, stream = event.device_index, event.stream
        args: dict[str, Any] = {"device": device, "stream": stream}
        if event.bytes:
            args["bytes"] = event.bytes
        if event.asked_by is not None:
            args["External id"] = event.asked_by.id
        place = {"cat": event.category, "pid": device, "tid": stream}
        bar = self._bar(event, place, args)
        if event.asked is None:
            return [bar]
        arrow = {"name": "ac2g", "cat": "ac2g", "id": event.id}
        asked = self._origin / 1e3 + event.asked
        return [
            bar,
            arrow | {"ph": "s", "pid": pid, "tid": event.thread, "ts": asked},
            arrow | {"ph": "f", "bp": "e", "pid": device, "tid": stream, "ts": bar["ts"]},
        ]

    def _bar(
        self, event: FunctionEvent, place: dict[str, Any], args: dict[str, Any]
    ) -> dict[str, Any]:
        start, length = event.time_range.start, event.time_range.elapsed_us()
        times = {"ts": self._origin / 1e3 + start, "dur": length}
        return {"ph": "X", "name": event.name} | place | times | {"args": args}

    def __str__(self) -> str:
        return self.table()


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    """How a trace names a process or one of its rows."""
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
