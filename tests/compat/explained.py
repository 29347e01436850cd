"""Differences from PyTorch that are meant to be, each with its reason.

A program to which one of them applies says nothing more about the two libraries from there on, so
it is not compared further.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
LEAST = {"-2147483648", "-9223372036854775808"}
RUNTIME = {"RuntimeError", "NotImplementedError"}
TOUCHED = "modified by an inplace operation"
VIEWED = "its base or another view of its base has been modified inplace"
# A leaf, perhaps, that is given another shape.
RESHAPED_UNRECORDED = r"no_grad\(\): \w+\.(unsqueeze|squeeze|t|transpose|swapaxes|swapdims)_\("
# What follows the name of a variable that is written to.
WRITTEN = r"(\.\w+_\(|\[[^\n]*\] *\S?= | [-+*/%&|@<>]+= )"
# A pass that is refused with these words has not begun.
BEFORE_A_PASS = ("does not require grad", "implicitly created", "Mismatch in shape", "inference")

# What PyTorch refuses with these words, and why it passes here.
REFUSED_THERE = {
    "does not support automatic differentiation for outputs":
        "a derivative that PyTorch lacks may be had here",
    "not yet implemented for tensors with different dtypes":
        "heaviside promotes its operands as others do",
    "element 0 of tensors does not require grad":
        "PyTorch may give gradients of no elements no history",
    "Autograd not support dtype":
        "PyTorch lets integers that a gradient's owner was written into require grad",
    "derivative for set_ is not implemented":
        "a view whose base was given other memory leads nowhere",
    "isFloatingType(grad":
        "PyTorch cannot take the gradient of a real number written into complex ones",
}  # fmt: skip
# The same, only where a statement differentiates.
NOT_DIFFERENTIATED_THERE = {
    TOUCHED: "our gradient needs less than PyTorch saves, so that a write harms nothing",
    VIEWED: "our gradient needs less than PyTorch saves, so that a write harms nothing",
    "The size of tensor a": "PyTorch adds up gradients of the shapes that a leaf had and has",
    "setStorage: sizes": "a view whose base was given other memory leads nowhere",
    "doesn't match the broadcast shape":
        "PyTorch adds up gradients of the shapes that a leaf had and has",
    "with a bool tensor": "PyTorch's derivative of a power cannot take a bool exponent",
    "returned an invalid gradient":
        "PyTorch cannot take the gradient of a source larger or smaller than its index",
}  # fmt: skip
# What both refuse, after PyTorch has done something of it.
HALF_DONE_THERE = {
    "ZeroDivisionError": "PyTorch has divided some elements when it finds the divisor zero",
    "number of ones in mask":
        "PyTorch has written some elements when it finds that the source has too few",
    "Inplace update to inference tensor": "PyTorch has written when it finds that it must not",
}  # fmt: skip


def _differentiates(statement: str) -> bool:
    return "backward" in statement or ".grad(" in statement or "vjp(" in statement


def broken_off(statements: list[str], ours: Any, theirs: Any) -> int | None:
    """The first statement in which both break off a backward pass. Which leaves it had reached is
    unspecified, so gradients are not compared, and neither is what is done to them later."""
    found = {number: kind for number, kind, _ in ours["errors"]}
    for number, kind, text in theirs["errors"]:
        began = not any(words in text for words in BEFORE_A_PASS)
        if _differentiates(statements[number]) and kind in RUNTIME and began and number in found:
            return int(number)
    return None


def _flat(values: Any) -> list[float]:
    return [part for value in values for part in (value if isinstance(value, list) else [value])]


def _not_a_number(values: Any) -> bool:
    return any(map(math.isnan, _flat(values)))


def _reads_what_it_writes(statement: str, variables: Any) -> bool:
    """Whether an operand lies in the memory of what is written, in another window."""
    written = re.search(r"out=(\w+)", statement)
    in_place = re.match(r"(?:with .*: )?(\w+)\.\w+_\(", statement)
    name = (written or in_place or [" ", " "])[1]
    target = variables.get(name, {})
    if not target.get("memory"):
        return False
    others = set(re.findall(r"\bv\d+\b", statement)) - {name}
    windows = [variables.get(other, {}) for other in others]
    same = [w for w in windows if w.get("memory") == target["memory"]]
    if written:
        return bool(same) or statement.count(name) > 1
    return any(w[k] != target[k] for w in same for k in ("shape", "stride", "offset"))


def _overlaps_itself(variable: Any) -> bool:
    """Whether a tensor has more elements than places in memory."""
    if "stride" not in variable or 0 in variable["shape"]:
        return False
    steps = zip(variable["shape"], variable["stride"])
    return math.prod(variable["shape"]) > 1 + sum((n - 1) * step for n, step in steps)


def _of_error(statement: str, kind: str, text: str, own: Any) -> Iterator[str]:
    """Reasons for an error of PyTorch, where `own` is ours in the same statement, if any."""
    differentiates = _differentiates(statement)
    if own is None:
        target = re.search(r"out=(\w+)", statement)
        if target and statement.count(target[1]) > 1:
            yield "PyTorch has resized what it reads when it comes to read it"
        yield from (reason for words, reason in REFUSED_THERE.items() if words in text)
        if differentiates:
            yield from (why for words, why in NOT_DIFFERENTIATED_THERE.items() if words in text)
        return
    yield from (reason for words, reason in HALF_DONE_THERE.items() if words in text)
    writes = re.search(r"_\(|[])] *[^=<>!]?=[^=]", statement) is not None
    if kind == "IndexError" and "out of bounds" in text and writes:
        yield "PyTorch has written some elements when it finds an index out of range"
    if "Dimension out of range" in text and "scatter" in own[1]:
        yield "PyTorch looks for dimensions before it has compared their number"
    if kind == "IndexError" and "leaf Variable" in own[1]:
        yield "two things are wrong, and either may be seen first"
    if "setStorage" in text and own[0] == "IndexError":
        yield "an index into a dimension of size 0 is out of range, whatever else is wrong"


def _of_own_error(statement: str, text: str) -> Iterator[str]:
    """Reasons for an error of ours."""
    if TOUCHED in text and any(f"saved by {name}" in text for name in ("Mv", "Mm", "Bmm")):
        yield "a product keeps its operands, where PyTorch may have kept a folded copy"
    if TOUCHED in text and "saved by Erfinv" in text:
        yield "erfinv keeps its result rather than compute it again"
    if "more than one element" in text and re.search(r"tri[ul]_\(|out=", statement):
        yield "PyTorch lets some ops write into an expanded tensor"
    if "derivative for aten::floor_divide_ is not implemented" in text:
        yield "PyTorch lets gradients pass a division into a view that it cannot differentiate"


def _of_variable(name: str, program: str, own: Any, variable: Any) -> Iterator[str]:
    """Reasons that a variable gives; `own` is ours of that name."""
    if f"out={name}" in program and variable.get("shape") != own.get("shape"):
        yield "PyTorch may have resized what it finds that it cannot write to"
    if _overlaps_itself(variable) and re.search(rf"\b{name}{WRITTEN}", program):
        yield "what a write into memory that overlaps itself leaves depends on its order"
    if variable.get("dtype") in INTEGERS and LEAST & {*map(str, variable["values"])}:
        yield "which integer stands for NaN and infinity is undefined"
    if variable.get("requires_grad") and variable.get("dtype") in INTEGERS:
        yield "PyTorch lets integers that a gradient's owner was written into require grad"
    grads = [x for v in (own, variable) for x in (v.get("grad") or {}).get("values", ())]
    if "create_graph" in program and _not_a_number(grads):
        yield "a second derivative at a kink, as of a norm at zero, may be NaN in either"
    items = variable.get("items") or [variable]
    for item in items if name.startswith("g") and isinstance(items, list) else ():
        zeros = not any(map(bool, _flat((item or {}).get("values", [1]))))
        if zeros and not item.get("requires_grad", True):
            yield "PyTorch may give gradients that are zero no history"


def _of_program(statements: list[str], ours: Any, theirs: Any) -> Iterator[str]:
    program = "\n".join(statements)
    if re.search(RESHAPED_UNRECORDED, program) and "create_graph" in program:
        yield "which shape of a leaf that got another one its gradient has is unspecified"
    if "copysign" in program and ("sqrt" in program or "log" in program):
        yield "the sign of a number that is none is unspecified"
    if "logcumsumexp" in program and "float16" in program:
        yield "PyTorch's gradient of logcumsumexp is far off in low precision"
    if "log_softmax" in program and "bfloat16" in program and ".all(" in program:
        yield "PyTorch's log_softmax rounds what is close to zero to zero in low precision"
    if "median(" in program and "expand" in program:
        yield "PyTorch's median sorts an expanded tensor in the memory that its rows share"
    if "argsort(" in program:
        yield "numbers that differ in their last bit only may come in any order"
    for given in re.findall(r"backward\(gradient=(\w+)", program):
        memory = theirs["variables"].get(given, {}).get("memory")
        holders = [v for v in theirs["variables"].values() if v.get("memory") == memory]
        if len(holders) > 1 or f"{given}.backward(gradient={given}" in program:
            yield "PyTorch takes over the memory of a gradient that is passed in"
    refused = {number for number, _, _ in theirs["errors"]}
    for number, statement in enumerate(statements):
        if number not in refused and _reads_what_it_writes(statement, theirs["variables"]):
            yield "in which order values are read that a write overtakes is unspecified"
    for name, variable in theirs["variables"].items():
        yield from _of_variable(name, program, ours["variables"].get(name) or {}, variable)


def explanation(statements: list[str], ours: Any, theirs: Any) -> str | None:
    """Why the two may differ on a program, or None."""
    found = {number: (kind, text) for number, kind, text in ours["errors"]}

    def reasons() -> Iterator[str]:
        for number, (_, text) in found.items():
            yield from _of_own_error(statements[number], text)
        for number, kind, text in theirs["errors"]:
            own = found.get(number)
            yield from _of_error(statements[number], kind, text, own)
            if "a second time" in text and own is None and any("inputs=[" in s for s in statements):
                yield "a pass to an inner tensor ends before the step that made it"
        yield from _of_program(statements, ours, theirs)

    return next(reasons(), None)
