"""Calls registered ops with random, hostile and boundary arguments, and reports what must not be:
a crash, a hang, an exception that no user should see, or memory that nobody asked for.

    python tools/fuzz.py [--calls 100000] [--seed 0] [--ops REGEX]

Half of them are nearly right: a sample of tests/ops in which one or two arguments were changed, so
that they pass the first checks. Calls run in child processes, a batch each. The arguments of a call
follow from its seed, so that `--repeat SEED` runs a reported call again, alone. `make fuzz` runs it
under the sanitizers.
"""

from __future__ import annotations

import argparse
import math
import mmap
import os
import random
import re
import resource
import signal
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "python"))  # PYTHONPATH comes first
sys.path.append(str(Path(__file__).parent.parent / "tests" / "ops"))

import harness
from samples import ENTRIES
from samples.spec import Op

import flambeau as torch

BATCH = 2000
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
SECONDS = 60 if SANITIZED else 20  # for one call
LARGE = 1 << 24  # elements of a result that is not summed up to be differentiated
UNASKED = 512 << 20  # bytes that a call may take beyond what goes in and comes out
EXPECTED = (
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    NotImplementedError,
    OverflowError,
    ZeroDivisionError,
    MemoryError,
)
DTYPES = """bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64
complex64 complex128""".split()
SMALL = (0, 1, 2, 3, -1, -2, 4, 5, -3, 7)
EXTREME = (2**63 - 1, -(2**63), 2**62, 2**40, -(2**40), 65)
REALS = (0.0, 1.0, 0.5, -1.0, 2.0, math.inf, -math.inf, math.nan, 1e-300, 1e300, -0.0)
WORDS = """linear mean sum amax amin prod reflect replicate circular constant none same valid
fro nuc left right gels gelsd reduced complete r L U trunc floor lower higher nearest bilinear
area backward forward ortho ij xy ij,jk->ik i->""".split()
# They wait for something outside the process, or change a setting of all that follow.
LEFT_OUT = re.compile(r"_cuda.*|set_.*|_set_.*|manual_seed.*|_accelerator.*")


@dataclass
class Ops:
    """What is called: rows of the registry, and samples."""

    rows: list[dict[str, Any]]
    entries: list[Op]


