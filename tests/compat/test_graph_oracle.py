"""What an op keeps for backward, against PyTorch: a write or a second pass that PyTorch allows is
allowed, and no write goes unnoticed that changes a gradient.

Where PyTorch keeps more than it needs, a program that it refuses may pass here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compare import Comparison
from samples import ENTRIES

OPS = Path(__file__).parent.parent / "ops"

# Ops that keep something else than PyTorch's, which a write may then spoil.
EXPLAINED = {
    "cross_entropy": "the fused loss keeps the logits, not a second tensor of their size",
    "scaled_dot_product_attention": "made of products that keep what they are given",
    "instance_norm": "the normalised values are computed again rather than kept",
    "matmul": "a batch of products keeps its operands; PyTorch may have copied one of them",
    "kron": "made of a product that keeps its operands; PyTorch misses the write",
    "normal": "keeps the mean and deviation only for their shapes",
    "polar": "made of products that keep what they are given",
    "affine_grid_generator": "made of a product that keeps its operands",
    "linalg_matrix_power": "keeps the matrix for its shape alone where the power is 0",
    "matrix_power": "keeps the matrix for its shape alone where the power is 0",
    "special_ndtr": "made of erf, which keeps its operand",
    "trapezoid": "made of products with numbers, which are kept",
    "trapz": "made of products with numbers, which are kept",
    "cumulative_trapezoid": "made of products with numbers, which are kept",
    "gradient": "made of products with numbers, which are kept",
    **dict.fromkeys(
        ("lstm", "gru", "rnn_tanh", "rnn_relu"),
        "a layer is one step that keeps its parameters and its output, as PyTorch's on CUDA is",
    ),
    **dict.fromkeys(
        ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"),
        "a cell is one step that keeps its parameters",
    ),
}


def plain(described: Any) -> Any:
    """A description by the worker as the value it describes."""
    if isinstance(described, dict) and "items" in described:
        items = described["items"]
        if isinstance(items, dict):
            return {key: plain(item) for key, item in items.items()}
        return [plain(item) for item in items]
    return described["value"] if isinstance(described, dict) else described


def complaints(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for label, want in theirs.items():
        got = ours[label]
        if isinstance(got, str) or isinstance(want, str):
            continue  # which dtypes an op takes is compared elsewhere
        for key in want.keys() & got.keys() - {"node"}:
            ends = zip(got[key], want[key]) if key == "twice" else [(got[key], want[key])]
            for end, wanted in ends:
                if end != wanted and (wanted == "passes" or "other gradients" in end):
                    yield f"{label}, {key}: {end} where PyTorch {wanted}"


@pytest.mark.parametrize("name", ENTRIES)
def test_graph_agrees_with_pytorch(name: str, comparison: Comparison) -> None:
    program = [
        f"import sys; sys.path.insert(0, {str(OPS)!r}); import harness",
        f"result = harness.graph_facts(torch, {name!r})",
    ]
    ours, theirs = comparison.ours.run(program), comparison.theirs.run(program)
    assert "crash" not in ours
    if "crash" in theirs:
        return  # PyTorch has nothing to say
    facts = [plain(reply["variables"].get("result", {})) for reply in (ours, theirs)]
    found = list(complaints(*facts))
    assert not found or name in EXPLAINED, "\n".join(found)
