"""What ops cost when the tensors are large: Flambeau beside PyTorch.

    python benchmarks/ops.py [--oracle /path/to/python-with-torch] [--threads 2] [--only exp]

Every row is an op on tensors of one size, layout and dtype, outputs freshly allocated each call.
The table shows the best of all rounds, and its end the geometric mean of the ratios, the slowest
rows, which are measured again, and how the largest tensors fare beside a plain copy of as many
bytes as an op must move, or plain passes over them: apart for ops that memory binds, and for those
that arithmetic binds, which take longer than that copy even where their tensors are in the cache.
`--quick` takes one size in cache and one beyond it.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from side_by_side import Worker, main, measure, parser

SIZES = {"1k": 1 << 10, "64k": 1 << 16, "1M": 1 << 20, "16M": 1 << 24}
IN_CACHE = 1 << 17  # three tensors of so many elements are in the cache of one core

# x, y: n elements as a matrix of rows of 64 or 1024; m: a mask; i: indices; p, q: positive.
FLOAT = """abs neg exp log sqrt rsqrt sin cos tan tanh sigmoid erf reciprocal floor round sign
 square exp2 expm1 log1p log2 log10 atan asin sinh cosh ceil trunc frac isnan isfinite isinf logit
 lgamma digamma erfinv""".split()
HEAVY = "lgamma digamma erfinv".split()  # of far more arithmetic than memory
ACTIVATIONS = """relu gelu silu elu selu leaky_relu softplus hardtanh hardswish hardsigmoid mish
 logsigmoid relu6 celu""".split()
BINARY = """add sub mul div maximum minimum pow atan2 fmod remainder eq lt logical_and hypot
 floor_divide copysign xlogy logaddexp""".split()
INTEGER = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift gcd".split()
REDUCTIONS = """sum mean prod amax amin argmax argmin var std norm logsumexp any all cumsum cumprod
 cummax nansum median""".split()

PLAIN = "contiguous"
LAYOUTS = {
    PLAIN: ["torch.exp(x)", "x + y", "x * 2.0", "x.sum(0)", "x.sum(1)", "x.clone()"],
    "transposed": ["torch.exp(t)", "t + y2", "t.contiguous()", "t.sum(0)", "t.sum(1)", "t * 2.0"],
    "broadcast": ["x + row", "x * column", "torch.maximum(x, row)", "row + column"],
}


class Row(NamedTuple):
    name: str
    statement: str
    layout: str = PLAIN
    dtypes: tuple[str, ...] = ("float32", "bfloat16")


THREE = ("float32", "bfloat16", "int64")
OTHERS = [
    Row("softmax rows", "torch.softmax(x, 1)"),
    Row("softmax columns", "torch.softmax(x, 0)"),
    Row("log_softmax rows", "torch.log_softmax(x, 1)"),
    Row("layer_norm", "functional.layer_norm(x, x.shape[1:])"),
    Row("where", "torch.where(m, x, y)", PLAIN, THREE),
    Row("clamp", "x.clamp(0, 1)", PLAIN, THREE),
    Row("lerp", "torch.lerp(x, y, 0.3)"),
    Row("addcmul", "torch.addcmul(x, x, y)"),
    Row("masked_fill", "x.masked_fill(m, 0)", PLAIN, THREE),
    Row("masked_select", "x[m]", PLAIN, THREE),
    Row("mask write", "x.clone().masked_fill_(m, 1)", PLAIN, THREE),
    Row("nonzero", "m.nonzero()", PLAIN, ("float32",)),
    Row("gather rows", "x.gather(1, i)", PLAIN, THREE),
    Row("index_select rows", "x.index_select(0, r)", PLAIN, THREE),
    Row("index rows x[r]", "x[r]", PLAIN, THREE),
    Row("scatter_add", "torch.zeros_like(x).scatter_add_(1, i, x)", PLAIN, THREE),
    Row("index_add rows", "torch.zeros_like(x).index_add_(0, r, x)", PLAIN, THREE),
    Row("cat 0", "torch.cat([x, y])", PLAIN, THREE),
    Row("cat 1", "torch.cat([x, y], 1)", PLAIN, THREE),
    Row("stack", "torch.stack([x, y])", PLAIN, THREE),
    Row("flip", "x.flip(0)", PLAIN, THREE),
    Row("roll", "x.roll(3, 1)", PLAIN, THREE),
    Row("tril", "x.tril()", PLAIN, THREE),
    Row("sort rows", "x.sort(1)", PLAIN, THREE),
    Row("argsort rows", "x.argsort(1)", PLAIN, THREE),
    Row("sort flat", "x.flatten().sort()", PLAIN, THREE),
    Row("topk rows", "x.topk(5, 1)", PLAIN, THREE),
    Row("topk flat", "x.flatten().topk(100)", PLAIN, THREE),
    Row("unique", "u.unique()", PLAIN, ("int64",)),
    Row("bincount", "u.flatten().bincount()", PLAIN, ("int64",)),
    Row("to float64", "x.to(torch.float64)", PLAIN, THREE),
    Row("to int32", "x.to(torch.int32)", PLAIN, THREE),
    Row("zeros", "torch.zeros(n)", PLAIN, ("float32",)),
    Row("arange", "torch.arange(n)", PLAIN, ("int64",)),
    Row("rand", "torch.rand(n)", PLAIN, ("float32",)),
    Row("randn", "torch.randn(n)", PLAIN, ("float32",)),
    Row("randperm", "torch.randperm(n)", PLAIN, ("int64",)),
    Row("dropout", "functional.dropout(x, 0.1)"),
    Row("x += y", "y2.add_(y)", PLAIN, THREE),
    Row("mv", "x @ v"),
    Row("m = 1 GEMM", "v @ x.t()"),
    Row("mm square", "sq @ sq"),
    Row("bmm small", "b8 @ b8"),
    Row("cross_entropy", "functional.cross_entropy(x, c)"),
    Row("mse_loss", "functional.mse_loss(x, y)"),
]


class Moves(NamedTuple):
    """How many elements of its input's size, and how many bytes beside, an op moves for each
    element."""

    reads: float
    writes: float
    bytes_read: int = 0
    bytes_written: int = 0


# What ops move that do little else: arithmetic that any processor outruns, or should.
READ, MAPPED, JOINED = Moves(1, 0), Moves(1, 1), Moves(2, 1)
MOVES = {
    **{name: Moves(1, 0, 0, 1) if name.startswith("is") else MAPPED for name in FLOAT},
    **dict.fromkeys(ACTIVATIONS, MAPPED),
    **dict.fromkeys(BINARY + INTEGER[:-1], JOINED),
    **dict.fromkeys(["eq", "lt", "logical_and"], Moves(2, 0, 0, 1)),
    **{f"{name} {over}": MAPPED if name.startswith("cum") else READ
       for over in ("of all", "along rows", "along columns")
       for name in REDUCTIONS if name != "median"},
    **dict.fromkeys(["cummax along rows", "cummax along columns"], Moves(1, 1, 0, 8)),
    **dict.fromkeys(["x.sum(0)", "x.sum(1)", "t.sum(0)", "t.sum(1)", "mv"], READ),
    **dict.fromkeys(["torch.exp(t)", "t.contiguous()", "t * 2.0", "torch.exp(x)"], MAPPED),
    **dict.fromkeys(["x * 2.0", "x + row", "x * column", "torch.maximum(x, row)"], MAPPED),
    **dict.fromkeys(["softmax rows", "log_softmax rows", "layer_norm"], MAPPED),
    **dict.fromkeys(["clamp", "index_select rows", "index rows x[r]"], MAPPED),
    **dict.fromkeys(["flip", "roll", "tril"], MAPPED),
    **dict.fromkeys(["x + y", "t + y2", "lerp", "addcmul", "x += y"], JOINED),
    **dict.fromkeys(["cat 0", "cat 1", "stack"], Moves(2, 2)),
    "softmax columns": Moves(2, 1),  # no cache holds them: they are read twice
    "row + column": Moves(0, 1), "where": Moves(2, 1, 1), "masked_fill": Moves(1, 1, 1),
    "gather rows": Moves(1, 1, 8), "to float64": Moves(1, 0, 0, 8),
    "to int32": Moves(1, 0, 0, 4), "mse_loss": Moves(2, 0), "cross_entropy": READ,
}  # fmt: skip


def rows() -> list[Row]:
    made = [Row(name, f"torch.{name}(p)") for name in FLOAT]
    made += [Row(name, f"functional.{name}(x)") for name in ACTIVATIONS]
    made += [Row(name, f"torch.{name}({'p' if name == 'pow' else 'x'}, q)") for name in BINARY]
    made += [Row(name, f"torch.{name}(x, q)", PLAIN, ("int64",)) for name in INTEGER]
    for name in REDUCTIONS:
        whole = "" if name.startswith("cum") else f"torch.{name}(x)"
        if whole and name != "logsumexp":
            made.append(Row(f"{name} of all", whole))
        made.append(Row(f"{name} along rows", f"torch.{name}(x, dim=1)"))
        made.append(Row(f"{name} along columns", f"torch.{name}(x, dim=0)"))
    for layout, statements in LAYOUTS.items():
        made += [Row(s, s, layout, ("float32", "bfloat16", "int64")) for s in statements]
    return made + OTHERS


def names(torch: Any, case: str) -> dict[str, Any]:
    """The tensors of one size and dtype."""
    size, dtype_name = case.split()
    n, dtype = {**SIZES, "cached": IN_CACHE}[size], getattr(torch, dtype_name)
    columns = 64 if n <= 1 << 16 else 1024
    shape = (n // columns, columns)
    torch.manual_seed(0)

    def made(*sizes: int) -> Any:
        if dtype_name == "int64":
            return torch.randint(1, 20, sizes)
        return torch.randn(sizes).to(dtype)

    x, y = made(*shape), made(*shape)
    side = min(1024, int(math.sqrt(n)))
    tensors = {"x": x, "y": y, "t": made(columns, n // columns).t(), "y2": y.clone()}
    tensors |= {"row": made(1, columns), "column": made(shape[0], 1), "v": made(columns)}
    tensors |= {"p": (x.abs() * 0.3 + 0.01).to(dtype), "q": y.abs() + 1, "m": x > y}
    tensors |= {"i": torch.randint(0, columns, shape), "r": torch.randint(0, shape[0], shape[:1])}
    tensors |= {"c": torch.randint(0, columns, shape[:1]), "u": torch.randint(0, 1000, shape)}
    tensors |= {"sq": made(side, side), "b8": made(max(1, n // 1024), 8, 8)}
    if size == "16M":
        tensors |= plain_passes(torch, x.nbytes)
    return {"torch": torch, "functional": torch.nn.functional, "n": n, **tensors}


def run(arguments: argparse.Namespace, workers: list[Worker]) -> bool:
    sizes = ["64k", "16M"] if arguments.quick else list(SIZES)
    chosen = [
        (row, f"{size} {dtype}")
        for size in sizes
        for dtype in ("float32", "bfloat16", "int64")
        for row in rows()
        if dtype in row.dtypes
        and re.search(arguments.only, f"{row.name} {row.layout} {size} {dtype}")
    ]
    if arguments.copies:
        beside_copies(chosen, workers[0], arguments.rounds)
        return True
    best = measure(workers, [(case, row.statement) for row, case in chosen], arguments.rounds)
    ratios = []
    print("| op | layout | size, dtype | Flambeau us | PyTorch us | times as fast |")
    print("|---|---|---|---:|---:|---:|")
    for (row, case), (ours, *theirs) in zip(chosen, best, strict=True):
        ratio = theirs[0] / ours if theirs else float("nan")
        if ratio != 0 and not math.isinf(ratio):  # either library may lack the op
            ratios.append((ratio, row, case))
        other = f"{theirs[0]:.1f} | {ratio:.2f}" if theirs else "|"
        print(f"| {row.name} | {row.layout} | {case} | {ours:.1f} | {other} |")
    beside_copies(chosen, workers[0], arguments.rounds)
    if len(workers) < 2:
        return True
    mean = math.exp(sum(math.log(ratio) for ratio, _, _ in ratios) / len(ratios))
    slow = sorted((r for r in ratios if r[0] < 0.9), key=lambda r: r[0])
    print(f"\n{len(ratios)} rows, geometric mean {mean:.2f} times PyTorch; {len(slow)} below 0.9,")
    # Of so many rows, some hit a busy moment in every round.
    again = measure(workers, [(case, row.statement) for _, row, case in slow], 3 * arguments.rounds)
    stay = [theirs / ours < 0.9 for ours, theirs in again]
    print(f"of which {sum(stay)} stay there when they are measured again:")
    for (ratio, row, case), (ours, theirs) in zip(slow, again, strict=True):
        print(f"  {ratio:.2f}, again {theirs / ours:.2f}  {row.name} ({row.layout}, {case})")
    return mean >= 1.5 and not any(stay)


def plain_passes(torch: Any, n: int) -> dict[str, Any]:
    """Functions by which the C library reads, or writes, n bytes, each thread its part."""
    c, threads = ctypes.CDLL(None), torch.get_num_threads()
    part, pool = n // threads, ThreadPoolExecutor(threads)
    parts = [torch.full((part,), 1, dtype=torch.uint8) for _ in range(threads)]

    def run(function: Any, byte: int) -> None:
        arguments = [
            (ctypes.c_void_p(one.data_ptr()), byte, ctypes.c_size_t(part)) for one in parts
        ]
        list(pool.map(lambda given: function(*given), arguments))

    return {"read": lambda: run(c.memchr, 2), "write": lambda: run(c.memset, 1)}


def beside_copies(chosen: list[tuple[Row, str]], worker: Worker, rounds: int) -> None:
    """Prints what ops on the largest tensors cost beside plain passes over the same bytes.

    A pass is x.clone(), in proportion to the bytes: a smaller tensor would be in a cache. A copy
    reads and writes at once, for which the ways to memory suffice; where an op does little but
    one of the two, a plain reading of all that it reads may take longer, or a plain writing, and
    is the pass then. What is compared takes turns call by call, and what counts is the median of
    the ratios: on machines that share their memory with others, its speed changes by half from
    one second to the next. What ops cost without memory is measured on one core and shared by all
    threads.
    """
    alone = Worker(sys.executable, "flambeau", __file__, threads=1)
    for dtype, size in ("float32", 4), ("bfloat16", 2), ("int64", 8):
        moved = {}
        for row, case in chosen:
            if case == f"16M {dtype}" and row.name in MOVES and row.name not in HEAVY:
                moves = MOVES[row.name]
                if dtype == "int64" and ("exp" in row.name or "2.0" in row.name):
                    moves = Moves(1, 0, 0, 4)  # the result is float32
                moved[row] = (
                    moves.reads + moves.bytes_read / size,
                    moves.writes + moves.bytes_written / size,
                )
        if not moved:
            continue
        in_cache = measure([alone], [(f"cached {dtype}", row.statement) for row in moved], rounds)
        calls = SIZES["16M"] / IN_CACHE / worker.threads

        def beside_copy(case: str, statement: str) -> tuple[float, float]:
            """A statement's time over that of a copy, and the latter."""
            turns = worker.turns(case, [statement, "x.clone()"])[1:]
            copy = statistics.median(copy for _, copy in turns)
            return statistics.median(time / copy for time, copy in turns), copy

        read, write = (beside_copy(f"16M {dtype}", way)[0] for way in ("read()", "write()"))
        print(
            f"\n16M {dtype}: plain reading takes {read:.2f} of a copy, plain writing {write:.2f};"
        )
        bound: dict[bool, dict[str, tuple[float, float, float]]] = {False: {}, True: {}}
        for (row, (reads, writes)), (cached,) in zip(moved.items(), in_cache, strict=True):
            time, copy = beside_copy(f"16M {dtype}", row.statement)
            copies = (reads + writes) / 2
            passes = max(copies, reads * read, writes * write)
            arithmetic = cached * calls / copies / copy
            bound[arithmetic > 1][row.name] = time / copies, time / passes, arithmetic
        for by_arithmetic, found in bound.items():
            by = "arithmetic" if by_arithmetic else "memory"
            print(f"of {len(found)} ops that {by} binds,")
            for column, what in enumerate(("copies of", "plain passes over")):
                beyond = [c for c in found.items() if c[1][column] > 1.4]
                beyond.sort(key=lambda c: -c[1][column])
                print(f"  {len(found) - len(beyond)} cost at most 1.4 {what} the same bytes;")
                print("    the others (and in the cache): ", end="")
                print(", ".join(f"{name} {c[column]:.2f} ({c[2]:.2f})" for name, c in beyond))


if __name__ == "__main__":
    made = parser(__doc__, rounds=3)
    made.add_argument("--quick", action="store_true", help="two sizes only")
    made.add_argument("--copies", action="store_true", help="only the comparison with copies")
    sys.exit(main(made, __file__, names, run))