class Arguments:
    """Random arguments for the kinds that the registry names."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def make(self, kind: str) -> Any:
        if self.rng.random() < 0.02:
            return self.rng.choice([None, "?", object(), [], {}, 3, 2.5])
        maker = getattr(self, kind, None)
        return maker() if maker else None

    def sizes(self) -> list[int]:
        return [
            self.rng.choice((0, 1, 2, 3, 3, 4, 5))
            for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3, 4)))
        ]

    def tensor(self) -> Any:
        rng = self.rng
        if rng.random() < 0.05:
            return None
        dtype = getattr(torch, rng.choice(DTYPES if rng.random() < 0.5 else ["float32", "int64"]))
        sizes = rng.choice(([3, 4], [2, 3, 4], [5])) if rng.random() < 0.4 else self.sizes()
        device = "meta" if rng.random() < 0.04 else "cpu"
        x = torch.empty(sizes, dtype=dtype, device=device)
        if device == "cpu":
            x.copy_(
                torch.randint(-3, 6, sizes).to(dtype) if rng.random() < 0.5 else torch.randn(sizes)
            )
            if rng.random() < 0.1 and x.numel() and x.is_floating_point():
                x.view(-1)[0] = rng.choice((math.inf, -math.inf, math.nan, -0.0, 1e-30))
        x = self.laid_out(x)
        if rng.random() < 0.03:
            return self.unlike(x)
        if rng.random() < 0.2 and (dtype.is_floating_point or dtype.is_complex):
            x = x.detach().requires_grad_()
        return x

    def laid_out(self, x: Any) -> Any:
        way = self.rng.random()
        if way < 0.2 and x.dim() > 1:
            return x.transpose(0, -1)
        if way < 0.3 and x.dim() > 0 and x.size(0) > 1:
            return x[::2]
        if way < 0.4 and x.dim() > 0:
            return x[:1].expand(x.shape) if x.size(0) else x
        return x

    def unlike(self, x: Any) -> Any:
        """A tensor that most ops cannot take as it is: sparse, or with a sign still pending."""
        if x.is_meta or x.is_complex() or self.rng.random() < 0.3:
            return x.conj() if x.is_complex() else torch._C._neg_view(x) if x.is_signed() else x
        return x.to_sparse_csr() if x.dim() == 2 and self.rng.random() < 0.5 else x.to_sparse()

    def tensors(self) -> Any:
        return [self.tensor() for _ in range(self.rng.choice((0, 1, 2, 3)))]

    def operand(self) -> Any:
        return self.tensor() if self.rng.random() < 0.6 else self.scalar()

    def scalar(self) -> Any:
        number = (self.integer, self.real, self.boolean, lambda: complex(self.real(), 1.0))
        return self.rng.choice(number)()

    def integer(self) -> int:
        return self.rng.choice(SMALL if self.rng.random() < 0.93 else EXTREME)

    def real(self) -> float:
        return self.rng.choice(REALS)

    def boolean(self) -> bool:
        return self.rng.random() < 0.5

    def ints(self) -> Any:
        if self.rng.random() < 0.3:
            return self.integer()
        return [self.integer() for _ in range(self.rng.choice((0, 1, 1, 2, 2, 3, 4)))]

    def reals(self) -> Any:
        return [self.real() for _ in range(self.rng.choice((0, 1, 2, 3)))]

    def dtype(self) -> Any:
        return getattr(torch, self.rng.choice(DTYPES)) if self.rng.random() < 0.7 else None

    def device(self) -> Any:
        return self.rng.choice((None, "cpu", "meta", "cpu:0"))

    def string(self) -> Any:
        return self.rng.choice(WORDS)

    def memory_format(self) -> Any:
        return self.rng.choice(
            (torch.contiguous_format, torch.preserve_format, torch.channels_last)
        )

    def layout(self) -> Any:
        return torch.strided


def parameters(signature: str) -> list[tuple[str, bool, bool]]:
    """Name, whether it can be left out, and whether it goes by keyword, of each parameter."""
    inside = signature[signature.index("(") + 1 :].split(" -> ")[0].rstrip(" ").removesuffix(")")
    found, keyword, depth, piece = [], False, 0, ""
    for letter in inside + ",":
        depth += (letter in "([") - (letter in ")]")
        if letter != "," or depth:
            piece += letter
            continue
        text, piece = piece.strip(), ""
        if text == "*":
            keyword = True
        elif text:
            name, _, default = text.lstrip("*").partition("=")
            found.append((name, bool(default) or text.startswith("**"), keyword))
    return found


class Changed(Arguments):
    """Arguments that differ from given ones."""

    def changed(self, value: Any) -> Any:
        if self.rng.random() < 0.05:
            return self.make("operand")
        if isinstance(value, torch.Tensor):
            return self.changed_tensor(value)
        if isinstance(value, (list, tuple)):
            return self.changed_list(list(value))
        kinds = {bool: "boolean", int: "integer", float: "real", str: "string"}
        return self.make(kinds.get(type(value), "scalar"))

    def changed_tensor(self, x: Any) -> Any:
        way = self.rng.random()
        if way < 0.4:
            return x.to(getattr(torch, self.rng.choice(DTYPES)))
        if way < 0.5 or x.dim() == 0:
            return x.unsqueeze(self.rng.randint(0, x.dim()))
        dim = self.rng.randrange(x.dim())
        if way < 0.6:
            return x.narrow(dim, 0, self.rng.randint(0, x.size(dim)))
        if way < 0.7:
            return torch.cat([x, x], dim)
        if way < 0.75 and x.size(dim):
            return x.select(dim, 0)
        if way < 0.8:
            return x.transpose(dim, -1)
        return self.laid_out(x) if way < 0.9 else self.make("tensor")

    def changed_list(self, items: list[Any]) -> Any:
        way = self.rng.random()
        if items and way < 0.7:
            place = self.rng.randrange(len(items))
            items[place] = self.changed(items[place])
        elif items and way < 0.85:
            items.pop()
        else:
            items.append(self.integer())
        return items


def nearly_right(ops: Ops, seed: int) -> tuple[Any, list[Any], dict[str, Any]] | None:
    """A sample's call with one or two other arguments, differentiated where that is possible."""
    rng = random.Random(seed)
    entry = rng.choice(ops.entries)
    layout = rng.choice(harness.LAYOUTS)
    dtype = rng.choice(DTYPES if rng.random() < 0.2 else ["float32", "float64", "int64"])
    change = Changed(rng)
    try:  # not every dtype can hold the values, not every tensor can be changed so
        sample = harness.build(torch, entry, rng.choice(entry.calls), dtype, layout=layout)
        args, kwargs = sample.args, sample.kwargs
        for _ in range(rng.choice((0, 1, 1, 2))):
            place = rng.choice([*range(len(args)), *kwargs] or [None])
            if isinstance(place, int):
                other = change.changed(args[place])
                if place or isinstance(other, torch.Tensor):  # methods are called on tensors
                    args[place] = other
            elif place is not None:
                kwargs[place] = change.changed(kwargs[place])
    except EXPECTED:
        return None

    def tracked(x: Any) -> Any:
        differentiable = x.layout is torch.strided and (x.is_floating_point() or x.is_complex())
        return x.detach().requires_grad_() if differentiable and rng.random() < 0.5 else x

    args, kwargs = harness.map_tensors((args, kwargs), tracked)
    return harness.resolve(torch, entry), list(args), kwargs


