"""What one call costs when the tensors are small: Flambeau beside PyTorch.

    python benchmarks/overhead.py [--oracle /path/to/python-with-torch] [--rounds 9]

Two worker processes, one a library, stay alive and take turns row by row, so that a busy moment of
the machine hits both alike; each row shows the best of all rounds in microseconds. Without an
oracle (or the environment variable FLAMBEAU_ORACLE) only Flambeau's column is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import timeit
from pathlib import Path
from typing import IO, Any, NamedTuple


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


def names(torch: Any) -> dict[str, Any]:
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


def work(library: str) -> None:
    """Answers each statement read from standard input with its time in microseconds."""
    torch = importlib.import_module(library)
    torch.set_num_threads(1)  # what is measured is the cost of a call, not of waking a thread
    scope = names(torch)
    print(json.dumps(str(torch.__version__)), flush=True)
    repeats: dict[str, int] = {}
    for line in sys.stdin:
        statement = json.loads(line)
        timer = timeit.Timer(statement, globals=scope)
        if statement not in repeats:
            once = timer.timeit(20) / 20
            repeats[statement] = max(5, int(0.01 / once))
        number = repeats[statement]
        print(json.dumps(min(timer.repeat(3, number)) / number * 1e6), flush=True)


class Worker:
    """A process that times statements with one library."""

    def __init__(self, interpreter: str, library: str) -> None:
        environment = dict(os.environ)
        if library == "flambeau":
            environment.setdefault("PYTHONPATH", str(Path(__file__).parents[1] / "python"))
        else:
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [interpreter, __file__, "--worker", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.version = self.receive()

    def receive(self) -> Any:
        stdout: IO[str] | None = self.process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended with status {self.process.wait()}")
        return json.loads(line)

    def microseconds(self, statement: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(statement) + "\n")
        self.process.stdin.flush()
        return self.receive()


def measure(workers: list[Worker], rows: list[Row], rounds: int) -> dict[str, list[float]]:
    best = {row.name: [float("inf")] * len(workers) for row in rows}
    for _ in range(rounds):
        for row in rows:
            for column, worker in enumerate(workers):
                time = worker.microseconds(row.statement)
                best[row.name][column] = min(best[row.name][column], time)
    return best


def report(workers: list[Worker], rows: list[Row], best: dict[str, list[float]]) -> bool:
    """Prints a Markdown table; whether every row keeps its limit."""
    compared = len(workers) > 1
    print(f"| microseconds | Flambeau {workers[0].version} |", end="")
    print(f" PyTorch {workers[1].version} | ratio | limit |" if compared else "")
    print("|---|---:|" + ("---:|---:|---:|" if compared else ""))
    within = True
    for row in rows:
        ours, *theirs = best[row.name]
        line = f"| {row.name} | {ours:.2f} |"
        if theirs:
            ratio = ours / theirs[0]
            kept = ratio <= row.limit
            within = within and kept
            limit = f"{row.limit:.2f}" if kept else f"{row.limit:.2f} exceeded"
            line += f" {theirs[0]:.2f} | {ratio:.2f} | {limit} |"
        print(line)
    return within


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", default=os.environ.get("FLAMBEAU_ORACLE"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose name contains this text")
    parser.add_argument("--strict", action="store_true", help="fail when a limit is exceeded")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return 0
    rows = [row for row in ROWS if arguments.only in row.name]
    workers = [Worker(sys.executable, "flambeau")]
    if arguments.oracle:
        workers.append(Worker(arguments.oracle, "torch"))
    within = report(workers, rows, measure(workers, rows, arguments.rounds))
    return 1 if arguments.strict and not within else 0


if __name__ == "__main__":
    sys.exit(main())
