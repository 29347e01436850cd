"""Runs the same program under Flambeau and under PyTorch and finds the first difference.

The interpreter that has PyTorch is named by the environment variable FLAMBEAU_ORACLE. Without it,
what PyTorch answered is read from recorded.json.gz, which a run with FLAMBEAU_RECORD=1 writes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from explained import INTEGERS, explanation
from refused import Case

WORKER = Path(__file__).with_name("worker.py")
RECORDED = Path(__file__).with_name("recorded.json.gz")
ORACLE = os.environ.get("FLAMBEAU_ORACLE")
RECORDING = ORACLE is not None and "FLAMBEAU_RECORD" in os.environ

# Programs chain operations, so these are wider than the tolerances of single ops.
TOLERANCES = {
    "float64": 1e-9,
    "complex128": 1e-9,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 2e-2,
    "bfloat16": 8e-2,
}

# How often PyTorch is run with other last bits, to see what rounding can do.
SHAKEN_RUNS = 4


class Worker:
    """A process that runs programs under one library; it is started anew when it dies."""

    def __init__(self, interpreter: str, module: str) -> None:
        self.command = [interpreter, str(WORKER), module]
        self.process: subprocess.Popen[str] | None = None

    def run(self, statements: list[str], shaken: int = 0) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps([statements, shaken]) + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
        except BrokenPipeError:
            reply = ""
        if not reply:
            status = self.process.wait()
            self.process = None
            return {"crash": status}
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            # Processes that were forked meanwhile may hold the pipe open: it would wait for ever.
            self.process.kill()
            self.process.wait()
            self.process = None


class Recording:
    """PyTorch's answers, kept by a digest of the program."""

    def __init__(self, live: Worker | None) -> None:
        self.live = live
        self.answers: dict[str, Any] = {}
        if live is None:
            self.answers = json.loads(gzip.decompress(RECORDED.read_bytes()))

    def run(self, statements: list[str], shaken: int = 0) -> dict[str, Any]:
        assert not shaken, "only single ops are recorded"
        key = hashlib.sha1("\n".join(statements).encode()).hexdigest()[:16]
        if self.live is not None:
            self.answers[key] = self.live.run(statements)
        answer: dict[str, Any] = self.answers[key]
        return answer

    def close(self) -> None:
        if self.live is not None:
            self.live.close()
            text = json.dumps(dict(sorted(self.answers.items())), separators=(",", ":"))
            RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))


