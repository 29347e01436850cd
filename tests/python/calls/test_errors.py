"""Bad calls of every kind raise what PyTorch raises, in words that say what was wrong.

The tables in tests/python/calls/errors hold a call a line:

    exception type :: statements :: part of the message :: another part ...

`\\n` in the statements stands for a new line. The types were recorded by running the same tables
under PyTorch, which tests/compat/test_errors_oracle.py does again; this test needs no PyTorch.
"""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch

TABLES = Path(__file__).parent / "errors"


@dataclass(frozen=True)
class BadCall:
    table: str
    line: int
    exception: str
    code: str
    fragments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}:{self.line}"


def read_tables() -> Iterator[BadCall]:
    for path in sorted(TABLES.glob("*.txt")):
        for number, row in enumerate(path.read_text().splitlines(), 1):
            if row and not row.startswith("#"):
                exception, code, *fragments = row.split(" :: ")
                yield BadCall(path.stem, number, exception, code, tuple(fragments))


def run(code: str, lib: Any) -> BaseException | None:
    """What the statements raise when `torch` is lib, or None."""
    names = {
        "torch": lib, "np": np, "math": math, "operator": operator, "copy": copy,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code.replace("\\n", "\n"), names)
        except Exception as error:
            return error
    return None


BAD_CALLS = list(read_tables())
HARMLESS = [row for row in (TABLES / "harmless.list").read_text().splitlines() if row[:1] != "#"]


def test_table_holds_at_least_three_hundred_calls() -> None:
    assert len(BAD_CALLS) >= 300


@pytest.mark.parametrize("bad", BAD_CALLS, ids=str)
def test_bad_call_raises_what_pytorch_raises(bad: BadCall) -> None:
    text = complaint(bad)
    assert text is None, text


def complaint(bad: BadCall) -> str | None:
    """How what a call raises differs from its row, or None."""
    error = run(bad.code, torch)
    if error is None:
        return f"{bad.code}: nothing was raised instead of {bad.exception}"
    shown = f"{bad.code}\n  {type(error).__name__}: {error}"
    if type(error).__name__ != bad.exception:
        return f"{shown}\n  instead of {bad.exception}"
    missing = [part for part in bad.fragments if part not in str(error)]
    return f"{shown}\n  does not say {missing}" if missing else None


@pytest.mark.parametrize("code", HARMLESS)
def test_extreme_call_returns(code: str) -> None:
    error = run(code, torch)
    assert error is None, f"{code}\n  {type(error).__name__}: {error}"


def test_library_is_usable_after_errors() -> None:
    x = torch.ones(3, requires_grad=True)
    for bad in BAD_CALLS[::7]:
        run(bad.code, torch)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
