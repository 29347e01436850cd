"""The calls of tools/fuzz.py: of rows of the registry, of samples that were changed, of functions
that the package's modules name, and of Python's operators.
"""

from __future__ import annotations

import inspect
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import harness
from fuzz_arguments import DTYPES, Arguments, Changed
from samples.spec import Op

import flambeau as torch

EXPECTED = (
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    NotImplementedError,
    OverflowError,
    ZeroDivisionError,
    MemoryError,
    BufferError,
)
# They wait for something outside the process, or change a setting of all that follow.
LEFT_OUT = re.compile(
    r"""_cuda.*|set_.+|_set_.*|manual_seed.*|_accelerator.*|seed|use_deterministic_.*|from_file
    |save|load|compile|register.*|_?assert.*|_check.*|fork_rng|thread.*|share_memory_|pin_memory
    |_function|_public|_overridable|.*torch_function.*|import.*|record_stream|cuda|apply_|map2?_
    |_make_.*|get_rng_state|typename|sym_.*|as_sparse_gradcheck|_core_name|backward|_.*hook.*
    |module_load|reinforce|__.*|_dispatch.*|_reduce.*|_rebuild.*|_type_.*|_is_view""",
    re.VERBOSE,
)
MODULES = ("", "nn.functional", "linalg", "fft", "special", "sparse", "masked", "nested", "Tensor")
OPERATORS = """add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt
ge iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift getitem contains
concat neg pos invert abs index not_ truth delitem""".split()
LAZY = "stft istft lu lu_unpack einsum unique cdist norm split tensordot".split()
KIND_OF_NAME = {
    "dim": "integer",
    "dims": "ints",
    "axis": "integer",
    "size": "ints",
    "shape": "ints",
    "kernel_size": "ints",
    "stride": "ints?",
    "padding": "ints",
    "output_size": "ints",
    "self": "tensor",
    "dtype": "dtype?",
    "mode": "string",
    "reduction": "string",
    "generator": "generator?",
    "out": "tensor?",
}


@dataclass
class Call:
    """A function, its arguments, and the name under which its outcomes are counted."""

    label: str
    function: Callable[..., Any]
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ops:
    """What is called: rows of the registry, samples, and functions by name."""

    rows: list[dict[str, Any]]
    entries: list[Op]
    named: list[tuple[str, Callable[..., Any]]]
    narrowed: bool = False  # to some names, as the user asked
    threads: int = 1


def named_functions(wanted: Callable[[str], bool]) -> list[tuple[str, Callable[..., Any]]]:
    """The functions in Python that the modules name; what is registered is called anyway."""
    found = []
    for module in MODULES:
        owner = operator.attrgetter(module)(torch) if module else torch
        for name in sorted({*dir(owner), *(LAZY if not module else ())}):
            value = getattr(owner, name, None)
            if inspect.isfunction(value) and wanted(name):
                found.append((f"{module}.{name}".lstrip("."), value))
    return found + [
        (f"operator.{name}", getattr(operator, name)) for name in OPERATORS if wanted(name)
    ]


def parameters(signature: str) -> list[tuple[str, bool, bool]]:
    """Name, whether it can be left out, and whether it goes by keyword, of each parameter."""
    inside = signature[signature.index("(") + 1 :].split(" -> ")[0].rstrip(" ").removesuffix(")")
    found, keyword, depth, part = [], False, 0, ""
    for letter in inside + ",":
        depth += (letter in "([") - (letter in ")]")
        if letter != "," or depth:
            part += letter
            continue
        text, part = part.strip(), ""
        if text == "*":
            keyword = True
        elif text:
            name, _, default = text.lstrip("*").partition("=")
            found.append((name, bool(default) or text.startswith("**"), keyword))
    return found


def registered(ops: Ops, rng: random.Random) -> Call:
    """A row of the registry with arguments of the kinds that it names."""
    row = rng.choice(ops.rows)
    make = Arguments(rng)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    skipping = False
    names = parameters(row["signature"])
    for (name, optional, keyword), kind in zip(names, row["arguments"], strict=True):
        if kind == "options":
            kwargs |= make.options()
        elif optional and rng.random() < 0.4:
            skipping = True
        elif keyword or skipping:
            kwargs[name] = make.make(kind)
        else:
            args.append(make.make(kind))
    label = row["signature"].split(" -> ")[0]
    if row["inplace"] and rng.random() < 0.3:
        return Call(label, getattr(torch.Tensor, row["name"] + "_"), args, kwargs)
    if not row["function"] or (row["method"] and rng.random() < 0.2):
        return Call(label, getattr(torch.Tensor, row["name"]), args, kwargs)
    if rng.random() < 0.1:
        kwargs["out"] = make.make("tensors" if row["returns"] == "tuple" else "tensor")
    return Call(label, getattr(torch._C, row["name"]), args, kwargs)


