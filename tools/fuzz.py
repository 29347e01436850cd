"""Calls registered ops with random, hostile and boundary arguments, and reports what must not be:
a crash, a hang, an exception that no user should see, or memory that nobody asked for.

    python tools/fuzz.py [--calls 100000] [--seed 0] [--ops REGEX] [--reached] [--threads N]

Of ten calls, three have arguments of the kinds that the registry names; four are nearly right: a
sample of tests/ops in which one or two arguments were changed, so that they pass the first checks;
two are of functions in Python; and one is a short program whose tensors share memory. Results are
differentiated, twice where that is possible. Calls run in child processes, a batch each. All of a
call follows from its seed, so that `--repeat SEED` runs a reported one again, alone; `--reached`
tells which ops never gave a result. With `--threads`, several threads call at once, often with the
same tensors; a crash is then known by its batch. `make fuzz` runs it under the sanitizers.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import re
import resource
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "python"))  # PYTHONPATH comes first
sys.path.append(str(Path(__file__).parent.parent / "tests" / "ops"))

import harness
from fuzz_arguments import SHARED, Arguments
from fuzz_calls import (
    EXPECTED,
    LEFT_OUT,
    Call,
    Ops,
    by_name,
    named_functions,
    nearly_right,
    registered,
)
from fuzz_programs import program
from samples import ENTRIES

import flambeau as torch

BATCH = 2000
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
SECONDS = 60 if SANITIZED else 20  # for one call
LARGE = 1 << 20  # elements of a result that is not differentiated
UNASKED = 512 << 20  # bytes that a call may take beyond what goes in and comes out
NOTICED = 32 << 20  # growth after which the process's peak is forgotten again
# What the standard library or a check within says; a user is told what he did instead.
INTERNAL = re.compile(
    r"vector::|basic_string::|_M_|map::at|std::|stoi|stol|bad optional|bad_variant|internal assert|"
    r"than max_size|unordered_map|object has no attribute '_[^_]",
    re.IGNORECASE,
)


def one_call(ops: Ops, seed: int, show: Any = lambda text: None) -> Call:
    """The function and the arguments that a seed stands for."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    way = seed % 10
    call = None
    if way == 9 and not ops.narrowed:
        return program(rng, show)
    if way in (1, 3, 5, 7, 9):
        call = nearly_right(ops, rng)
    elif way in (4, 8):
        call = by_name(ops, rng)
    return (
        call or (registered(ops, rng) if ops.rows else None) or by_name(ops, rng) or Call("", list)
    )


def max_memory() -> int:
    """The most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def forget_peak() -> None:
    """Lets the most that the process has held be what it holds, so that the next call shows."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def bytes_of(values: Any) -> int:
    """What the tensors among some values hold."""
    found = values if isinstance(values, (list, tuple)) else [values]
    return sum(
        x.numel() * x.itemsize
        for x in found
        if isinstance(x, torch.Tensor) and x.layout is torch.strided
    )


def differentiate(call: Call, result: Any, rng: random.Random) -> None:
    """The gradients of a result for a gradient of any layout, and those gradients' own."""
    leaves: list[Any] = []
    harness.map_tensors((call.args, call.kwargs), leaves.append)
    leaves = [x for x in leaves if x.requires_grad and x.is_leaf]
    for out in harness.flat_results(result):
        if not isinstance(out, torch.Tensor) or out.grad_fn is None or out.numel() >= LARGE:
            continue
        if out.layout is not torch.strided or not leaves or rng.random() < 0.3:
            out.sum().abs().backward(retain_graph=True)
            continue
        gradient = Arguments(rng).laid_out(torch.randn(out.shape).to(out.device, out.dtype))
        if rng.random() < 0.02:
            gradient = Arguments(rng).make("tensor")
        again = rng.random() < 0.5
        grads = torch.autograd.grad(
            out, leaves, gradient, create_graph=again, retain_graph=True, allow_unused=True
        )
        for grad in grads if again else ():
            if grad is not None and grad.grad_fn is not None:
                grad.sum().abs().backward(retain_graph=True)


def context(rng: random.Random) -> Any:
    """Where a call is made: mostly nowhere special."""
    way = rng.random()
    if way < 0.02:
        return torch.autocast("cpu", rng.choice((torch.bfloat16, torch.float16)))
    if way < 0.04:
        return torch.inference_mode()
    return torch.no_grad() if way < 0.05 else contextlib.nullcontext()


