"""Every sample of every op gives PyTorch's result, strides and exception for every dtype."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare import Comparison
from samples import ENTRIES

OPS = Path(__file__).parent.parent / "ops"


@pytest.mark.parametrize("name", ENTRIES)
def test_samples_agree_with_pytorch(name: str, comparison: Comparison) -> None:
    text = comparison.difference([
        f"import sys; sys.path.insert(0, {str(OPS)!r}); import harness",
        f"result = harness.outcomes(torch, {name!r})",
    ])  # fmt: skip
    assert text is None, text
