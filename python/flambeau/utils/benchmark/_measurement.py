"""What was measured, and of what."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable
from typing import Any

__all__ = ["Measurement", "TaskSpec", "select_unit"]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
UNIT_NAMES = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


def select_unit(seconds: float) -> tuple[str, float]:
    """The unit in which a time reads best, and its length in seconds."""
    found = _UNITS[0]
    for unit in _UNITS:
        if seconds >= unit[1]:
            found = unit
    return found


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A statement, how it is prepared, and the words by which tables know it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and what distinguishes it, or the statement."""
        if self.label is None:
            return (
                self.stmt.replace("\n", "; ") if "\n" not in self.stmt else "multi-line statement"
            )
        return self.label + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """The preparation as text, empty if there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup: {self.setup}" if "\n" not in self.setup else f"setup:\n{self.setup}"


class Measurement:
    """Times of several runs of a statement.

    Args:
        number_per_run: how often each run executed the statement.
        raw_times: the seconds that each run took.
        task_spec: the statement.
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.task_spec = task_spec
        self.metadata = metadata

    @property
    def times(self) -> list[float]:
        """The seconds of one execution, run by run."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance between the quarters of the times."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many digits of the median the spread of the times leaves."""
        if len(self.times) < 3 or self.iqr == 0:
            return 3
        spread = self.iqr / math.sqrt(len(self.times))
        return max(1, min(4, math.floor(math.log10(self.median / spread)) + 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary so much that the median says little."""
        return self.iqr / self.median > 0.1 if self.median else False

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the quarters of the times are closer than a part of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The title of the statement."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """The name of the environment that the times were taken in."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """The name of the row in a table."""
        return self.task_spec.sub_label or self.task_spec.label or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        spec = self.task_spec
        lines = [object.__repr__(self), self.title]
        lines += [text for text in (spec.description, spec.setup_str()) if text]
        many = len(self.raw_times) > 1
        lines.append(f"  {'Median: ' if many else ''}{self.median / scale:.2f} {unit}")
        if len(self.raw_times) >= 4:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        runs = f"{self.number_per_run} runs {'per measurement' if many else ''}"
        plural = "s" if many else ""
        threads = f"{spec.num_threads} thread{'s' if spec.num_threads > 1 else ''}"
        lines.append(f"  {len(self.raw_times)} measurement{plural}, {runs}, {threads}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same statement as one each."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for one in measurements:
            groups.setdefault(one.task_spec, []).append(one)
        return [
            Measurement(1, [time for one in group for time in one.times], spec)
            for spec, group in groups.items()
        ]