def one_call(ops: Ops, seed: int) -> tuple[Any, list[Any], dict[str, Any]]:
    """The function and the arguments that a seed stands for."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    if seed % 2 and ops.entries and (call := nearly_right(ops, seed)):
        return call
    row = rng.choice(ops.rows)
    make = Arguments(rng)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    skipping = False
    names = parameters(row["signature"])
    for (name, optional, keyword), kind in zip(names, row["arguments"], strict=True):
        if kind == "options":
            if rng.random() < 0.3:
                kwargs["dtype"] = make.dtype()
            continue
        if optional and rng.random() < 0.4:
            skipping = True
        elif keyword or skipping:
            kwargs[name] = make.make(kind)
        else:
            args.append(make.make(kind))
    if row["inplace"] and rng.random() < 0.3:
        return getattr(torch.Tensor, row["name"] + "_"), args, kwargs
    if row["function"]:
        if rng.random() < 0.1:
            kwargs["out"] = make.make("tensors" if row["returns"] == "tuple" else "tensor")
        return getattr(torch._C, row["name"]), args, kwargs
    return getattr(torch.Tensor, row["name"]), args, kwargs


def most_memory() -> int:
    """The most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def bytes_of(values: Any) -> int:
    """What the tensors among some values hold."""
    found = values if isinstance(values, (list, tuple)) else [values]
    return sum(x.numel() * x.itemsize for x in found if isinstance(x, torch.Tensor))


def attempt(ops: Ops, seed: int) -> str | None:
    """Runs a call and the backward of its result; says what should not have happened."""
    function, args, kwargs = one_call(ops, seed)
    before, result = most_memory(), None
    try:
        result = function(*args, **kwargs)
        for leaf in result if isinstance(result, (list, tuple)) else [result]:
            if getattr(leaf, "grad_fn", None) is not None and leaf.numel() < LARGE:
                leaf.sum().abs().backward()
    except EXPECTED:
        pass
    except Exception as error:
        if isinstance(error, AttributeError) and "Tensor" not in str(error):
            return None  # a function in Python was given something else
        return f"{type(error).__name__}: {error}"
    taken = most_memory() - before
    if taken > UNASKED + 4 * (bytes_of(args) + bytes_of(result)):
        return f"took {taken >> 20} MB"
    return None


def run_batch(ops: Ops, first: int, count: int, note: mmap.mmap) -> None:
    """The calls of a child process; where it stands is written into shared memory."""
    if not SANITIZED:  # AddressSanitizer's shadow is larger; it has a limit of its own
        limit = 6 << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        note[0:8] = seed.to_bytes(8, "little")
        signal.alarm(SECONDS)
        text = attempt(ops, seed)
        if text is not None:
            print(f"seed {seed}: {describe(ops, seed)}\n    {text}", flush=True)
    os._exit(0)


def describe(ops: Ops, seed: int) -> str:
    function, args, kwargs = one_call(ops, seed)

    def short(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            grad = " grad" if value.requires_grad else ""
            layout = list(value.stride()) if value.layout is torch.strided else value.layout
            return f"{value.dtype}{list(value.shape)}/{layout} {value.device}{grad}"
        if isinstance(value, list):
            return f"[{', '.join(map(short, value))}]"
        return repr(value)

    shown = [short(value) for value in args] + [f"{k}={short(v)}" for k, v in kwargs.items()]
    return f"{function}({', '.join(shown)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", default=".*", help="names of ops, a regex")
    parser.add_argument("--repeat", type=int, help="run the call of this seed here")
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return bool(re.fullmatch(options.ops, name)) and not LEFT_OUT.fullmatch(name)

    ops = Ops(
        [row for row in torch._C._op_registry() if wanted(row["name"])],
        [entry for name, entry in ENTRIES.items() if wanted(name)],
    )
    if options.repeat is not None:
        print(describe(ops, options.repeat), flush=True)
        print(attempt(ops, options.repeat))
        return
    note = mmap.mmap(-1, 8)
    seed, end, faults = options.seed, options.seed + options.calls, 0
    while seed < end:
        count = min(BATCH, end - seed)
        child = os.fork()
        if child == 0:
            run_batch(ops, seed, count, note)
        _, status = os.waitpid(child, 0)
        if status == 0:
            seed += count
            continue
        stopped = int.from_bytes(note[0:8], "little")
        what = "hung" if status == signal.SIGALRM else f"died with status {status}"
        print(f"seed {stopped}: {what} in {describe(ops, stopped)}", flush=True)
        seed, faults = stopped + 1, faults + 1
    print(f"{options.calls} calls of {len(ops.rows)} ops, {faults} crashes or hangs")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
