"""Differences from PyTorch that are meant to be, each with its reason.

A rule names the statement that the difference comes from. That statement is left out, and the rest
of the program is compared without it: so a rule excuses one statement and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from refused import (
    DIFFERENTIATES,
    HALF_DONE_THERE,
    HALVES,
    Case,
    Reason,
    earlier,
    flat,
    refused,
    refused_by_one,
)

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
LEAST = {-2147483648, -9223372036854775808}
RUNTIME = {"RuntimeError", "NotImplementedError"}
TOUCHED = "modified by an inplace operation"
# How else PyTorch tells that what it has saved is there no more.
GONE = ("has been detached in-place", "a second time", "is a view and its base or another view")
# Nodes inside of what PyTorch composes a product with a vector of.
INNER_NODES = {
    mark + name for mark in ("", "<") for name in ("SqueezeBackward4", "UnsafeViewBackward0")
}
# What follows the name of a variable that is written to.
WRITTEN = r"(\.\w+_\(|\[[^\n]*\] *\S?= | [-+*/%&|@<>]+= )"
# A change of a variable's shape in place.
RESHAPED = r"{}\.(t|transpose|swapdims|swapaxes|squeeze|unsqueeze|as_strided)_\("
# What PyTorch may see of a statement before it looks at an index.
SEEN_BEFORE_INDICES = (
    "has been modified inplace", "Converting complex Scalar", "must have the same scalar type",
)  # fmt: skip
# A pass that is refused with these words has not begun.
BEFORE_A_PASS = ("does not require grad", "implicitly created", "Mismatch in shape", "inference")

# Ops whose gradient PyTorch computes from more than it needs: the result of a power (the base and
# the exponent suffice), the input of a running extreme, of a sign, of a pool or of padding (indices
# suffice, or nothing), the divisor of a rounded quotient (its gradient is zero), both sides of
# index_add and index_reduce, the input of what picks elements (its shape suffices), of a product
# of one number; and ops that keep a copy, a factor or a converted operand here, itself there.
SAVES_MORE_THERE = (
    r"prod_?\(|pow|\*\*|cumm(ax|in)|sgn|sign|_pool1d|replicate|rounding_mode|//"
    r"|index_(add|reduce)|\.gather|\.take|\.put\(|masked_select|quantile"
    r"|sinc|logit|\.dist\(|smooth_l1|torch\.complex|addc(mul|div)|clamp|cosine_similarity"
    r"|scatter_reduce|polar|log_ndtr|erfcx|to_sparse|fft\.|vmap\(.*softmax"
)
KINKED = r"pow|\*\*|norm|std|hypot|dist|sinc|copysign|sgn"  # at zero


def _overlaps_itself(variable: Any) -> bool:
    """Whether a tensor has more elements than addresses in memory."""
    if "stride" not in variable or 0 in variable["shape"]:
        return False
    return math.prod(variable["shape"]) > _addresses(variable)


def _addresses(variable: Any) -> int:
    """How many addresses in memory a tensor that has elements reaches over."""
    steps = zip(variable["shape"], variable["stride"])
    return 1 + sum((n - 1) * step for n, step in steps)


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


def _folds(case: Case, number: int) -> bool:
    """Whether a statement multiplies more than matrices, which PyTorch folds into some."""
    patterns = (r"(\w+) @", r"@=? (\w+)", r"matmul\((\w+)", r"matmul\(\w+, (\w+)")
    operands = [x for pattern in patterns for x in case.operand(number, pattern)]
    return any(len(x["shape"]) > 2 for x in operands)


def saved_by_one(case: Case) -> Iterator[Reason]:
    """Ops of which one library keeps more for the gradient than the other, where a pass is refused
    by that one: what it has kept was written to, or is gone. The op is left out, not the pass."""
    both = case.errors.keys() & case.own_errors.keys()
    # Where a statement has another fault behind its pass, both refuse it.
    only_there = [
        n for n in both if TOUCHED in case.errors[n][1] and TOUCHED not in case.own_errors[n][1]
    ]
    for number in [*(case.errors.keys() ^ case.own_errors.keys()), *only_there]:
        (_, text) = case.errors.get(number) or case.own_errors[number]
        if number in case.errors and re.search(DIFFERENTIATES, case.statements[number]):
            gone = any(w in text for w in (TOUCHED, *GONE))
            for op in reversed(range(number)) if gone else ():
                folds = "detached" in text and _folds(case, op)
                if folds or re.search(SAVES_MORE_THERE, case.statements[op]):
                    yield op, "our gradient needs less than PyTorch saves; a write harms nothing"
        if number in case.own_errors and TOUCHED in text and re.search("saved by B?[Mm][mv]", text):
            for op in reversed(range(number)):
                if _folds(case, op):
                    yield op, "a product keeps its operands, where PyTorch may keep a folded copy"


def refused_by_both(case: Case) -> Iterator[Reason]:
    """Statements that both refuse, one of them after it has done something."""
    both = {n: error for n, error in case.errors.items() if n in case.own_errors}
    yield from refused(case, HALF_DONE_THERE, {n: (0, ": ".join(e)) for n, e in both.items()})
    for number, (kind, text) in both.items():
        statement = case.statements[number]
        own_kind, own_text = case.own_errors[number]
        began = not any(words in text for words in BEFORE_A_PASS)
        if re.search(DIFFERENTIATES, statement) and began and {kind, own_kind} <= RUNTIME:
            yield number, "which leaves a pass has reached when it breaks off is unspecified"
        if "hooks should return None" in own_text:
            yield number, "PyTorch hands what a hook should not have returned to the next one"
        if "Dimension out of range" in text and "scatter" in own_text:
            yield number, "PyTorch looks for dimensions before it has compared their number"
        words = ("leaf Variable", "inference tensor", '"gt" not implemented')
        unwritable = any(word in own_text for word in words)
        unfit = any(words in text for words in SEEN_BEFORE_INDICES)
        if (own_kind == "IndexError" and unfit) or (kind == "IndexError" and unwritable):
            yield number, "two things are wrong, and either may be seen first"
        if "does not support automatic differentiation for outputs" in text:
            yield number, "a derivative that PyTorch lacks may be had here, up to another fault"
        if "vmap(" in statement and "out of bounds" in text and own_kind == "IndexError":
            yield number, "an index out of range is a RuntimeError where PyTorch maps over samples"
        if ".item() on a Tensor" in text and "must only return Tensors" in own_text:
            yield number, "PyTorch lets nobody read a number of one sample, nor can it be returned"
        if "setStorage" in text and own_kind == "IndexError":
            yield number, "an index into a dimension of size 0 is out of range, whatever else is"
        target = re.search(r"out=\(?(\w+)", statement)
        if target:
            (old, new), (their_old, their_new) = case.around(number, target[1])
            kept = old.get("shape") == new.get("shape")
            if kept and their_old.get("shape") != their_new.get("shape"):
                yield number, "PyTorch has resized what it finds that it cannot write to"


def _halves(x: Any) -> bool:
    return x["dtype"] in HALVES


def _has(test: Callable[[float], bool], dtype: str = "") -> Callable[[Any], bool]:
    """Whether an element of a tensor, of a dtype of that name, passes a test."""
    return lambda x: dtype in x["dtype"] and any(map(test, flat(x["values"])))


# What a statement may give, or how it may round, by what an operand holds: where it stands in the
# statement, what is asked of it, and why.
BY_OPERAND: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    (r"(\w+)\.stride\(\)", lambda x: 0 in x["shape"], "what nothing is stepped by means nothing"),
    (r"copysign.*, (\w+)\)", _has(math.isnan), "the sign of a number that is none is unspecified"),
    (r"copysign\((\w+),", _has(math.isinf),
        "PyTorch divides infinity by itself for the slope of copysign"),
    (r"(\w+)\.logcumsumexp", lambda x: "complex" in x["dtype"],
        "the angle of PyTorch's sum of exponentials may be off by a turn"),
    (r"(\w+)\.logcumsumexp", _halves,
        "PyTorch's gradient of logcumsumexp is far off in half precision"),
    (r"(\w+)(?:\.to\(torch\.\w+\))?\.prod\(", _halves,
        "PyTorch rounds a product to half precision at each step"),
    (r"(\w+)\.log_softmax", lambda x: x["dtype"] == "bfloat16",
        "PyTorch's log_softmax rounds what is close to zero to zero"),
    (r"(\w+)(?: \+ 1j)?\)?\.reciprocal", _has(lambda v: not math.isfinite(v), "complex"),
        "what is one over a complex infinity or NaN is unspecified"),
    (r"\b(?:var|std)_mean\((\w+)", _has(math.isinf), "PyTorch's running mean of infinities is NaN"),
    (r"gelu\((\w+)", _has(math.isinf), "PyTorch's gelu of infinity is NaN, where it takes many"),
    (r"histc\((\w+)", lambda x: len({*x["values"]}) == 1 and abs(x["values"][0]) > 2**23,
        "where one more is the same number, bins around it have no width"),
    (r"hardsigmoid\((\w+)", lambda x: x["dtype"] == "float64",
        "PyTorch takes a sixth in single precision for the slope of hardsigmoid"),
    (r"cholesky_inverse\((\w+)", lambda x: "complex" in x["dtype"],
        "a factor has a real diagonal; of another PyTorch may see the real part"),
    (r"matrix_exp\((\w+)", _halves, "PyTorch's powers of a matrix of half precision overflow"),
    (r"(\w+)\.neg_?\(",
        lambda x: "complex" in x["dtype"] and 0 in flat(x["values"]),
        "PyTorch's negative of a complex zero has the one sign or the other, by its place"),
    (r"train\(torch\.optim\.\w*Adam\w*, (\w+)", lambda x: x["dtype"] == "float16",
        "PyTorch's Adam squares in half precision, where small squares and its epsilon are zero"),
    (r"(\w+)\.clamp_?\((?:m\w\w=)?v", _has(math.isnan),
        "whether a bound takes part in what is no number is unspecified"),
    (r"dual\(.*mean\(\), (\w+)", lambda x: 0 in x["shape"],
        "what no tangents add up to is zero here; PyTorch takes their mean"),
    (r"(\w+)\.median\(", _overlaps_itself,
        "PyTorch's median sorts in the memory that expanded rows share"),
    (r"(\w+)\.resize_\(", _overlaps_itself,
        "what memory that a tensor grows by holds is undefined"),
    (r"(\w+)\.(?:select|slice)_scatter\(",
        lambda x: x["offset"] or _addresses(x) != math.prod(x["shape"]),
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
        if re.search("1j|complex|addcmul", statement):
            names = re.findall(r"\bv\d+\b", statement)
            operands = [x for name in names for x in case.operand(number, rf"\b({name})\b")]
            infinite = re.search(r"\binf\b", statement) or any(map(_has(math.isinf), operands))
            if infinite and ("j" in statement or any("complex" in x["dtype"] for x in operands)):
                yield number, "what complex products make of infinities is unspecified"
        product = re.search(r"(\w+)\.scatter_reduce_?\(.*, (\w+), 'prod'", statement)
        for variables in case.before(number) if product else ():
            target, source = (variables.get(name, {}).get("shape") for name in product.groups())
            if target != source:
                yield number, "PyTorch's gradient of a scattered product takes all of the source"
        if re.search(r"\*\*=? False|False \*\*|pow_?\((\w+, )?False\)", statement):
            yield number, "PyTorch's derivatives of x ** False and False ** x are NaN at zero"
        inner = re.search(r"backward\(.*inputs=\[(\w+)\]", statement)
        if inner and any(f"{inner[1]}.grad_fn.register" in s for s in case.statements[:number]):
            yield number, "a pass to an inner tensor ends before the step that made it"
        number_and_tangent = re.search(r"dual\(.*, (\w+)[.\w()]*, (\w+)[.\w()]*\)", statement)
        for variables in case.before(number) if number_and_tangent else ():
            dtypes = {variables.get(name, {}).get("dtype") for name in number_and_tangent.groups()}
            if len(dtypes - {None}) > 1:
                yield number, "a tangent has the dtype of its number here"
        name = number_and_tangent and number_and_tangent[2]
        tangent = name and rf"{name}{WRITTEN}|nn\.init\.\w+_\({name}\b"
        if tangent and any(re.match(tangent, s) for s in case.statements[number:]):
            yield number, "whether a tangent of a view lies where the input's does is not told"
        kept = re.search(r"(?:^|inputs=\[)(\w+)(?:\.retain_grad|\])", statement)
        if kept and any(re.match(RESHAPED.format(kept[1]), s) for s in case.statements[number:]):
            yield number, "PyTorch keeps the gradient of what was there before a change of shape"
        angle = r"(?:atan2\((\w+), |(\w+)\.atan2_?\()(\w+)"
        for point in re.finditer(angle, statement):
            for variables in case.before(number):
                a, b = (
                    variables.get(name, {}).get("values", name)
                    for name in (point[1] or point[2], point[3])
                )
                if a == b:
                    yield number, "both gradients of an angle that stays the same cancel out"
        if re.search(r"pow|\*\*", statement):
            for name in {*re.findall(r"\bv\d+\b", statement)}:
                (_, ours), (_, theirs) = case.around(number, name)
                if "complex" in theirs.get("dtype", "") and _zero_to_zero(ours, theirs):
                    yield number, "0 to the power of 0 is 1, also of complex numbers"


def _wants_gradient(variable: Any) -> bool:
    return bool(variable) and variable.get("requires_grad", False)


def of_integers(case: Case) -> Iterator[Reason]:
    """Writes of what wants a gradient into integers, which from then on want one there."""
    for name, variable in case.variables.items():
        if variable.get("dtype") not in INTEGERS or not variable["requires_grad"]:
            continue
        for number in range(len(case.statements)):
            (_, (before, after)) = case.around(number, name)
            if _wants_gradient(after) and not _wants_gradient(before):
                yield number, "PyTorch lets integers that a gradient was written into want one"


def _kept_more_there(case: Case, number: int) -> bool:
    """Whether an op of which PyTorch keeps more has read the memory that a statement exchanges."""
    there = case.before(number)[1]
    target = re.search(r"(\w+)\.data", case.statements[number])
    memory = there.get(target[1], {}).get("memory") if target else None
    for statement in case.statements[:number]:
        if re.search(SAVES_MORE_THERE + "|copysign|scaled_dot_product", statement):
            names = re.findall(r"\bv\d+\b", statement)
            if any(memory and there.get(name, {}).get("memory") == memory for name in names):
                return True
    return False


def of_memory(case: Case) -> Iterator[Reason]:
    """Statements that write where others read, or where a gradient was promised a place."""
    for number, statement in enumerate(case.statements):
        if number in case.errors:
            continue
        if re.search(r"\.data(\.\w+_\(|\[.*\] = | = )", statement):
            if any(_folds(case, op) for op in range(number)):
                yield number, "PyTorch may keep a folded copy of what it multiplies"
            if _kept_more_there(case, number):
                yield number, "our gradient needs less than what was exchanged under PyTorch's"
        exchanged = re.search(r"vector_to_parameters\(.*\[(\w+)\]\)", statement)
        for old, new in case.around(number, exchanged[1]) if exchanged else ():
            if old.get("requires_grad") and old["dtype"] != new["dtype"]:
                yield number, "views of a leaf that has another dtype now belong to it or not"
        target = re.search(r"out=(\w+)", statement)
        for old, new in case.around(number, target[1]) if target else ():
            if new.get("requires_grad") and new["is_leaf"] and old.get("shape") != new["shape"]:
                yield number, "a leaf was given another shape after its gradient was promised one"
        replaced = re.search(r"no_grad\(\): (\w+)\.set_\(", statement)
        for old, _ in case.around(number, replaced[1]) if replaced else ():
            if old.get("requires_grad") and not old["is_leaf"]:
                yield (
                    number,
                    "PyTorch takes a view that was set to other memory for part of its base",
                )
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


def _items(variable: Any) -> list[Any]:
    """The tensors that a variable holds."""
    items = (variable or {}).get("items", [variable])
    return items if isinstance(items, list) else []


def _zero(item: Any) -> bool:
    return "values" in (item or ()) and not any(map(bool, flat(item["values"])))


def _history_differs(ours: Any, theirs: Any) -> bool:
    return _wants_gradient(ours) and not _wants_gradient(theirs)


def of_layouts(case: Case) -> Iterator[Reason]:
    """Steps whose gradients have the same numbers and lie in memory in other ways."""
    own = case.ours["variables"].get("grads")
    for one, two in zip(_items(own), _items(case.variables.get("grads"))):
        if not one or not two or one["shape"] != two["shape"] or one["stride"] == two["stride"]:
            continue
        numbers = zip(flat(one["values"]), flat(two["values"]))
        if all(math.isclose(x, y, rel_tol=1e-2, abs_tol=1e-3) for x, y in numbers):
            for number, statement in enumerate(case.statements):
                if "scaled_dot_product_attention" in statement:
                    yield number, "a gradient of attention lies in memory as its input does"
                if "fft.rfft" in statement:
                    yield number, "PyTorch gives the real parts of a gradient where they lie"


def of_variables(case: Case) -> Iterator[Reason]:
    """Statements whose results tell that they may be anything."""
    for name, variable in case.variables.items():
        if str(variable.get("value")) in INNER_NODES:
            for number in case.origin(name):
                yield number, "PyTorch names the last of several steps of a product"
        if variable.get("dtype") in INTEGERS:
            for number in case.origin(name):
                if LEAST & {*variable["values"]}:
                    yield number, "which integer stands for NaN and infinity is undefined"
        if name.startswith("g"):
            pairs = zip(_items(case.ours["variables"].get(name)), _items(variable))
            if any(_zero(one) and _zero(two) and _history_differs(one, two) for one, two in pairs):
                for number in case.origin(name):
                    yield number, "PyTorch may give gradients that are zero no history"
        if 0 in variable.get("shape", ()):
            for number in case.origin(name):
                if re.search(r"func\.(hessian|jacfwd\(torch)", case.statements[number]):
                    yield number, "whether second derivatives of nothing have a history is not told"
    own = case.ours["variables"]
    infinite = any(
        x.get("requires_grad") and any(map(math.isinf, flat(x["values"])))
        for x in case.variables.values()
    )
    for name, variable in case.variables.items():
        grads = [(v.get("grad") or {}).get("values", ()) for v in (own.get(name) or {}, variable)]
        nans = [list(map(math.isnan, flat(values))) for values in grads]
        if nans[0] == nans[1] or any(one and not other for one, other in zip(*nans)):
            continue
        for number, statement in enumerate(case.statements):
            if "for g in grads" not in statement:
                continue
            if earlier(KINKED)(case, number):
                yield number, "PyTorch's second derivative at a kink, as of 0 ** x, may be NaN"
            elif infinite:
                yield number, "a second derivative of what is infinite may be a difference of such"


RULES = (
    refused_by_one, saved_by_one, refused_by_both, of_statements, of_integers, of_memory,
    of_layouts, of_variables,
)  # fmt: skip


def explanation(case: Case) -> Reason | None:
    """A statement from which the two may differ, and why; or None."""
    return next((reason for rule in RULES for reason in rule(case)), None)