def transformed(call: Call, rng: random.Random) -> Any:
    """What is run: the function, or now and then its batched or its forward-mode form."""
    positions = [i for i, x in enumerate(call.args) if isinstance(x, torch.Tensor)]
    way = rng.random()
    if way > 0.12 or not positions or call.label == "program":
        return call.function(*call.args, **call.kwargs)
    tensors = tuple(call.args[i].detach() for i in positions)

    def inner(*given: Any) -> Any:
        args = list(call.args)
        for i, x in zip(positions, given, strict=True):
            args[i] = x
        return call.function(*args, **call.kwargs)

    tangents = tuple(torch.randn(x.shape).to(x.dtype) for x in tensors)
    if way < 0.04:
        return torch.func.vmap(inner, randomness="different")(
            *(torch.stack([x, x]) for x in tensors)
        )
    if way < 0.05:  # some of them, along any dimension
        along = tuple(rng.choice((None, 0, -1, 1)) for _ in tensors)
        return torch.func.vmap(inner, in_dims=along, randomness="same")(*tensors)
    if way < 0.08:
        return torch.func.jvp(inner, tensors, tangents)

    def total(*given: Any) -> Any:
        found = harness.flat_results(inner(*given))
        return sum(x.abs().sum() for x in found if isinstance(x, torch.Tensor))

    if way < 0.1:  # backward over backward by tangents, and forward over batches
        return torch.func.jvp(torch.func.grad(total), tensors, tangents)
    batched = torch.func.vmap(lambda *t: torch.func.jvp(inner, tensors, t)[1])
    return batched(*(torch.stack([t, t]) for t in tangents))


def unexpected(call: Call, error: Exception) -> bool:
    """Whether an exception is none that the user's own arguments explain."""
    if isinstance(error, EXPECTED):
        return bool(INTERNAL.search(str(error)))
    if isinstance(error, SystemError):
        return True
    if isinstance(error, AttributeError) and "Tensor" not in str(error):
        return False  # a function in Python was given something else
    in_python = (
        hasattr(call.function, "__code__")
        or getattr(call.function, "__module__", "") == "_operator"
    )
    return not (in_python and isinstance(error, (KeyError, AssertionError, RecursionError)))


def attempt(ops: Ops, call: Call, seed: int) -> tuple[bool, str | None]:
    """Runs a call and the backward of its result; says whether it gave one, and what should not
    have happened.
    """
    rng = random.Random(seed + 1)
    before, result, done = max_memory(), None, False
    given = bytes_of(call.args)
    try:
        with context(rng):
            result = transformed(call, rng)
        done = True
        differentiate(call, result, rng)
    except Exception as error:
        if unexpected(call, error):
            return done, f"{type(error).__name__}: {error}"
    taken = max_memory() - before
    if taken > NOTICED:
        asked = 4 * (given + bytes_of(result))
        result = None
        forget_peak()
        if taken > UNASKED + asked:
            return done, f"took {taken >> 20} MB"
    return done, None


class Outcomes:
    """How often calls of each name gave a result or were refused, in memory that children share."""

    def __init__(self, ops: Ops) -> None:
        labels = [row["signature"].split(" -> ")[0] for row in ops.rows]
        labels += [f"sample {entry.name}" for entry in ops.entries]
        labels += [label for label, _ in ops.named] + ["program", ""]
        self.place = {label: 8 * i for i, label in enumerate(labels)}
        self.counts = mmap.mmap(-1, 8 * len(labels))

    def add(self, label: str, done: bool) -> None:
        start = self.place[label] + (0 if done else 4)
        value = int.from_bytes(self.counts[start : start + 4], "little") + 1
        self.counts[start : start + 4] = value.to_bytes(4, "little")

    def report(self) -> None:
        def count(start: int) -> int:
            return int.from_bytes(self.counts[start : start + 4], "little")

        never = [x for x, at in self.place.items() if not count(at) and not count(at + 4)]
        refused = [f"{x} ({count(at + 4)})" for x, at in self.place.items() if not count(at)]
        refused = [x for x in refused if not x.endswith(" (0)")]
        done = sum(count(at) for at in self.place.values())
        print(f"{done} gave a result; never called: {len(never)}; only refused: {len(refused)}")
        print("never called:", *never, sep="\n    ")
        print("only refused:", *refused, sep="\n    ")