class Comparison:
    """Both libraries, side by side."""

    def __init__(
        self, theirs: Worker | Recording, tolerances: dict[str, float], shakes: bool = True
    ) -> None:
        self.shakes = shakes  # whether rounding may do what it does in PyTorch's own runs
        self.ours = Worker(sys.executable, "flambeau")
        self.theirs = theirs
        self.tolerances = tolerances
        self.widest = 0.0
        self.explained: Counter[str] = Counter()  # how often each reason was needed

    def difference(self, statements: list[str]) -> str | None:
        """The first difference between the two on a program, or None."""
        found = self.differences(statements)
        return found[0] if found else None

    def differences(self, statements: list[str]) -> list[str]:
        """How the two differ on a program, statement by statement and variable by variable."""
        theirs = self.theirs.run(statements)
        if "crash" in theirs:
            return []  # nothing to compare with
        self.widest = self._widest("\n".join(statements))
        ours = self.ours.run(statements)
        if "crash" in ours:
            return [f"Flambeau died with status {ours['crash']}"]
        found = [*self._errors(statements, ours, theirs), *self._variables(ours, theirs)]
        if found and self.shakes:
            shaken = [self.theirs.run(statements, k) for k in range(1, 1 + SHAKEN_RUNS)]
            runs = [run["variables"] for run in shaken if "variables" in run]
            errors = self._errors(statements, ours, theirs)
            found = [*errors, *self._variables(ours, theirs, runs)]
        if not found:
            return []
        reason = explanation(Case(statements, ours, theirs, lambda n: self._before(statements, n)))
        if reason is None:
            return found
        self.explained[reason[1]] += 1
        return self.differences(statements[: reason[0]] + statements[reason[0] + 1 :])

    def _before(self, statements: list[str], number: int) -> tuple[Any, Any]:
        """What the variables were, here and there, before a statement."""
        ours, theirs = self.ours.run(statements[:number]), self.theirs.run(statements[:number])
        return ours.get("variables", {}), theirs.get("variables", {})

    def _widest(self, text: str) -> float:
        """The tolerance of the least precise dtype that a program uses, whose errors reach the
        others. Integers and bools become float32 without its being named."""
        names = set(re.findall(r"torch\.((?:b?float|complex|u?int)\d+|bool)", text))
        if names & {*INTEGERS}:
            names.add("float32")
        return max((self.tolerances.get(name, 0.0) for name in names), default=0.0)

    def _errors(self, statements: list[str], ours: Any, theirs: Any) -> Iterator[str]:
        found = {number: (kind, text) for number, kind, text in ours["errors"]}
        wanted = {number: (kind, text) for number, kind, text in theirs["errors"]}
        for number in sorted(found.keys() | wanted.keys()):
            got, want = found.get(number), wanted.get(number)
            if not _alike(got and got[0], want and want[0]):
                yield f"`{statements[number]}` raises {got} instead of {want}"

    def _variables(self, ours: Any, theirs: Any, runs: Sequence[Any] = ()) -> Iterator[str]:
        """Variables that differ, beyond what PyTorch's own do in runs with other last bits."""
        for name, want in theirs["variables"].items():
            got = ours["variables"].get(name)
            shaken = _inside(runs, name)
            if name == "seen":  # by hooks: how often one of no elements comes by says nothing
                got, want, *shaken = map(_with_elements, (got, want, *shaken))
            text = self._described(got, want, shaken)
            if text is not None:
                yield f"{name}: {text}"

    def _described(
        self, got: Any, want: Any, runs: Sequence[Any] = (), inside: bool = False
    ) -> str | None:
        """How two descriptions made by the worker differ."""
        if got is None or want is None:
            if inside and 0 in (got or want or {}).get("shape", ()):
                return None  # nor whether there is one
            return None if got is want else f"{_short(got)} instead of {_short(want)}"
        if "python" in want:
            return self._python(got, want, runs)
        for key in ("dtype", "shape", "requires_grad", "is_leaf"):
            # Whether a gradient of no elements has a history is of no consequence.
            empty = inside and 0 in want["shape"] and key in ("requires_grad", "is_leaf")
            if got.get(key) != want.get(key) and not empty:
                return f"{key} {got.get(key)} instead of {want.get(key)}"
        # A gradient that PyTorch leaves expanded may be written out.
        expanded = inside and 0 in want["stride"]
        if _layout(got, inside) != _layout(want, inside) and not expanded:
            return f"stride, offset {_layout(got, inside)} instead of {_layout(want, inside)}"
        if not self._close(got["values"], want["values"], want["dtype"], _inside(runs, "values")):
            return f"values {got['values']} instead of {want['values']} ({want['dtype']})"
        grad = self._described(got.get("grad"), want.get("grad"), _inside(runs, "grad"), True)
        return None if grad is None else f"grad: {grad}"

    def _python(self, got: Any, want: Any, runs: Sequence[Any]) -> str | None:
        if got.get("python") != want["python"]:
            return f"{_short(got)} instead of {_short(want)}"
        items = want.get("items")
        if isinstance(items, list):
            if len(got["items"]) != len(items):
                return f"{len(got['items'])} items instead of {len(items)}"
            pairs: list[Any] = [(k, g, w) for k, (g, w) in enumerate(zip(got["items"], items))]
        elif isinstance(items, dict):
            if list(got["items"]) != list(items):
                return f"keys {list(got['items'])} instead of {list(items)}"
            pairs = [(k, got["items"][k], w) for k, w in items.items()]
        elif want["python"] in ("float", "complex"):
            others = [[value] for value in _inside(runs, "value")]
            same = self._close([got["value"]], [want["value"]], "float32", others)
            return None if same else f"{got['value']} instead of {want['value']}"
        else:
            same = got["value"] == want["value"]
            if want["python"] == "undescribable":  # with the same exception, in other words
                same = got["value"].split(":")[0] == want["value"].split(":")[0]
            return None if same else f"{got['value']!r} instead of {want['value']!r}"
        found = []
        for key, one, other in pairs:
            text = self._described(one, other, _inside(_inside(runs, "items"), key), True)
            if text is not None:
                found.append(f"[{key}] {text}")
        rest = [f"... and {len(found) - 12} more"] if len(found) > 12 else []
        return "\n  ".join(found[:12] + rest) or None

    def _close(
        self, got: list[Any], want: list[Any], dtype: str, runs: Sequence[list[Any]] = ()
    ) -> bool:
        """Equality, within the tolerance of the dtype relative to the largest finite element, or
        of how far runs with other last bits lie apart."""
        runs = [run for run in runs if len(run) == len(want)]
        if len(got) != len(want):
            return False
        if dtype.startswith("complex"):  # of one that is not finite, any part may be what it is
            kept = [k for k, (x, y) in enumerate(zip(got, want)) if _finite(x) or _finite(y)]
            got, want, *runs = ([values[k] for k in kept] for values in (got, want, *runs))
        one, other = _flat(got), _flat(want)
        moved = [*zip(*map(_flat, runs))] or [()] * len(other)
        largest = max((abs(x) for x in other if math.isfinite(x)), default=0.0)
        limit = self.tolerances.get(dtype, 0.0)
        if dtype in self.tolerances:
            limit = max(limit, self.widest)
        limit *= max(1.0, largest)
        if limit:
            apart = [abs(z - y) for y, zs in zip(other, moved) for z in zs]
            limit = max([limit, *(16 * gap for gap in apart if math.isfinite(gap))])
        return all(
            _near(x, y, limit)
            or any(z == x if not limit else _kind(x) == _kind(z) != _kind(y) for z in zs)
            for x, y, zs in zip(one, other, moved)
        )


