"""What one call costs when the tensors are small: Flambeau beside PyTorch.

    python benchmarks/overhead.py [--oracle /path/to/python-with-torch] [--rounds 9]

Each row shows the best of all rounds in microseconds. Without an oracle (or the environment
variable FLAMBEAU_ORACLE) only Flambeau's column is printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, NamedTuple

from side_by_side import Worker, main, measure, parser


class Row(NamedTuple):
    name: str
    statement: str
    limit: float  # the share of PyTorch's time that this row may take


ROWS = [
    Row("a + b", "a + b", 1 / 3),
    Row("a + 1.0", "a + 1.0", 1 / 3),
    Row("a += 1.0 (in place)", "a.add_(1.0)", 1 / 2),
    Row("a + b with grad", "w + b", 1 / 2),
    Row("view", "a.view(16)", 1 / 2),
    Row("index a[0]", "a[0]", 1 / 2),
    Row("slice a[1:3, ::2]", "a[1:3, ::2]", 1 / 2),
    Row("transpose", "a.t()", 1 / 2),
    Row("sum", "a.sum()", 1 / 2),
    Row("relu", "torch.relu(a)", 1 / 2),
    Row("softmax", "torch.softmax(a, 1)", 1 / 2),
    Row("cat", "torch.cat(pair)", 1 / 2),
    Row("empty", "torch.empty(4, 4)", 1 / 2),
    Row("matmul 4x4", "a @ b", 1 / 2),
    Row("item", "s.item()", 1 / 2),
    Row("Linear", "linear(x)", 1 / 2),
    Row("Linear forward + backward", "linear(x).sum().backward()", 1 / 2),
    Row("chain of 100 forward + backward", "chain(w)", 1 / 2),
    Row("MLP step, SGD", "mlp_step(sgd_model, sgd)", 1 / 2),
    Row("MLP step, Adam", "mlp_step(adam_model, adam)", 1 / 2),
]


def names(torch: Any, case: str) -> dict[str, Any]:
    """Everything that the statements of ROWS mention."""
    nn, functional = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    batch, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def mlp() -> Any:
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def chain(leaf: Any) -> None:
        y = leaf
        for _ in range(50):
            y = y * 1.01
            y = y + 0.01
        y.sum().backward()

    def mlp_step(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()

    a, b = torch.randn(4, 4), torch.randn(4, 4)
    sgd_model, adam_model = mlp(), mlp()
    return {
        "torch": torch,
        "a": a,
        "b": b,
        "w": torch.randn(4, 4, requires_grad=True),
        "s": torch.tensor(1.5),
        "x": torch.randn(4, 16),
        "pair": [a, b],
        "linear": nn.Linear(16, 16),
        "chain": chain,
        "mlp_step": mlp_step,
        "sgd_model": sgd_model,
        "sgd": torch.optim.SGD(sgd_model.parameters(), lr=0.01),
        "adam_model": adam_model,
        "adam": torch.optim.Adam(adam_model.parameters()),
    }


def run(arguments: argparse.Namespace, workers: list[Worker]) -> bool:
    """Prints a Markdown table; whether every row keeps its limit."""
    rows = [row for row in ROWS if re.search(arguments.only, row.name)]
    best = measure(workers, [("", row.statement) for row in rows], arguments.rounds)
    compared = len(workers) > 1
    print(f"| microseconds | Flambeau {workers[0].version} |", end="")
    print(f" PyTorch {workers[1].version} | ratio | limit |" if compared else "")
    print("|---|---:|" + ("---:|---:|---:|" if compared else ""))
    within = True
    for row, (ours, *theirs) in zip(rows, best, strict=True):
        line = f"| {row.name} | {ours:.2f} |"
        if theirs:
            ratio = ours / theirs[0]
            kept = ratio <= row.limit
            within = within and kept
            limit = f"{row.limit:.2f}" if kept else f"{row.limit:.2f} exceeded"
            line += f" {theirs[0]:.2f} | {ratio:.2f} | {limit} |"
        print(line)
    return within


if __name__ == "__main__":
    # One thread: what is measured is the cost of a call, not of waking another.
    sys.exit(main(parser(__doc__, rounds=9), __file__, names, run))
