"""What the profiler found: events, their averages by name, tables and traces of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

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


class _Times:
    """The words for times that events and averages share."""

    count = 1
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total = 0.0
    self_device_time_total = 0.0
    device_memory_usage = 0
    self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """The mean time on the CPU, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The mean time on an accelerator, in microseconds; none is recorded."""
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
        self.kernels: list[Any] = []

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


class FunctionEventAvg(_Times):
    """All events of one name."""

    def __init__(self, key: str = "Total") -> None:
        self.key = key
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0
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
            self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.count += event.count
        self.is_user_annotation = event.is_user_annotation
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time=0.000us cuda_time=0.000us "
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


class EventList(list[Any]):
    """Events, or their averages, in a list that prints as a table."""

    def __init__(self, items: Iterable[Any] = (), profile_memory: bool = False) -> None:
        super().__init__(items)
        self._profile_memory = profile_memory

    @classmethod
    def of_records(cls, rows: list[tuple[Any, ...]], profile_memory: bool) -> EventList:
        """The events that the core recorded, in the order in which they began."""
        rows = sorted(rows, key=lambda row: (row[2], -row[3]))
        origin = rows[0][2] if rows else 0
        found = cls((FunctionEvent(k, r, origin) for k, r in enumerate(rows)), profile_memory)
        _nested(found)
        found._origin = origin
        return found

    _origin = 0

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds, nothing counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row for each name, or for each name and each shape of arguments."""
        averages: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key = (event.key, str(event.input_shapes) if group_by_input_shapes else "")
            if key not in averages:
                averages[key] = FunctionEventAvg(event.key)
                averages[key].input_shapes = event.input_shapes if group_by_input_shapes else ""
            averages[key].add(event)
        return EventList(averages.values(), self._profile_memory)

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
            names = {"cuda_time": "device_time", "cuda_time_total": "device_time_total"}
            attribute = names.get(sort_by, sort_by)
            rows.sort(key=lambda row: getattr(row, attribute), reverse=True)
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
        return "\n".join([*above, rule, lines[0], rule, *lines[1:], rule, end])

    def _columns(self, rows: list[Any], name_width: int, shapes_width: int) -> list[list[str]]:
        total = self.self_cpu_time_total or 1.0

        def part(time: float) -> str:
            return f"{100 * time / total:.2f}%"

        def cut(text: str, width: int) -> str:
            return text if len(text) <= width else text[: width - 3] + "..."

        columns = [
            ["Name", *(cut(row.key, name_width) for row in rows)],
            ["Self CPU %", *(part(row.self_cpu_time_total) for row in rows)],
            ["Self CPU", *(row.self_cpu_time_total_str for row in rows)],
            ["CPU total %", *(part(row.cpu_time_total) for row in rows)],
            ["CPU total", *(row.cpu_time_total_str for row in rows)],
            ["CPU time avg", *(row.cpu_time_str for row in rows)],
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
        kinds = ("cpu_op", "cpu_op", "user_annotation")
        pid = os.getpid()
        names = {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": "python"}}
        found: list[dict[str, Any]] = [names]
        for event in self:
            found.append(
                {
                    "ph": "X",
                    "cat": kinds[event.kind],
                    "name": event.name,
                    "pid": pid,
                    "tid": event.thread,
                    "ts": self._origin / 1e3 + event.time_range.start,
                    "dur": event.cpu_time_total,
                    "args": {"External id": event.id, "Input Dims": event.input_shapes},
                }
            )
        with open(path, "w") as file:
            known = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {})}
            json.dump(known | {"traceEvents": found}, file)

    def __str__(self) -> str:
        return self.table()
