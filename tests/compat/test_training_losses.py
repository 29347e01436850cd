"""A hundred steps of training have PyTorch's losses, dropout and shuffled batches included."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from compare import ORACLE

SCRIPT = Path(__file__).with_name("training.py")


def losses(interpreter: str, module: str, dtype: str) -> dict[str, list[float]]:
    command = [interpreter, str(SCRIPT), module, dtype]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_losses_of_a_hundred_steps_agree(dtype: str, tolerance: float) -> None:
    assert ORACLE is not None
    theirs = losses(ORACLE, "torch", dtype)
    ours = losses(sys.executable, "flambeau", dtype)
    assert ours.keys() == theirs.keys()
    for name, wanted in theirs.items():
        assert ours[name] == pytest.approx(wanted, rel=tolerance), name
        assert wanted[-1] < 0.8 * wanted[0], f"{name} does not learn"
