"""Random programs that are compared statement by statement, and in everything a program can see.

    python statements.py draw SEED COUNT                 programs, a JSON list of statements a line
    python statements.py run flambeau|torch < programs   what came of them, a line each
    python statements.py compare ORACLE SEED COUNT       both, and how they differ

After each statement every tensor is described: dtype, shape, strides, offset, version, whether it
wants a gradient and is a leaf, its history's name, its values and its gradient; of a statement that
raises, the kind of error. The programs are drawn by running them here, so that most statements fit.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any


def read_templates() -> dict[str, list[str]]:
    """The statements that may be drawn, by what they are for; a line each."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = kind = []
        elif line:
            kind.append(line)
    return found


TEMPLATES = read_templates()
SHAPES = ((2, 3), (3, 2), (4,), (3, 4), (2, 2, 2), (1, 3), (3, 3), (), (1,), (2, 1, 3))
EMPTIES = ((0,), (0, 3), (2, 0), (2, 0, 3))
# What is made in it is hardly of use outside.
INFERENCE = "with torch.inference_mode(): "


class Drawer:
    """Draws a program, running it as it goes."""

    def __init__(self, seed: int, lib: Any) -> None:
        self.rng, self.lib = random.Random(seed), lib
        lib.manual_seed(0)
        self.names: dict[str, Any] = {"torch": lib}
        self.statements: list[str] = []

    def tensors(self) -> list[str]:
        return [n for n, v in self.names.items() if n[0] in "vg" and isinstance(v, self.lib.Tensor)]

    def fill(self, template: str) -> str:
        names = self.tensors()
        x = self.rng.choice(names)
        tensor = self.names[x]
        like = [n for n in names if self.names[n].shape == tensor.shape]
        near = [n for n in like if self.names[n].dtype == tensor.dtype] or like
        floats = [n for n in names if self.names[n].is_floating_point()] or names
        y = self.rng.choice(near if self.rng.random() < 0.7 else like)
        if self.rng.random() < 0.1:
            y = self.rng.choice(names)
        d = self.rng.choice([0, -1, max(tensor.dim() - 1, 0), 1])
        f = self.rng.choice(floats)
        shape = self.rng.choice(SHAPES)
        if "resize_(1, 1)" in template and not tensor.numel():
            template = "{x}.zero_()"  # what new memory holds is up to the allocator
        if "out=" in template and self.share_memory(y, x, f):
            template = "{x}.add_({y})"  # what reads what it writes is up to the order
        return template.format(
            x=x, y=y, f=f, d=d, k=len(self.statements), shape=shape, n=math.prod(shape)
        )

    def share_memory(self, *names: str) -> bool:
        storages = [self.names[n].untyped_storage().data_ptr() for n in names]
        return storages[0] in storages[1:]

    def step(self) -> None:
        roll = self.rng.random()
        k = len(self.statements)
        if not self.tensors() or roll < 0.12:
            shape, empty = self.rng.choice(SHAPES), self.rng.choice(EMPTIES)
            made = self.rng.choice(TEMPLATES["creations"])
            text = f"v{k} = " + made.format(shape=shape, n=math.prod(shape), empty=empty)
        elif roll < 0.3:
            text = f"v{k} = " + self.fill(self.rng.choice(TEMPLATES["views"]))
        elif roll < 0.6:
            text = f"v{k} = " + self.fill(self.rng.choice(TEMPLATES["fresh"]))
        elif roll < 0.85:
            text = self.fill(self.rng.choice(TEMPLATES["writes"]))
        else:
            text = self.fill(self.rng.choice(TEMPLATES["passes"]))
        if self.rng.random() < 0.12:
            text = self.rng.choice(TEMPLATES["modes"]) + " " + text
        elif self.rng.random() < 0.004:
            text = INFERENCE + text
        self.statements.append(text)
        failed = bool(execute(text, self.names))
        large = any(self.names[n].numel() > 200 for n in self.tensors())
        if large or (failed and self.rng.random() < 0.6):
            self.statements.pop()  # most of what cannot be done says little
            if large:
                self.names.pop(f"v{k}", None)


# PyTorch's own words for a bug of its own, which nobody need have: a comparison ends there.
ASSERTION = "INTERNAL ASSERT"