def _inside(runs: Sequence[Any], key: Any) -> list[Any]:
    """A part of the descriptions that have it."""
    found = []
    for run in runs:
        try:
            found.append(run[key])
        except (TypeError, KeyError, IndexError):
            continue
    return [part for part in found if part is not None]


def _with_elements(described: Any) -> Any:
    items = [item for item in described["items"] if 0 not in item.get("shape", ())]
    return {**described, "items": items}


def _flat(values: list[Any]) -> list[float]:
    return [part for value in values for part in (value if isinstance(value, list) else [value])]


def _finite(value: Any) -> bool:
    return all(map(math.isfinite, value if isinstance(value, list) else [value]))


def _kind(x: float) -> float:
    """Tells numbers, NaN and the two infinities apart."""
    return 0.0 if math.isfinite(x) else 2.0 if math.isnan(x) else math.copysign(1.0, x)


def _near(x: float, y: float, limit: float) -> bool:
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    return x == y or abs(x - y) <= limit


def _layout(described: Any, inside: bool) -> Any:
    """Strides and offset. A stride that nothing steps along means nothing and is left free; so is
    where in some memory of the library's own a gradient lies."""
    if 0 in described["shape"]:
        return None
    steps = [s for s, n in zip(described["stride"], described["shape"]) if n > 1]
    return steps, None if inside else described["offset"]


def _alike(one: str | None, two: str | None) -> bool:
    """Whether two exceptions count as the same: where several things are wrong with a statement,
    either library may see another first, so an error and its subclass do."""
    runtime = ("RuntimeError", "NotImplementedError")
    return one == two or (one in runtime and two in runtime)


def _short(value: Any) -> str:
    return repr(value)[:200]


def shrink(statements: list[str], comparison: Comparison) -> list[str]:
    """The shortest program found, by leaving out statements, on which the two still differ."""
    changed = True
    while changed:
        changed = False
        for position in reversed(range(len(statements))):
            shorter = statements[:position] + statements[position + 1 :]
            if shorter and comparison.difference(shorter) is not None:
                statements, changed = shorter, True
    return statements


def report(statements: list[str], comparison: Comparison) -> str:
    """The minimal program and its difference, to be pasted into a bug report."""
    least = statements if ORACLE is None else shrink(statements, comparison)
    return "\n".join([*least, f"# {comparison.difference(least)}"])
