"""Every sample of every op gives PyTorch's result, strides and exception for every dtype.

Where the two differ and should, the sample is named below with the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from compare import Comparison
from samples import ENTRIES

OPS = Path(__file__).parent.parent / "ops"

# Reason -> op -> what is found in "name(call) dtype layout" of the samples it explains.
EXPLAINED: dict[str, dict[str, str]] = {
    "PyTorch has a complex32, Flambeau has none": {
        "complex": " float16 ",
        "polar": " float16 ",
        "view_as_complex": " float16 ",
    },
    "PyTorch looks at the dtype only where there is an element": {
        "softmax": r"t\((0, 3|3, 0)\)",
        "log_softmax": r"t\((0, 3|3, 0)\)",
        "scaled_dot_product_attention": r"t\(0, |bool",
        "cauchy_": r"t\(0, 2\)",
        "poisson": r"t\(0, 2\)",
        "amax": r"t\(2, 0\)",
        "amin": r"t\(2, 0\)",
        "cummax": r"complex",
        "cummin": r"complex",
        "kthvalue": r"t\(\)|t\(0, 3\)",
        "median": r"t\(2, 0\)",
        "nanmedian": r"t\(2, 0\)",
        "mm": r"t\(2, 0\)",
        "bmm": r"t\(2, 3, 0\)",
        "mv": r"t\(3, 0\)",
        "addmm": r"t\(2, 0\)",
        "addmv": r"t\(2, 0\)",
        "addbmm": r"t\(0, 3, 4\)",
    },
    "PyTorch cannot view the strided tensor that it makes on the way": {
        "take_along_dim": r"t\(5,\):int64\) \w+ transposed",
        "kron": r"t\(2,\)\) \w+ transposed",
    },
    "PyTorch hands an empty tensor back as it is": {"pixel_unshuffle": r"t\(0, "},
    "the order of equal elements is free without stable=True": {
        "sort": r"descending=True\) bool",
    },
}


def patterns(name: str) -> list[str]:
    return [ops[name] for ops in EXPLAINED.values() if name in ops]


@pytest.mark.parametrize("name", ENTRIES)
def test_samples_agree_with_pytorch(name: str, comparison: Comparison) -> None:
    text = comparison.difference([
        f"import re, sys; sys.path.insert(0, {str(OPS)!r}); import harness",
        f"explained = {patterns(name)!r}",
        f"result = {{key: value for key, value in harness.outcomes(torch, {name!r}).items()"
        " if not any(re.search(pattern, key) for pattern in explained)}",
    ])  # fmt: skip
    assert text is None, text


def test_explained_ops_have_samples() -> None:
    assert [op for ops in EXPLAINED.values() for op in ops if op not in ENTRIES] == []
