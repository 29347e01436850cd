"""Timer: how long a statement takes, warmed up, on a fixed number of threads."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.utils.benchmark._measurement import Measurement, TaskSpec

__all__ = ["Timer", "timer"]


def timer() -> float:
    """The time, after what was asked of a CUDA device is done."""
    if flambeau.cuda.is_available() and flambeau.cuda.is_initialized():
        flambeau.cuda.synchronize()
    return time.perf_counter()


class Timer:
    """Measures a statement of Python.

    Args:
        stmt: the statement.
        setup: what runs before it, not measured.
        timer: the clock.
        globals: the names that both see; `torch` is among them.
        label, sub_label, description, env: words for tables.
        num_threads: on how many threads ops run meanwhile.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise ValueError(f"Timer: only statements of Python can be measured, not of {language}")
        names = dict(globals or {})
        names.setdefault("torch", flambeau)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )
        self._timer = timeit.Timer(stmt, setup, timer, names)

    def _run(self, number: int) -> float:
        before = flambeau.get_num_threads()
        flambeau.set_num_threads(self._task_spec.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            flambeau.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of `number` executions, after a few to warm up."""
        self._run(max(int(number // 100), 2))
        return Measurement(number, [self._run(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not there, as in PyTorch: `blocked_autorange` repeats by itself."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Not there, as in PyTorch: see `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """How many executions take long enough to hide the clock's own time."""
        overhead = min(timeit.repeat("pass", number=1, repeat=5))
        number = 1
        while True:
            took = self._run(number)
            if (took > 1e4 * overhead and took >= min_run_time / 1000) or took > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks of executions until `min_run_time` seconds have passed; each block is a run."""
        number = self._block_size(min_run_time)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks of executions until their times agree to a part of the median."""
        number = self._block_size(0.05)
        times: list[float] = []
        while True:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
            found = Measurement(number, times, self._task_spec)
            total = sum(times)
            agreed = len(times) > 3 and found.meets_confidence(threshold) and total > min_run_time
            if agreed or total > max_run_time:
                return found
