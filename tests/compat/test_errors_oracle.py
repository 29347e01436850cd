"""The tables of bad calls name the exceptions that PyTorch raises today."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compare import Comparison

sys.path.insert(0, str(Path(__file__).parent.parent / "python" / "calls"))
from test_errors import BAD_CALLS, BadCall

SETUP = "import copy, math, operator; import numpy as np"


@pytest.mark.parametrize("bad", BAD_CALLS, ids=str)
def test_pytorch_raises_what_the_table_says(bad: BadCall, comparison: Comparison) -> None:
    reply = comparison.theirs.run([SETUP, bad.code.replace("\\n", "\n")])
    assert [kind for _, kind, _ in reply["errors"]] == [bad.exception], bad.code