def writable_memory() -> int:
    """The bytes that are mapped and counted by RLIMIT_DATA, AddressSanitizer's terabytes too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))


def run_batch(ops: Ops, first: int, count: int, note: mmap.mmap, outcomes: Outcomes) -> None:
    """The calls of a child process; where it stands is written into shared memory."""
    limit = writable_memory() + (6 << 30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    warnings.simplefilter("ignore")
    if ops.threads > 1:
        run_together(ops, first, count)
        os._exit(0)
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        note[0:8] = seed.to_bytes(8, "little")
        signal.alarm(SECONDS)
        call = one_call(ops, seed)
        done, text = attempt(ops, call, seed)
        outcomes.add(call.label, done)
        if text is not None:
            print(f"seed {seed}: {describe(ops, seed)}\n    {text}", flush=True)
    os._exit(0)


def run_together(ops: Ops, first: int, count: int) -> None:
    """The same calls by several threads at once, which share some tensors."""
    signal.alarm(10 * SECONDS)
    make = Arguments(random.Random(first))
    made = [make.tensor() for _ in range(16)]
    SHARED[:] = [x for x in made if x is not None] + [torch.randn(3, 4), torch.arange(300_000) % 7]

    def work(start: int) -> None:
        for seed in range(start, first + count, ops.threads):
            _, text = attempt(ops, one_call(ops, seed), seed)
            if text is not None and not text.startswith("took"):  # perhaps another thread did
                print(f"seed {seed} beside others: {text}", flush=True)

    workers = [threading.Thread(target=work, args=(first + i,)) for i in range(ops.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def describe(ops: Ops, seed: int) -> str:
    call = one_call(ops, seed)

    def short(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            grad = " grad" if value.requires_grad else ""
            layout = list(value.stride()) if value.layout is torch.strided else value.layout
            return f"{value.dtype}{list(value.shape)}/{layout} {value.device}{grad}"
        if isinstance(value, list):
            return f"[{', '.join(map(short, value))}]"
        return repr(value)

    shown = [short(value) for value in call.args]
    shown += [f"{k}={short(v)}" for k, v in call.kwargs.items()]
    return f"{call.label}: {call.function}({', '.join(shown)})"


def repeat(ops: Ops, seed: int) -> None:
    print(describe(ops, seed), flush=True)
    call = one_call(ops, seed, lambda text: print("   ", text, flush=True))
    print(attempt(ops, call, seed))


def run(ops: Ops, first: int, calls: int, outcomes: Outcomes) -> int:
    """Runs calls in batches; the number of those that crashed or hung."""
    note = mmap.mmap(-1, 8)
    seed, end, faults = first, first + calls, 0
    while seed < end:
        count = min(BATCH, end - seed)
        child = os.fork()
        if child == 0:
            run_batch(ops, seed, count, note, outcomes)
        _, status = os.waitpid(child, 0)
        if status == 0:
            seed += count
            continue
        stopped = int.from_bytes(note[0:8], "little")
        if ops.threads > 1:
            print(f"seeds from {seed}: died with status {status}", flush=True)
            seed, faults = seed + count, faults + 1
            continue
        what = "hung" if status == signal.SIGALRM else f"died with status {status}"
        print(f"seed {stopped}: {what} in {describe(ops, stopped)}", flush=True)
        seed, faults = stopped + 1, faults + 1
    return faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", help="names of ops, a regex; programs are left out then")
    parser.add_argument("--repeat", type=int, help="run the call of this seed here")
    parser.add_argument("--threads", type=int, default=1, help="that call at once")
    parser.add_argument("--reached", action="store_true", help="list what gave no result")
    options = parser.parse_args()

    def wanted(name: str) -> bool:
        return bool(re.fullmatch(options.ops or ".*", name)) and not LEFT_OUT.fullmatch(name)

    ops = Ops(
        [row for row in torch._C._op_registry() if wanted(row["name"])],
        [entry for name, entry in ENTRIES.items() if wanted(name)],
        named_functions(wanted),
        narrowed=options.ops is not None,
        threads=options.threads,
    )
    if options.repeat is not None:
        repeat(ops, options.repeat)
        return
    outcomes = Outcomes(ops)
    faults = run(ops, options.seed, options.calls, outcomes)
    if options.reached:
        outcomes.report()
    print(f"{options.calls} calls of {len(ops.rows)} ops, {faults} crashes or hangs")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
