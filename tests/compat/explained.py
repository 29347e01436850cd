"""Differences from PyTorch that are meant to be, each with its reason.

A program to which one of them applies says nothing more about the two libraries from there on, so
it is not compared further.
"""

from __future__ import annotations

import math
import re
from typing import Any

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
LEAST = {"-2147483648", "-9223372036854775808"}
RUNTIME = {"RuntimeError", "NotImplementedError"}
TOUCHED = "modified by an inplace operation"
VIEWED = "its base or another view of its base has been modified inplace"


# What follows the name of a variable that is written to.
WRITTEN = r"(\.\w+_\(|\[[^\n]*\] *\S?= | [-+*/%&|@<>]+= )"
# A pass that is refused with these words has not begun.
BEFORE_A_PASS = ("does not require grad", "implicitly created", "Mismatch in shape", "inference")


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


def _overlaps_itself(variable: Any) -> bool:
    """Whether a tensor has more elements than places in memory."""
    if "stride" not in variable or 0 in variable["shape"]:
        return False
    steps = zip(variable["shape"], variable["stride"])
    return math.prod(variable["shape"]) > 1 + sum((n - 1) * step for n, step in steps)


def explanation(statements: list[str], ours: Any, theirs: Any) -> str | None:
    """Why the two may differ on a program, or None."""
    found = {number: (kind, text) for number, kind, text in ours["errors"]}
    for _, text in found.values():
        if TOUCHED in text and any(f"saved by {name}" in text for name in ("Mv", "Mm", "Bmm")):
            return "a product keeps its operands, where PyTorch may have kept a folded copy"
    for number, kind, text in theirs["errors"]:
        own = found.get(number)
        differentiates = _differentiates(statements[number])
        if (TOUCHED in text or VIEWED in text) and own is None and differentiates:
            return "our gradient needs less than PyTorch saves, so that a write harms nothing"
        if "does not support automatic differentiation for outputs" in text and own is None:
            return "a derivative that PyTorch lacks may be had here"
        if "not yet implemented for tensors with different dtypes" in text and own is None:
            return "heaviside promotes its operands as others do"
        if "out=" in statements[number] and own is not None:
            return "PyTorch may have resized what it finds that it cannot write to"
        if "ScatterAddBackward0 returned an invalid gradient" in text and own is None:
            return "PyTorch cannot take the gradient of a source larger or smaller than its index"
        writes = re.search(r"_\(|[])] *[^=<>!]?=[^=]", statements[number]) is not None
        if kind == "IndexError" and own is not None and "out of bounds" in text and writes:
            return "PyTorch has written some elements when it finds an index out of range"
        if "Dimension out of range" in text and own is not None and "scatter" in own[1]:
            return "PyTorch looks for dimensions before it has compared their number"
        if "a second time" in text and own is None and any("inputs=[" in s for s in statements):
            return "a pass to an inner tensor ends before the step that made it"
        if "element 0 of tensors does not require grad" in text and own is None:
            return "PyTorch may give gradients of no elements no history"
        if "ZeroDivisionError" in text and own is not None:
            return "PyTorch has divided some elements when it finds the divisor zero"
        if "number of ones in mask" in text and own is not None:
            return "PyTorch has written some elements when it finds that the source has too few"
        if "Inplace update to inference tensor" in text and own is not None:
            return "PyTorch has written when it finds that it must not"
        if "isFloatingType(grad" in text and own is None:
            return "PyTorch cannot take the gradient of a real number written into complex ones"
        if "with a bool tensor" in text and own is None and differentiates:
            return "PyTorch's derivative of a power cannot take a bool exponent"
        if kind == "IndexError" and own is not None and "leaf Variable" in own[1]:
            return "two things are wrong, and either may be seen first"
        if "setStorage" in text and own is not None and own[0] == "IndexError":
            return "an index into a dimension of size 0 is out of range, whatever else is wrong"
    for number, (_, text) in found.items():
        if "more than one element" in text and re.search(r"tri[ul]_\(|out=", statements[number]):
            return "PyTorch lets some ops write into an expanded tensor"
    program = "\n".join(statements)
    if "copysign" in program and ("sqrt" in program or "log" in program):
        return "the sign of a number that is none is unspecified"
    if "logcumsumexp" in program and "float16" in program:
        return "PyTorch's gradient of logcumsumexp is far off in low precision"
    for name, variable in theirs["variables"].items():
        if _overlaps_itself(variable) and re.search(rf"\b{name}{WRITTEN}", program):
            return "what a write into memory that overlaps itself leaves depends on its order"
        if variable.get("dtype") in INTEGERS and LEAST & {*map(str, variable["values"])}:
            return "which integer stands for NaN and infinity is undefined"
        if variable.get("requires_grad") and variable.get("dtype") in INTEGERS:
            return "PyTorch lets integers that a gradient's owner was written into require grad"
    return None
