"""Differences from PyTorch that are meant to be, each with its reason.

A rule names the statement that the difference comes from. That statement is left out, and the rest
of the program is compared without it: so a rule excuses one statement and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Reason = tuple[int, str]  # the statement, and why it need not agree

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
HALVES = ("float16", "bfloat16")
LEAST = {-2147483648, -9223372036854775808}
RUNTIME = {"RuntimeError", "NotImplementedError"}
TOUCHED = "modified by an inplace operation"
# What follows the name of a variable that is written to.
WRITTEN = r"(\.\w+_\(|\[[^\n]*\] *\S?= | [-+*/%&|@<>]+= )"
# A change of a variable's shape in place.
RESHAPED = r"{}\.(t|transpose|swapdims|swapaxes|squeeze|unsqueeze|as_strided)_\("
# A pass that is refused with these words has not begun.
BEFORE_A_PASS = ("does not require grad", "implicitly created", "Mismatch in shape", "inference")

# What PyTorch refuses with these words, and why it passes here.
REFUSED_THERE = {
    "does not support automatic differentiation for outputs":
        "a derivative that PyTorch lacks may be had here",
    "A leaf node was passed to _will_engine_execute_node":
        "hooks on several gradients, of leaves among them, work in autograd.grad() as well",
    "Autograd not support dtype":
        "PyTorch lets integers that a gradient's owner was written into require grad",
    "please report a bug to PyTorch": "PyTorch finds itself wrong",
    "ScatterBackward0 returned an invalid gradient":
        "what is scattered nowhere has a gradient of zeros",
    "ScatterAddBackward0 returned an invalid gradient":
        "what is scattered nowhere has a gradient of zeros",
    "derivative for set_ is not implemented":
        "a view keeps the history that it had when its base was set to other memory",
    "ZeroTensors are immutable": "gradients add up, also to one that PyTorch knows to be zero",
    "index_fill_(): Converting complex Scalar to non-complex type":
        "a complex number is a truth value, too, where it is written by one index",
    "stack expects a non-empty TensorList":
        "a function of nothing has a Jacobian of no elements; PyTorch stacks one row an output",
    "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex)":
        "a real number filled into complex ones takes the real part of their gradient",
}  # fmt: skip
# Ops whose gradient PyTorch computes from more than it needs: the result of a power (the base and
# the exponent suffice), the input of a running extreme or of a sign (the indices, or nothing), the
# divisor of a rounded quotient (its gradient is zero), both sides of index_add and index_reduce,
# the input of gather (its shape suffices), and of a product of one number.
SAVES_MORE_THERE = (
    r"prod\(|pow|\*\*|cumm(ax|in)|rounding_mode|//|sgn|sign|index_(add|reduce)|\.gather"
)
SINGLE_PLACE = "refer to a single memory location"
# What both refuse, after PyTorch has done something of it.
HALF_DONE_THERE = {
    "ZeroDivisionError": "PyTorch has divided some elements when it finds the divisor zero",
    "number of ones in mask":
        "PyTorch has written some elements when it finds that the source has too few",
    "Inplace update to inference tensor": "PyTorch has written when it finds that it must not",
}  # fmt: skip


@dataclass
class Case:
    """A program on which the two differ, and what came of it."""

    statements: list[str]
    ours: Any
    theirs: Any
    # What the variables were, here and there, before a statement.
    before: Callable[[int], tuple[Any, Any]]

    def __post_init__(self) -> None:
        self.own_errors = {n: (kind, text) for n, kind, text in self.ours["errors"]}
        self.errors = {n: (kind, text) for n, kind, text in self.theirs["errors"]}
        self.variables = self.theirs["variables"]

    def operand(self, number: int, pattern: str) -> Iterator[Any]:
        """What a variable that a pattern finds in a statement was there, in both."""
        found = re.search(pattern, self.statements[number])
        if found:
            for variables in self.before(number):
                if "values" in variables.get(found[1], ()):
                    yield variables[found[1]]

    def around(self, number: int, name: str) -> list[tuple[Any, Any]]:
        """What a variable was before and after a statement: here, then there."""
        before, after = self.before(number), self.before(number + 1)
        return [(one.get(name) or {}, two.get(name) or {}) for one, two in zip(before, after)]

    def origin(self, name: str) -> Iterator[int]:
        """The statement that a variable comes from."""
        for number, statement in enumerate(self.statements):
            if re.match(rf"(with .*: )?{name} = ", statement):
                yield number
                return


def _differentiates(statement: str) -> bool:
    return "backward" in statement or ".grad(" in statement or "vjp(" in statement


def _flat(values: Any) -> list[float]:
    return [part for value in values for part in (value if isinstance(value, list) else [value])]


def _overlaps_itself(variable: Any) -> bool:
    """Whether a tensor has more elements than places in memory."""
    if "stride" not in variable or 0 in variable["shape"]:
        return False
    return math.prod(variable["shape"]) > _places(variable)


def _places(variable: Any) -> int:
    """How many places in memory a tensor that has elements reaches over."""
    steps = zip(variable["shape"], variable["stride"])
    return 1 + sum((n - 1) * step for n, step in steps)


def _nearly_equal(values: list[float], limit: float) -> bool:
    """Whether two numbers differ by rounding only."""
    order = sorted(value for value in values if math.isfinite(value))
    return any(0 < high - low <= limit * max(1.0, abs(low)) for low, high in pairwise(order))


def _zero_to_zero(ours: Any, theirs: Any) -> bool:
    """Whether a complex power is one here where it is NaN there."""
    pairs = zip(ours.get("values", ()), theirs.get("values", ()))
    return any(one == [1, 0] and math.isnan(other[0]) for one, other in pairs)


def _reads_what_it_writes(statement: str, variables: Any) -> bool:
    """Whether an operand lies in the memory of what is written, in another window."""
    written = re.search(r"out=(\w+)", statement)
    in_place = re.match(r"(?:with .*: )?(\w+)(\.\w+_\(| [-+*/%&|@<>]+= )", statement)
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


def refused_there(case: Case) -> Iterator[Reason]:
    """Statements that PyTorch alone refuses."""
    for number, (_, text) in case.errors.items():
        statement = case.statements[number]
        if number in case.own_errors:
            continue
        for words, why in REFUSED_THERE.items():
            if words in text:
                yield number, why
        saves_more = any(re.search(SAVES_MORE_THERE, s) for s in case.statements[:number])
        stale = TOUCHED in text or "has been detached in-place" in text
        if stale and _differentiates(statement) and saves_more:
            yield number, "our gradient needs less than PyTorch saves; a write harms nothing"
        if "has been modified inplace" in text and re.search(
            r"dtype=torch\.(u?int|bool)|\.isclose\(", statement
        ):
            yield number, "what has no gradient needs no history, a stale one neither"
        if "view size is not compatible" in text and "kron(" in statement:
            yield number, "a Kronecker product can be taken of operands in any layout"
        if "cannot be converted to type" in text:
            values = [
                x["values"] for x in case.operand(number, r"= (\w+)") if "complex" in x["dtype"]
            ]
            parts = [[abs(value[1]) for value in each] for each in values]
            if len(parts) == 2 and not any(parts[0]) and 0 < max(parts[1]) < 1e-5:
                yield number, "whether a complex number is real may depend on its last bit"
        if "with a bool tensor" in text and _differentiates(statement):
            yield number, "PyTorch's derivative of a power cannot take a bool exponent"
        target = re.search(r"out=(\w+)", statement)
        if target and "tensors expected, but got 0D" in text and statement.count(target[1]) > 1:
            yield number, "PyTorch's dot has resized what it reads when it comes to read it"
        if target and "more than one element" in text:
            shapes = {tuple(x.get("shape") or ()) for x in case.around(number, target[1])[0]}
            if len(shapes) == 2:
                yield number, "expanded memory of another shape is resized before it is written to"
        if target and SINGLE_PLACE in text:
            yield number, "a result is computed here before it is written over what it came from"
        if "returned an invalid gradient" in text and any(".data = " in s for s in case.statements):
            yield number, "PyTorch asks a tensor for its shape of then; its data were exchanged"
        if "a second time" in text and saves_more:
            yield number, "our gradient needs less than PyTorch saves, and can be asked for again"
        if "setStorage" in text and any(".set_(" in s for s in case.statements[:number]):
            yield number, "PyTorch asks a tensor for its shape of then; its memory was exchanged"
        if "select(): index 0 out of range" in text and "vmap(" in statement:
            yield number, "a function can be mapped over no samples at all"
        if "a second time" in text and any("inputs=" in s for s in case.statements[:number]):
            yield number, "a pass to an inner tensor ends before the step that made it"
        grads = (case.variables.get("grads") or {}).get("items", ())
        zeros = all(not any(_flat(g["values"])) for g in grads if g)
        if "does not require grad" in text and "for g in grads" in statement and zeros:
            yield number, "PyTorch may give gradients that are zero no history"


def refused_here(case: Case) -> Iterator[Reason]:
    """Statements that we alone refuse."""
    for number, (_, text) in case.own_errors.items():
        statement = case.statements[number]
        if number in case.errors:
            continue
        if TOUCHED in text and any(f"saved by {name}" in text for name in ("Mv", "Mm", "Bmm")):
            yield number, "a product keeps its operands, where PyTorch may have kept a folded copy"
        if "with size 0" in text and re.search(r"\] = -?[\d.]+$", statement):
            yield number, "an index into a dimension of size 0 is out of range, whatever else is"
        if "without overflow" in text and "full_like(" in statement:
            for x in case.operand(number, r"full_like\((\w+)"):
                if x["dtype"] in HALVES and not x["shape"]:
                    yield number, "PyTorch does not check a number that fills a single half"
        if "once_differentiable" in text and "for g in grads" in statement:
            yield number, "PyTorch may give gradients that are zero no history"
        if SINGLE_PLACE in text and "out=" in statement:
            yield number, "PyTorch sorts, and searches, into the memory that it still reads"
        if "expected scalar type" in text and "@" in statement:
            operands = [*case.operand(number, r"(\w+) @"), *case.operand(number, r"@ (\w+)")]
            if any(0 in x["shape"] for x in operands):
                yield number, "PyTorch multiplies nothing of any two dtypes"
        if "more than one element" in text and re.search(r"tri[ul]_\(|out=", statement):
            yield number, "PyTorch lets some ops write into an expanded tensor"
        if "derivative for aten::floor_divide_ is not implemented" in text:
            yield number, "PyTorch lets gradients pass a division into a view that has none"


def refused_by_both(case: Case) -> Iterator[Reason]:
    """Statements that both refuse, one of them after it has done something."""
    for number, (kind, text) in case.errors.items():
        statement = case.statements[number]
        if number not in case.own_errors:
            continue
        own_kind, own_text = case.own_errors[number]
        began = not any(words in text for words in BEFORE_A_PASS)
        if _differentiates(statement) and began and {kind, own_kind} <= RUNTIME:
            yield number, "which leaves a pass has reached when it breaks off is unspecified"
        for words, why in HALF_DONE_THERE.items():
            if words in text:
                yield number, why
        writes = re.search(r"_\(|[])] *[^=<>!]?=[^=]", statement) is not None
        if kind == "IndexError" and "out of bounds" in text and writes:
            yield number, "PyTorch has written some elements when it finds an index out of range"
        if "Dimension out of range" in text and "scatter" in own_text:
            yield number, "PyTorch looks for dimensions before it has compared their number"
        stale = "has been modified inplace" in text and own_kind == "IndexError"
        unwritable = "leaf Variable" in own_text or "inference tensor" in own_text
        if stale or (kind == "IndexError" and unwritable):
            yield number, "two things are wrong, and either may be seen first"
        if "setStorage" in text and own_kind == "IndexError":
            yield number, "an index into a dimension of size 0 is out of range, whatever else is"
        target = re.search(r"out=(\w+)", statement)
        if target:
            (old, new), (their_old, their_new) = case.around(number, target[1])
            kept = old.get("shape") == new.get("shape")
            if kept and their_old.get("shape") != their_new.get("shape"):
                yield number, "PyTorch has resized what it finds that it cannot write to"


def _halves(x: Any) -> bool:
    return x["dtype"] in HALVES


def _has(test: Callable[[float], bool], dtype: str = "") -> Callable[[Any], bool]:
    """Whether an element of a tensor, of a dtype of that name, passes a test."""
    return lambda x: dtype in x["dtype"] and any(map(test, _flat(x["values"])))


# What a statement may give, or how it may round, by what an operand holds: where it stands in the
# statement, what is asked of it, and why.
BY_OPERAND: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (r"(\w+)\.arg(?:sort|max|min)", lambda x: _nearly_equal(_flat(x["values"]), 1e-3),
        "numbers that differ by rounding may come in any order"),
    (r"(\w+)\.stride\(\)", lambda x: 0 in x["shape"], "what nothing is stepped by means nothing"),
    (r"copysign.*, (\w+)\)", _has(math.isnan), "the sign of a number that is none is unspecified"),
    (r"(\w+)\.logcumsumexp", _halves,
        "PyTorch's gradient of logcumsumexp is far off in half precision"),
    (r"(\w+)(?:\.to\(torch\.\w+\))?\.prod\(", _halves,
        "PyTorch rounds a product to half precision at each step"),
    (r"(\w+)\.log_softmax", lambda x: x["dtype"] == "bfloat16",
        "PyTorch's log_softmax rounds what is close to zero to zero"),
    (r"(\w+)\.(?:cos|sin|tan)\(", _has(lambda v: abs(v) > 1e3, "float32"),
        "which angle a large number is tells of its last bits"),
    (r"(\w+)\.log1p\(", _has(lambda v: 0 <= v + 1 < 1e-4, "float"),
        "the logarithm of what is left of one tells of its last bits"),
    (r"(\w+)(?: \+ 1j)?\)?\.reciprocal", _has(lambda v: not math.isfinite(v), "complex"),
        "what is one over a complex infinity or NaN is unspecified"),
    (r"(\w+)\.sinc\(", _has(lambda v: abs(v) < 0.2, "float32"),
        "digits of sinc's slope near zero cancel out in either formula"),
    (r"layer_norm\((\w+)", lambda x: x["shape"][-1:] == [2],
        "of two normalised elements the gradient is but rounding"),
    (r"\b(?:var|std)_mean\((\w+)", _has(math.isinf), "PyTorch's running mean of infinities is NaN"),
    (r"(\w+)\.median\(", _overlaps_itself,
        "PyTorch's median sorts in the memory that expanded rows share"),
    (r"(\w+)\.resize_\(", _overlaps_itself,
        "what memory that a tensor grows by holds is undefined"),
    (r"(\w+)\.(?:select|slice)_scatter\(",
        lambda x: x["offset"] or _places(x) != math.prod(x["shape"]),
        "PyTorch copies memory as it lies, what is not seen of it too"),
)  # fmt: skip


def of_statements(case: Case) -> Iterator[Reason]:
    """Statements that may give anything, or another rounding, by what they are given."""
    for number, statement in enumerate(case.statements):
        if number in case.errors:
            continue
        for pattern, holds, why in BY_OPERAND:
            if any(map(holds, case.operand(number, pattern))):
                yield number, why
        if "lerp" in statement and re.search(r"\.to\(torch\.(u?int\d+|bool)\)\)$", statement):
            yield number, "PyTorch takes a weight of integers from one in their dtype"
        if "1j" in statement or "complex" in statement or "addcmul" in statement:
            operands = case.operand(number, r"(?:= |\()(\w+)")
            if "inf" in statement or any(map(_has(math.isinf), operands)):
                yield number, "what complex products make of infinities is unspecified"
        if re.search(r"\*\* False|pow_?\((\w+, )?False\)", statement):
            yield number, "PyTorch's derivative of x ** False is 0 / x, NaN at zero"
        kept = re.match(r"(\w+)\.retain_grad\(\)", statement)
        if kept and any(re.match(RESHAPED.format(kept[1]), s) for s in case.statements[number:]):
            yield number, "PyTorch keeps the gradient of what was there before a change of shape"
        if "atan2(" in statement:
            pairs = [case.operand(number, p) for p in (r"atan2\((\w+)", r"atan2\(\w+, (\w+)\)")]
            for a, b in zip(*pairs, strict=False):
                if a["values"] == b["values"]:
                    yield number, "both gradients of an angle that stays the same cancel out"
        if re.search(r"pow|\*\*", statement):
            for name in {*re.findall(r"\bv\d+\b", statement)}:
                (_, ours), (_, theirs) = case.around(number, name)
                if "complex" in theirs.get("dtype", "") and _zero_to_zero(ours, theirs):
                    yield number, "0 to the power of 0 is 1, also of complex numbers"


def of_memory(case: Case) -> Iterator[Reason]:
    """Statements that write where others read, or where a gradient was promised a place."""
    for number, statement in enumerate(case.statements):
        if number in case.errors:
            continue
        products = any(re.search(r"@|matmul\(", s) for s in case.statements[:number])
        if products and re.search(r"\.data\.\w+_\(", statement):
            yield number, "PyTorch may keep a folded copy of what it multiplies"
        target = re.search(r"out=(\w+)", statement)
        for old, new in case.around(number, target[1]) if target else ():
            if new.get("requires_grad") and new["is_leaf"] and old.get("shape") != new["shape"]:
                yield number, "a leaf was given another shape after its gradient was promised one"
        given = re.search(r"(\w+)\.backward\(gradient=(\w+)", statement)
        if given:
            memory = case.variables.get(given[2], {}).get("memory")
            tensors = [v for v in case.variables.values() if "memory" in v]
            tensors += [v["grad"] for v in tensors if v["grad"]]
            holders = [v for v in tensors if v["memory"] == memory]
            if (memory and len(holders) > 1) or given[1] == given[2]:
                yield number, "PyTorch takes over the memory of a gradient that is passed in"
        if _reads_what_it_writes(statement, case.variables):
            yield number, "in which order values are read that a write overtakes is unspecified"
        target = re.match(rf"(?:with .*: )?(\w+){WRITTEN}", statement)
        if target and _overlaps_itself(case.variables.get(target[1], {})):
            yield number, "what a write into memory that overlaps itself leaves is unspecified"


def of_variables(case: Case) -> Iterator[Reason]:
    """Statements whose results tell that they may be anything."""
    for name, variable in case.variables.items():
        if variable.get("dtype") in INTEGERS:
            for number in case.origin(name):
                if LEAST & {*variable["values"]}:
                    yield number, "which integer stands for NaN and infinity is undefined"
                if variable["requires_grad"]:
                    yield number, "PyTorch lets integers that a gradient was written into want one"
        items = variable.get("items") or [variable]
        for item in items if name.startswith("g") and isinstance(items, list) else ():
            zeros = not any(map(bool, _flat((item or {}).get("values", [1]))))
            if zeros and not item.get("requires_grad", True):
                for number in case.origin(name):
                    yield number, "PyTorch may give gradients that are zero no history"
        if 0 in variable.get("shape", ()):
            for number in case.origin(name):
                if "torch.func.hessian" in case.statements[number]:
                    yield number, "whether second derivatives of nothing have a history is not told"
    own = case.ours["variables"]
    for name, variable in case.variables.items():
        grads = [(v.get("grad") or {}).get("values", ()) for v in (own.get(name) or {}, variable)]
        nans = [list(map(math.isnan, _flat(values))) for values in grads]
        if nans[0] == nans[1]:
            continue
        for number, statement in enumerate(case.statements):
            if "for g in grads" in statement:
                yield number, "a second derivative at a kink, as of a norm at zero, may be NaN"


RULES = (refused_there, refused_here, refused_by_both, of_statements, of_memory, of_variables)


def explanation(case: Case) -> Reason | None:
    """A statement from which the two may differ, and why; or None."""
    return next((reason for rule in RULES for reason in rule(case)), None)