def overlapping(x: Any, rng: random.Random) -> Any:
    """A tensor over the same memory as another, or over itself."""
    x = x.detach()
    if x.layout is not torch.strided or x.dim() == 0:
        return x
    ways = [
        lambda: x[1:],
        lambda: x.transpose(0, -1),
        lambda: x[:1].expand(x.shape),
        lambda: x.flip(0)[:0],
        lambda: x.as_strided(x.shape, [1] * x.dim()),
        lambda: x.view(torch.uint8),
        lambda: x.unsqueeze(0),
    ]
    try:
        return rng.choice(ways)()
    except EXPECTED:
        return x


def _form(entry: Op, args: list[Any], kwargs: dict[str, Any], rng: random.Random) -> Any:
    """The op as a function, in place, or writing into a tensor that may be an argument itself."""
    function = harness.resolve(torch, entry)
    way = rng.random()
    in_place = getattr(torch.Tensor, entry.name + "_", None)
    if way < 0.15 and in_place and args and isinstance(args[0], torch.Tensor):
        return in_place
    if way < 0.3 and "out" in entry.forms:
        makers = [lambda: torch.empty(0), Arguments(rng).tensor]
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        if tensors:
            makers.append(lambda: rng.choice(tensors))
            makers.append(lambda: torch.empty_like(tensors[0]))
            makers.append(lambda: overlapping(rng.choice(tensors), rng))
        kwargs["out"] = rng.choice(makers)()
    return function


def nearly_right(ops: Ops, rng: random.Random) -> Call | None:
    """A sample's call with one or two other arguments, differentiated where that is possible."""
    if not ops.entries:
        return None
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

    args, kwargs = harness.map_tensors((list(args), kwargs), tracked)
    return Call(f"sample {entry.name}", _form(entry, args, kwargs, rng), list(args), kwargs)


def _kind(parameter: inspect.Parameter) -> str:
    """What a parameter of a function in Python seems to want."""
    if parameter.name in KIND_OF_NAME:
        return KIND_OF_NAME[parameter.name]
    text = str(parameter.annotation)
    kinds = {"Tensor": "tensor", "int": "integer", "float": "real", "bool": "boolean"}
    kinds |= {"str": "string", "Sequence[Tensor]": "tensors", "Number": "scalar"}
    word, _, rest = text.partition(" | ")
    if word in kinds:
        return kinds[word] + ("?" if "None" in rest else "")
    by_default = {bool: "boolean", int: "integer", float: "real", str: "string"}
    return by_default.get(type(parameter.default), "anything")


def by_name(ops: Ops, rng: random.Random) -> Call | None:
    """A function in Python with what its parameters' names and types suggest."""
    if not ops.named:
        return None
    label, function = rng.choice(ops.named)
    make = Arguments(rng)
    if label.startswith("operator."):
        count = 1 if label[9:] in "neg pos invert abs index not_ truth".split() else 2
        operands = [make.make("tensor")] + [make.anything()] * (count - 1)
        ours = any(isinstance(operand, torch.Tensor) for operand in operands)
        return Call(label, function, operands) if ours else None  # Python's integers can hang
    if "_foreach_" in label:
        lists = [make.tensors() for _ in range(rng.choice((0, 1, 1, 2)))]
        return Call(label, function, [make.tensors(), *lists, *[make.scalar()] * rng.randint(0, 1)])
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    skipping = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            if not skipping:
                args += [make.anything() for _ in range(rng.choice((0, 1, 2)))]
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= make.options() if rng.random() < 0.3 else {}
        elif parameter.default is not parameter.empty and rng.random() < 0.5:
            skipping = True
        elif parameter.kind is parameter.KEYWORD_ONLY or skipping:
            kwargs[parameter.name] = make.make(_kind(parameter))
        else:
            args.append(make.make(_kind(parameter)))
    return Call(label, function, args, kwargs)
