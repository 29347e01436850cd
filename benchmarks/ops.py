"""What ops cost when the tensors are large: Flambeau beside PyTorch.

    python benchmarks/ops.py [--oracle /path/to/python-with-torch] [--threads 2] [--only exp]

Every row is an op on tensors of one size, layout and dtype, outputs freshly allocated each call.
The table shows the best of all rounds, and its end the geometric mean of the ratios, the slowest
rows, which are measured again, and how the largest tensors fare beside a plain copy of as many
bytes as an op must move: apart for ops that memory binds, and for those that arithmetic binds,
which take longer than that copy even where their tensors are in the cache.
`--quick` takes one size in cache and one beyond it.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import sys
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


# How many elements of its input's size, and how many bytes beside, an op moves for each element, if
# it does little else: arithmetic that any processor outruns, or should.
MOVES = {
    **{name: (1, 1) if name.startswith("is") else (2, 0) for name in FLOAT},
    **dict.fromkeys(ACTIVATIONS, (2, 0)),
    **dict.fromkeys(BINARY + INTEGER[:-1], (3, 0)),
    **dict.fromkeys(["eq", "lt", "logical_and"], (2, 1)),
    **{f"{name} {over}": (2, 0) if name.startswith("cum") else (1, 0)
       for over in ("of all", "along rows", "along columns")
       for name in REDUCTIONS if name != "median"},
    **dict.fromkeys(["cummax along rows", "cummax along columns"], (2, 8)),
    **dict.fromkeys(["x.sum(0)", "x.sum(1)", "t.sum(0)", "t.sum(1)", "row + column"], (1, 0)),
    **dict.fromkeys(["torch.exp(t)", "t.contiguous()", "t * 2.0", "torch.exp(x)"], (2, 0)),
    **dict.fromkeys(["x * 2.0", "x + row", "x * column", "torch.maximum(x, row)"], (2, 0)),
    **dict.fromkeys(["softmax rows", "log_softmax rows", "layer_norm"], (2, 0)),
    **dict.fromkeys(["clamp", "index_select rows", "index rows x[r]"], (2, 0)),
    **dict.fromkeys(["flip", "roll", "tril"], (2, 0)),
    **dict.fromkeys(["x + y", "t + y2", "lerp", "addcmul", "x += y"], (3, 0)),
    **dict.fromkeys(["cat 0", "cat 1", "stack"], (4, 0)),
    "softmax columns": (3, 0),  # no cache holds them: they are read twice
    "where": (3, 1), "masked_fill": (2, 1), "gather rows": (2, 8), "to float64": (1, 8),
    "to int32": (1, 4), "mv": (1, 0), "mse_loss": (2, 0), "cross_entropy": (1, 0),
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
    # Of so many rows, some meet a busy moment in every round.
    again = measure(workers, [(case, row.statement) for _, row, case in slow], 3 * arguments.rounds)
    stay = [theirs / ours < 0.9 for ours, theirs in again]
    print(f"of which {sum(stay)} stay there when they are measured again:")
    for (ratio, row, case), (ours, theirs) in zip(slow, again, strict=True):
        print(f"  {ratio:.2f}, again {theirs / ours:.2f}  {row.name} ({row.layout}, {case})")
    return mean >= 1.5 and not any(stay)


def beside_copies(chosen: list[tuple[Row, str]], worker: Worker, rounds: int) -> None:
    """Prints what ops on the largest tensors cost beside a copy of the bytes that they move.

    That is x.clone(), in proportion to the bytes: a smaller tensor would be in a cache. The two
    take turns, and what counts is the median of the ratios: on machines that share their memory
    with others, its speed changes by half from one second to the next. What ops cost without
    memory is measured on one core and shared by all threads.
    """
    alone = Worker(sys.executable, "flambeau", __file__, threads=1)
    for dtype, size in ("float32", 4), ("bfloat16", 2), ("int64", 8):
        moved = {}
        for row, case in chosen:
            if case == f"16M {dtype}" and row.name in MOVES and row.name not in HEAVY:
                elements, more = MOVES[row.name]
                if dtype == "int64" and ("exp" in row.name or "2.0" in row.name):
                    elements, more = 1, 4  # the result is float32
                moved[row] = (elements * size + more) / (2 * size)  # copies
        if not moved:
            continue
        in_cache = measure([alone], [(f"cached {dtype}", row.statement) for row in moved], rounds)
        calls = SIZES["16M"] / IN_CACHE / worker.threads
        bound: dict[bool, dict[str, tuple[float, float]]] = {False: {}, True: {}}
        for (row, copies), (cached,) in zip(moved.items(), in_cache, strict=True):
            turns = []
            for _ in range(2 * rounds + 1):
                time = worker.microseconds(f"16M {dtype}", row.statement)
                copy = worker.microseconds(f"16M {dtype}", "x.clone()") * copies
                turns.append((time, copy))
            copy = statistics.median(copy for _, copy in turns)
            cost = statistics.median(time / copy for time, copy in turns)
            arithmetic = cached * calls / copy
            bound[arithmetic > 1][row.name] = cost, arithmetic
        for by_arithmetic, costs in bound.items():
            beyond = sorted((c for c in costs.items() if c[1][0] > 1.4), key=lambda c: -c[1][0])
            by = "arithmetic" if by_arithmetic else "memory"
            print(f"\n16M {dtype}: {len(costs) - len(beyond)} of {len(costs)} ops that {by} binds")
            print("cost at most 1.4 copies of the same bytes; the others (and in the cache):")
            print("  " + ", ".join(f"{name} {cost:.2f} ({c:.2f})" for name, (cost, c) in beyond))


if __name__ == "__main__":
    made = parser(__doc__, rounds=3)
    made.add_argument("--quick", action="store_true", help="two sizes only")
    made.add_argument("--copies", action="store_true", help="only the comparison with copies")
    sys.exit(main(made, __file__, names, run))
