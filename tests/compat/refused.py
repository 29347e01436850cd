"""What programs may have come to in the two libraries, and why one alone may refuse a statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Reason = tuple[int, str]  # the statement, and why it need not agree

HALVES = ("float16", "bfloat16")
DIFFERENTIATES = r"backward|\.grad\(|vjp\("
# How PyTorch's transforms fail where there are no samples, or no outputs to differentiate.
OF_NO_SAMPLES = (
    "index 0 out of range for tensor of size [0]", "index 0 is out of bounds for dimension 0 with",
    "cannot reshape tensor of 0 elements", "arg_spec must not be None", "expected t.size(0) to be",
)  # fmt: skip
SINGLE_PLACE = "refer to a single memory location"


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


def flat(values: Any) -> list[float]:
    return [part for value in values for part in (value if isinstance(value, list) else [value])]


@dataclass(frozen=True)
class Refusal:
    """Why one library alone may refuse a statement, with certain words."""

    words: str
    why: str
    statement: str = ""  # a pattern that is found in it
    holds: Callable[[Case, int], bool] = lambda case, number: True


def earlier(pattern: str) -> Callable[[Case, int], bool]:
    """Whether a statement before one has a pattern."""
    return lambda case, number: any(re.search(pattern, s) for s in case.statements[:number])


def _real_but_for_rounding(case: Case, number: int) -> bool:
    operands = [x for x in case.operand(number, r"= (\w+)") if "complex" in x["dtype"]]
    parts = [[abs(value[1]) for value in x["values"]] for x in operands]
    return len(parts) == 2 and not any(parts[0]) and 0 < max(parts[1]) < 1e-5


def _reads_its_target(case: Case, number: int) -> bool:
    statement = case.statements[number]
    target = re.search(r"out=(\w+)", statement)
    if target is None:
        return False
    there = case.before(number)[1]
    memory = there[target[1]]["memory"]
    others = [there[name] for name in re.findall(r"\bv\d+\b", statement) if name in there]
    return sum(x.get("memory") == memory for x in others) > 1


def _resizes_its_target(case: Case, number: int) -> bool:
    target = re.search(r"out=(\w+)", case.statements[number])
    shapes = [x.get("shape") for x in case.around(number, target[1])[0]] if target else [0, 0]
    return shapes[0] != shapes[1]


def _of_zero_gradients(case: Case, number: int) -> bool:
    grads = (case.variables.get("grads") or {}).get("items", ())
    return all(not any(flat(g["values"])) for g in grads if g)


def _fills_single_half(case: Case, number: int) -> bool:
    operands = case.operand(number, r"full_like\((\w+)")
    return any(x["dtype"] in HALVES and not x["shape"] for x in operands)


def _takes_nothing(case: Case, number: int) -> bool:
    names = re.findall(r"\bv\d+\b", case.statements[number])
    operands = [x for name in names for x in case.operand(number, rf"\b({name})\b")]
    return any(0 in x["shape"] for x in operands)


def _was_asked_in_vain(case: Case, number: int) -> bool:
    """Whether both have refused an index into what a statement writes to."""
    name = re.match(r"\w+", case.statements[number])
    both = [n for n in case.errors if n in case.own_errors and n < number]
    return any(name and f"{name[0]}[" in case.statements[n] for n in both)


def _gives_nothing(case: Case, number: int) -> bool:
    made = re.match(r"(\w+) = ", case.statements[number])
    (_, (_, there)) = case.around(number, made[1]) if made else ((), ({}, {}))
    return 0 in there.get("shape", ())


def _stores_nothing(case: Case, number: int) -> bool:
    operands = case.operand(number, r"(\w+)\.to_sparse")
    return any(not any(flat(x["values"])) for x in operands)


def _multiplies_nothing(case: Case, number: int) -> bool:
    operands = [*case.operand(number, r"(\w+) @"), *case.operand(number, r"@ (\w+)")]
    return any(0 in x["shape"] for x in operands)


REFUSED_THERE = (
    Refusal("does not support automatic differentiation for outputs",
        "a derivative that PyTorch lacks may be had here"),
    Refusal("derivative for aten::", "a derivative that PyTorch lacks may be had here"),
    Refusal("is not differentiable with respect to argument",
        "a derivative that PyTorch lacks may be had here"),
    Refusal("Found dtype", "the gradient of a loss between two dtypes is cast", DIFFERENTIATES),
    Refusal("is unsupported for Sparse tensors", "sparse tensors can do more here"),
    Refusal('"cadd_sparse" not implemented', "sparse tensors can do more here"),
    Refusal("conversion from Sparse to SparseCsr for input tensors with sparse_dim()!=2",
        "sparse tensors can do more here", DIFFERENTIATES),
    Refusal('"addmm_out_sparse_csr_impl_mkl" not implemented', "sparse tensors can do more here"),
    Refusal('"softmax" not implemented', "sparse tensors can do more here", r"sparse\.softmax"),
    Refusal("please report an enhancement request", "PyTorch finds itself wrong"),
    Refusal("A leaf node was passed to _will_engine_execute_node",
        "hooks on several gradients, of leaves among them, work in autograd.grad() as well"),
    Refusal("Autograd not support dtype",
        "PyTorch lets integers that a gradient's owner was written into require grad"),
    Refusal("please report a bug to PyTorch", "PyTorch finds itself wrong"),
    Refusal("returned an invalid gradient",
        "what is scattered nowhere has a gradient of zeros",
        holds=earlier(r"\.scatter(_add)?_?\(")),
    Refusal("derivative for set_ is not implemented",
        "a view keeps the history that it had when its base was set to other memory"),
    Refusal("ZeroTensors are immutable",
        "gradients add up, also to one that PyTorch knows to be zero"),
    Refusal("index_fill_(): Converting complex Scalar to non-complex type",
        "a complex number is a truth value, too, where it is written by one index"),
    Refusal("stack expects a non-empty TensorList",
        "a function of nothing has a Jacobian of no elements; PyTorch stacks one row an output"),
    Refusal("Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex)",
        "a real number filled into complex ones takes the real part of their gradient"),
    Refusal("has been modified inplace",
        "what has no gradient needs no history, a stale one neither",
        r"dtype=torch\.(u?int|bool)|\.isfinite\("),
    Refusal("view size is not compatible",
        "a Kronecker product can be taken of operands in any layout", r"kron\("),
    Refusal("cannot be converted to type",
        "whether a complex number is real may depend on its last bit",
        holds=_real_but_for_rounding),
    Refusal("with a bool tensor", "PyTorch's derivative of a power cannot take a bool exponent",
        DIFFERENTIATES),
    Refusal("tensors expected, but got 0D",
        "PyTorch's dot has resized what it reads when it comes to read it",
        holds=_reads_its_target),
    Refusal("more than one element",
        "PyTorch's transforms write into memory that they are given",
        r"torch\.func\.|functional|dual\("),
    Refusal("more than one element",
        "expanded memory of another shape is resized before it is written to",
        holds=_resizes_its_target),
    Refusal(SINGLE_PLACE,
        "a result is computed here before it is written over what it came from", "out="),
    Refusal("returned an invalid gradient",
        "PyTorch asks a tensor for its shape of then; its data were exchanged",
        holds=earlier(r"\.data = ")),
    Refusal("select(): index 0 out of range for tensor of size [0]",
        "what has no channels can be normalized", "BatchNorm", _takes_nothing),
    Refusal("Expected grad_output to have non-zero size for non-batch dimensions",
        "what pools no channels has a gradient of none"),
    Refusal("cannot reshape tensor of 0 elements", "a weight of no elements has norms, too",
        "weight_norm"),
    Refusal('"geqrf_cpu" not implemented', "orthogonal_ computes in single precision for halves",
        r"orthogonal_"),
    Refusal("torch.sign is not intended to support complex",
        "complex matrices can be made orthogonal", r"orthogonal_"),
    Refusal("setStorage",
        "PyTorch asks a tensor for its shape of then; its memory was exchanged",
        holds=earlier(r"\.set_\(")),
    *(
        Refusal(words, "a function can be mapped over no samples at all",
            r"vmap\(|jac(rev|fwd|obian)\(|hessian\(", _takes_nothing)
        for words in OF_NO_SAMPLES
    ),
    Refusal("a second time", "a pass to an inner tensor ends before the step that made it",
        holds=earlier("inputs=")),
    Refusal("modified by an inplace", "a pass to an inner tensor ends before the step that made it",
        r"\b(v\d+)\b.*inputs=\[\1\]"),
    Refusal('"avg_pool3d_out_frame" not implemented', "responses are normalized in any dtype",
        "local_response_norm"),
    Refusal("does not require grad", "PyTorch may give gradients that are zero no history",
        "for g in grads", _of_zero_gradients),
)  # fmt: skip
REFUSED_HERE = (
    *(
        Refusal(words, "PyTorch asks for no index where there is no sample", r"vmap\(",
            _takes_nothing)
        for words in ("is out of bounds for dimension", "indexing axis dim should be positive")
    ),
    Refusal("Index to scalar can have only 1 value",
        "PyTorch's vmap repeats numbers by an index, which it refuses outside", r"vmap\("),
    Refusal("expected scalar type", "PyTorch asks for no dtypes where no element is stored",
        r"sparse", _stores_nothing),
    Refusal("with size 0", "an index into a dimension of size 0 is out of range, whatever else is",
        r"\] = (-?[\d.]+( [-+] [\d.]+j)?|-?inf|nan|True|False)$"),
    Refusal("without overflow", "PyTorch does not check a number that fills a single half",
        holds=_fills_single_half),
    Refusal("once_differentiable", "PyTorch may give gradients that are zero no history",
        "for g in grads"),
    Refusal(SINGLE_PLACE, "PyTorch sorts, and searches, into the memory that it still reads",
        "out="),
    Refusal("result type Complex", "PyTorch lets a complex mean lose its imaginary part",
        r"torch\.(mean|logsumexp)\(.*out="),
    Refusal('"dot" not implemented', "PyTorch maps dot over no samples of any dtype", r"vmap\(",
        lambda case, n: any(0 in x["shape"] for x in case.operand(n, r"\)\)\((\w+)"))),
    Refusal("expected scalar type", "PyTorch multiplies nothing of any two dtypes",
        holds=_multiplies_nothing),
    Refusal("not implemented for", "PyTorch asks for no dtype where nothing is computed",
        holds=_takes_nothing),
    Refusal("not implemented for", "PyTorch asks for no dtype where nothing is computed",
        r"mode='area'|pdist", _gives_nothing),
    Refusal("not implemented for", "PyTorch asks for no dtypes where no element is stored",
        r"sparse", _stores_nothing),
    Refusal("expected scalar type", "PyTorch asks for no dtype where nothing is computed",
        "scaled_dot_product_attention", _takes_nothing),
    Refusal("Expected a floating point or complex", "PyTorch asks for no dtype of no elements",
        r"linalg\.cond", _takes_nothing),
    Refusal("more than one element", "PyTorch lets some ops write into an expanded tensor",
        r"tri[ul]_\(|out="),
    Refusal("setStorage", "what lies in memory behind a loss is nobody's", "as_strided",
        earlier(r"autocast.* F\.\w+_loss\(")),
    Refusal("a leaf Variable that requires grad",
        "a view learns of its base's history when it is asked, even in vain there",
        holds=_was_asked_in_vain),
    Refusal("derivative for aten::floor_divide_ is not implemented",
        "PyTorch lets gradients pass a division into a view that has none"),
)  # fmt: skip
# What both refuse, after PyTorch has done something of it.
HALF_DONE_THERE = (
    Refusal("ZeroDivisionError",
        "PyTorch has divided some elements when it finds the divisor zero"),
    Refusal("number of ones in mask",
        "PyTorch has written some elements when it finds that the source has too few"),
    Refusal("Inplace update to inference tensor",
        "PyTorch has written when it finds that it must not"),
    Refusal("out of bounds",
        "PyTorch has written some elements when it finds an index out of range",
        r"_\(|[])] *[^=<>!]?=[^=]", lambda case, number: case.errors[number][0] == "IndexError"),
)  # fmt: skip


def refused(case: Case, table: tuple[Refusal, ...], errors: dict[int, Any]) -> Iterator[Reason]:
    for number, (_, text) in errors.items():
        for refusal in table:
            found = refusal.words in text and re.search(refusal.statement, case.statements[number])
            if found and refusal.holds(case, number):
                yield number, refusal.why


def refused_by_one(case: Case) -> Iterator[Reason]:
    """Statements that one of the two refuses."""
    theirs = {n: error for n, error in case.errors.items() if n not in case.own_errors}
    yield from refused(case, REFUSED_THERE, theirs)
    own = {n: error for n, error in case.own_errors.items() if n not in case.errors}
    yield from refused(case, REFUSED_HERE, own)