def execute(statement: str, names: dict[str, Any]) -> str:
    """The kind of error that a statement raises, if any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(statement, names)
        except Exception as error:
            return ASSERTION if "INTERNAL ASSERT" in str(error) else type(error).__name__
    return ""


def draw(seed: int, lib: Any) -> list[str]:
    drawer = Drawer(seed, lib)
    for _ in range(drawer.rng.randint(10, 40)):
        drawer.step()
    return drawer.statements


# --- What a program can see ----------------------------------------------------------------------


def numbers(tensor: Any) -> list[Any]:
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1).tolist()
    pairs = [[v.real, v.imag] if isinstance(v, complex) else v for v in flat]
    return json.loads(json.dumps(pairs, default=str))


def version(tensor: Any) -> Any:
    try:
        return tensor._version
    except RuntimeError:
        return "RuntimeError"


def seen(tensor: Any, inside: bool = False) -> dict[str, Any]:
    """A tensor as a program sees it."""
    dtype = str(tensor.dtype).split(".")[-1]
    answer = {"dtype": dtype, "shape": list(tensor.shape), "stride": list(tensor.stride())}
    answer |= {"wants": tensor.requires_grad, "leaf": tensor.is_leaf}
    if not inside:
        answer |= {"offset": tensor.storage_offset(), "version": version(tensor)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer["grad"] = None if tensor.grad is None else seen(tensor.grad, True)
    answer["values"] = numbers(tensor)
    return answer


def run(statements: list[str], lib: Any) -> list[Any]:
    """After each statement: its error, and all tensors that have changed."""
    names: dict[str, Any] = {"torch": lib}
    lib.manual_seed(0)
    answers: list[Any] = []
    before: dict[str, Any] = {}
    for statement in statements:
        error = execute(statement, names)
        now = {}
        for name in [n for n in names if re.fullmatch(r"[vgs]\d+", n)]:
            value = names[name]
            if name[0] == "s":
                now[name] = {"value": json.loads(json.dumps(value, default=str))}
            if isinstance(value, lib.Tensor):
                try:
                    now[name] = seen(value)
                except Exception as failure:
                    now[name] = {"unreadable": type(failure).__name__}
        answers.append([error, {n: v for n, v in now.items() if before.get(n) != v}])
        before = now
    return answers


# --- Comparing -----------------------------------------------------------------------------------

# Of the least precise dtype that a program has had so far, whose last bits reach the others.
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}


def near(a: Any, b: Any, limit: float) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(near(x, y, limit) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
            return str(a) == str(b)
        return abs(a - b) <= limit * max(1.0, abs(a), abs(b))
    return bool(a == b)


def differs(ours: Any, theirs: Any, limit: float) -> str:
    """The first thing in which two descriptions differ, in words."""
    if ours is None or theirs is None or "unreadable" in ours or "unreadable" in theirs:
        return "" if ours == theirs else f"{str(ours)[:90]} | {str(theirs)[:90]}"
    for key in theirs:
        if key == "values":
            if not near(ours[key], theirs[key], limit):
                return f"values {str(ours[key])[:80]} | {str(theirs[key])[:80]}"
        elif key == "value":
            if not near(ours[key], theirs[key], limit):
                return f"value {str(ours[key])[:80]} | {str(theirs[key])[:80]}"
        elif key == "grad":
            text = differs(ours[key], theirs[key], limit)
            if text:
                return "grad " + text
        elif ours[key] != theirs[key]:
            return f"{key} {ours[key]} | {theirs[key]}"
    return ""


def first_difference(ours: list[Any] | None, theirs: list[Any] | None) -> tuple[int, str] | None:
    """The first statement after which the two differ, and how."""
    if theirs is None:
        return None
    if ours is None:
        return 0, "died"
    seen_here: dict[str, Any] = {}
    seen_there: dict[str, Any] = {}
    limit = 1e-9
    for number, (one, other) in enumerate(zip(ours, theirs)):
        if other[0] == ASSERTION:
            return None
        if one[0] != other[0]:
            return number, f"error {one[0] or 'none'} | {other[0] or 'none'}"
        seen_here |= one[1]
        seen_there |= other[1]
        dtypes = [value.get("dtype") for value in other[1].values()]
        limit = max([limit, *(TOLERANCE.get(dtype, 0.0) for dtype in dtypes)])
        for name in {**one[1], **other[1]}:
            text = differs(seen_here.get(name), seen_there.get(name), limit)
            if text:
                return number, f"{name}: {text}"
    return None


def ask(python: str, lib: str, programs: list[list[str]]) -> list[Any]:
    """The answers of a library, in a process of its own; None to a program of which it died."""
    answers: list[Any] = []
    while len(answers) < len(programs):
        text = "".join(json.dumps(p) + "\n" for p in programs[len(answers) :])
        command = [python, str(Path(__file__)), "run", lib]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
        given = [json.loads(line) for line in lines]  # libraries below print there, too
        assert given or done.returncode < 0, f"{lib} fails: {done.stderr[-500:]}"
        answers += given
        if len(answers) < len(programs):
            answers.append(None)
    return answers


def compare(oracle: str, first: int, count: int) -> list[tuple[int, list[str], int, str]]:
    """Programs that differ: seed, statements, the number of the statement, how."""
    lib = importlib.import_module("flambeau")
    programs = [draw(seed, lib) for seed in range(first, first + count)]
    theirs, ours = ask(oracle, "torch", programs), ask(sys.executable, "flambeau", programs)
    found = []
    for k, program in enumerate(programs):
        text = first_difference(ours[k], theirs[k])
        if text:
            found.append((first + k, program, *text))
    return found


def main() -> None:
    if sys.argv[1] == "run":
        lib = importlib.import_module(sys.argv[2])
        lib.set_num_threads(1)
        for line in sys.stdin:
            print(json.dumps(run(json.loads(line), lib)), flush=True)
        return
    if sys.argv[1] == "draw":
        lib = importlib.import_module("flambeau")
        for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
            print(json.dumps(draw(seed, lib)))
        return
    first, count = int(sys.argv[3]), int(sys.argv[4])
    found = compare(sys.argv[2], first, count)
    for seed, program, number, text in found:
        print(f"{seed:6} {number:3} {program[number]:60} {text}")
    kinds = Counter(re.sub(r"^\w+: ", "", text).split(" ")[0] for *_, text in found)
    print(f"{count - len(found)} of {count} programs agree; {dict(kinds)}")


if __name__ == "__main__":
    main()
