"""Comparisons with PyTorch: with itself where FLAMBEAU_ORACLE names an interpreter that has it,
otherwise, for random numbers and printing, with its recorded answers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from compare import (
    ORACLE,
    RECORDED,
    RECORDING,
    TOLERANCES,
    Comparison,
    Recording,
    Worker,
)

# What is recorded; everything else is collected only where PyTorch is.
RECORDED_TESTS = ("test_printing.py", "test_random_numbers.py")
if not ORACLE or RECORDING:
    collect_ignore = [
        path.name
        for path in Path(__file__).parent.glob("test_*.py")
        if path.name not in RECORDED_TESTS or (not RECORDING and not RECORDED.exists())
    ]

# Draws from the normal distribution: two units in the last place.
NORMAL = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2.4e-7, "float64": 4.5e-16}


@pytest.fixture(scope="session")
def theirs() -> Iterator[Worker | Recording]:
    """PyTorch, or what it answered."""
    live = Worker(ORACLE, "torch") if ORACLE else None
    answers = live if live is not None and not RECORDING else Recording(live)
    yield answers
    answers.close()


@pytest.fixture(scope="session")
def comparison(theirs: Worker | Recording) -> Iterator[Comparison]:
    both = Comparison(theirs, TOLERANCES)
    yield both
    both.ours.close()


@pytest.fixture(scope="session")
def exact(theirs: Worker | Recording) -> Iterator[Comparison]:
    """A comparison that allows no difference in any value."""
    both = Comparison(theirs, {}, shakes=False)
    yield both
    both.ours.close()


@pytest.fixture(scope="session")
def nearly(theirs: Worker | Recording) -> Iterator[Comparison]:
    """A comparison that allows two units in the last place of numbers of size one."""
    both = Comparison(theirs, NORMAL, shakes=False)
    yield both
    both.ours.close()
