"""Times statements with Flambeau and PyTorch, each in a process of its own that stays alive.

The two take turns statement by statement, so that a busy moment of the machine hits both alike;
what counts is the best of all rounds. A benchmark says which names its statements use (`names`),
hands its command line to `main`, and prints its own table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

TURNS = 31
Names = Callable[[Any, str], dict[str, Any]]  # of the library and a case: what statements mention


def work(library: str, threads: int, names: Names) -> None:
    """Answers each [case, statement] read from standard input with its time in microseconds.

    A list of statements takes turns, and is answered with the times of every turn.
    """
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    print(json.dumps(str(torch.__version__)), flush=True)
    repeats: dict[str, int] = {}
    current = None
    scope: dict[str, Any] = {}
    for line in sys.stdin:
        case, statement = json.loads(line)
        if case != current:
            scope.clear()  # before the next case's tensors are made
            current, scope = case, names(torch, case)
        if isinstance(statement, list):
            timers = [timeit.Timer(one, globals=scope) for one in statement]
            turns = [[timer.timeit(1) * 1e6 for timer in timers] for _ in range(TURNS)]
            print(json.dumps(turns), flush=True)
            continue
        timer = timeit.Timer(statement, globals=scope)
        if line not in repeats:
            try:
                timer.timeit(1)
            except Exception as error:
                print(f"{library}: {statement}: {error}", file=sys.stderr)
                print("null", flush=True)
                continue
            once = timer.timeit(1)
            if once < 1e-3:
                once = timer.timeit(20) / 20
            repeats[line] = max(1, int(0.001 / once))
        # Many short samples: on a busy machine some of them are not interrupted.
        number = repeats[line]
        samples: list[float] = []
        while len(samples) < 3 or (len(samples) < 30 and sum(samples) < 0.03):
            samples.append(timer.timeit(number))
        print(json.dumps(min(samples) / number * 1e6), flush=True)


class Worker:
    """A process that times statements with one library."""

    def __init__(self, interpreter: str, library: str, script: str, threads: int) -> None:
        self.threads = threads
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if library == "flambeau":
            environment.setdefault("PYTHONPATH", str(Path(__file__).parents[1] / "python"))
        else:
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [interpreter, script, "--worker", library, "--threads", str(threads)],
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

    def microseconds(self, case: str, statement: str) -> float:
        """Its time; infinite where the library raised an exception, which the worker printed."""
        time = self.ask(case, statement)
        return float("inf") if time is None else time

    def turns(self, case: str, statements: list[str]) -> list[list[float]]:
        """The times of the statements in each of many turns, which end before the machine has
        changed its mind."""
        return self.ask(case, statements)

    def ask(self, case: str, statement: str | list[str]) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([case, statement]) + "\n")
        self.process.stdin.flush()
        return self.receive()


def measure(
    workers: list[Worker], statements: list[tuple[str, str]], rounds: int
) -> list[list[float]]:
    """The best time of each (case, statement), a column a worker."""
    best = [[float("inf")] * len(workers) for _ in statements]
    for _ in range(rounds):
        for row, (case, statement) in enumerate(statements):
            for column, worker in enumerate(workers):
                time = worker.microseconds(case, statement)
                best[row][column] = min(best[row][column], time)
    return best


def parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--oracle", default=os.environ.get("FLAMBEAU_ORACLE"))
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--only", default="", help="rows that match this expression")
    made.add_argument("--strict", action="store_true", help="fail when a limit is exceeded")
    made.add_argument("--worker", help=argparse.SUPPRESS)
    return made


def main(
    made: argparse.ArgumentParser,
    script: str,
    names: Names,
    run: Callable[[argparse.Namespace, list[Worker]], bool],
) -> int:
    """Is the worker, or starts the workers and calls `run`, which says whether limits were kept."""
    arguments = made.parse_args()
    if arguments.worker:
        work(arguments.worker, arguments.threads, names)
        return 0
    workers = [Worker(sys.executable, "flambeau", script, arguments.threads)]
    if arguments.oracle:
        workers.append(Worker(arguments.oracle, "torch", script, arguments.threads))
    kept = run(arguments, workers)
    return 1 if arguments.strict and not kept else 0
