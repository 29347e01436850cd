"""A part of PyTorch's operator database, replayed; opinfo.py does all of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import opinfo
import pytest
from compare import ORACLE

# Of every family one that agrees in all its calls.
OPS = "sub|cumsum|var_mean|unbind|index_put|scatter_reduce.sum|unique|quantile|masked.mean"
RECORDER = str(Path(__file__).with_name("opinfo_record.py"))


@pytest.fixture(scope="module")
def recordings() -> None:
    assert ORACLE is not None
    subprocess.run([ORACLE, RECORDER, str(opinfo.FOLDER), "--ops", OPS], check=True)


@pytest.mark.parametrize("name", OPS.split("|"))
def test_operators_agree_with_pytorchs_samples(name: str, recordings: None) -> None:
    found = opinfo.in_child(name, opinfo.FOLDER / f"{name}.pickle")
    assert found["calls"] > 0
    assert not found["found"], "\n".join(found["found"][:5])
