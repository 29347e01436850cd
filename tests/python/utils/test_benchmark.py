"""Timing of statements: what is measured is told, and put into tables."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.utils import benchmark


def ticking(step: float):
    """A clock that goes on by the same time whenever it is read."""
    now = 0.0

    def read() -> float:
        nonlocal now
        now += step
        return now

    return read


def test_a_statement_is_timed():
    seen = []
    timer = benchmark.Timer(
        "seen.append(torch.get_num_threads())",
        setup="seen.clear()",
        globals={"seen": seen},
        timer=ticking(0.5),
        label="append",
        sub_label="a list",
        description="plain",
        num_threads=1,
    )
    before = torch.get_num_threads()
    found = timer.timeit(100)
    assert torch.get_num_threads() == before and set(seen) == {1} and len(seen) == 100
    assert found.mean == found.median == pytest.approx(0.005) and found.iqr == 0
    assert repr(found).splitlines()[1:] == [
        "append: a list",
        "plain",
        "setup: seen.clear()",
        "  5.00 ms",
        "  1 measurement, 100 runs , 1 thread",
    ]


def test_blocks_run_until_enough_time_has_passed():
    found = benchmark.Timer("torch.ones(3)").blocked_autorange(min_run_time=0.02)
    assert sum(found.raw_times) >= 0.02 and found.number_per_run >= 10
    assert 0 < found.median < 1e-3 and found.title == "torch.ones(3)"
    adapted = benchmark.Timer("torch.ones(3)").adaptive_autorange(0.5, max_run_time=0.2)
    assert adapted.mean > 0
    (merged,) = benchmark.Measurement.merge([found, found])
    assert len(merged.times) == 2 * len(found.times)


def test_measurements_stand_side_by_side():
    results = [
        benchmark.Measurement(
            1, [seconds], benchmark.TaskSpec("x", "pass", "", "add", size, kind, None, threads)
        )
        for size, kind, threads, seconds in (
            ("size 4", "old", 1, 2e-6),
            ("size 4", "new", 1, 1e-6),
            ("size 400", "old", 1, 5e-6),
            ("size 4", "old", 2, 3.04e-6),
        )
    ]
    table = benchmark.Compare(results)
    assert str(table).splitlines() == [
        "[----------- add ------------]",
        "                |  old  |  new",
        "1 threads: -------------------",
        "      size 4    |  2.0  |  1.0",
        "      size 400  |  5.0  |     ",
        "2 threads: -------------------",
        "      size 4    |  3.0  |     ",
        "",
        "Times are in microseconds (us).",
    ]
    table.colorize()
    table.trim_significant_figures()
    assert "\x1b[92m\x1b[1m1\x1b[0m" in str(table)
    with pytest.raises(ValueError, match="instance of `Measurement`"):
        table.extend_results([1.0])


def test_what_is_not_there_says_so():
    with pytest.raises(ValueError, match="only statements of Python"):
        benchmark.Timer("x;", language="c++")
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        benchmark.Timer().repeat()
