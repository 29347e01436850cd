"""How near the ops that models are made of come to memory's speed: Flambeau beside PyTorch.

    python benchmarks/memory.py [--oracle /path/to/python-with-torch] [--threads 2] [--only gelu]

Every row says how many bytes an op must read and write at least, and compares its time with that of
a plain copy that moves as many. Outputs are freshly allocated each call. The aim: at 64 MB within
1.5 times the copy, at 4 MB at least 1.5 times as fast as PyTorch. Attention multiplies each element
by all tokens; its last column compares its arithmetic with that of a product of large matrices.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NamedTuple

from side_by_side import Worker, main, measure, parser

SIZES = {"64 MB": 1 << 24, "4 MB": 1 << 20}  # elements of a float32 tensor
MATRIX = 256  # rows and columns of a product that is bound by arithmetic


class Row(NamedTuple):
    name: str
    statement: str
    tensors: float  # that are read or written, as many as the op must
    operations: int = 0  # of arithmetic an element, where they are many


ROWS = [
    Row("gelu", "functional.gelu(x)", 2),
    Row("silu", "functional.silu(x)", 2),
    Row("softmax", "torch.softmax(x, 1)", 2),
    Row("layer_norm", "functional.layer_norm(x, x.shape[1:], w, b)", 2),
    Row("cross-entropy", "functional.cross_entropy(x, target)", 1),
    *(
        Row(
            f"attention, {tokens} tokens",
            f"functional.scaled_dot_product_attention(*(x.view(1, -1, {tokens}, 64) for x in qkv))",
            1,
            tokens,  # each of a quarter of the elements is in two products, multiplied and added
        )
        for tokens in (16, 64)
    ),
    Row("Adam step", "optimizer.step()", 7),
]


def copied(row: Row) -> str:
    """A copy that moves as many bytes as the row."""
    return f"source[: source.numel() * {row.tensors:g} // 8].clone()"


def names(torch: Any, case: str) -> dict[str, Any]:
    """The tensors of one size: rows of 1,024 elements, as a transformer has them."""
    n, width = SIZES[case], 1024
    torch.manual_seed(0)
    x = torch.randn(n // width, width)
    parameter = torch.nn.Parameter(torch.ones(n))
    parameter.grad = torch.ones(n)
    return {
        "torch": torch,
        "functional": torch.nn.functional,
        "x": x,
        "w": torch.randn(width),
        "b": torch.randn(width),
        "target": torch.randint(0, width, (n // width,)),
        "qkv": x.flatten()[: n // 4 * 3].view(3, -1),  # a quarter of the bytes each, as the result
        "matrix": torch.randn(MATRIX, MATRIX),
        "optimizer": torch.optim.Adam([parameter], fused=True),
        "source": torch.ones(4 * n),
    }


def run(arguments: argparse.Namespace, workers: list[Worker]) -> bool:
    chosen = [
        (case, row) for case in SIZES for row in ROWS if re.search(arguments.only, row.name + case)
    ]
    statements = [(case, each) for case, row in chosen for each in (row.statement, copied(row))]
    best = measure(workers, [*statements, ("4 MB", "matrix @ matrix")], arguments.rounds)
    fastest = 2 * MATRIX**3 / best.pop()[0]  # operations a microsecond
    kept = True
    print("| op | size | MB moved | Flambeau us | copy us | times | PyTorch us | GFLOP/s (share) |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for (case, row), (ours, *theirs), (copy, *_) in zip(chosen, best[::2], best[1::2], strict=True):
        moved = row.tensors * SIZES[case] * 4 / 1e6
        other = f"{theirs[0]:.0f} ({theirs[0] / ours:.2f})" if theirs else ""
        speed = row.operations * SIZES[case] / ours
        arithmetic = f"{speed / 1e3:.0f} ({speed / fastest:.2f})" if speed else ""
        cells = (
            f"{moved:.0f} | {ours:.0f} | {copy:.0f} | {ours / copy:.2f} | {other} | {arithmetic}"
        )
        print(f"| {row.name} | {case} | {cells} |")
        if case == "64 MB":
            kept &= ours <= 1.5 * copy
        elif theirs:
            kept &= theirs[0] >= 1.5 * ours
    return kept


if __name__ == "__main__":
    sys.exit(main(parser(__doc__, rounds=3), __file__, names, run))
