"""Timing of short statements: `Timer` measures, `Compare` puts measurements side by side."""

from __future__ import annotations

from flambeau.utils.benchmark._compare import Compare
from flambeau.utils.benchmark._measurement import Measurement, TaskSpec, select_unit
from flambeau.utils.benchmark._timer import Timer, timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]
