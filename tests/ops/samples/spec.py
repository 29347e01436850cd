"""The notation in which op samples are written; it imports neither Flambeau nor PyTorch.

An entry says how an op is called, for which dtypes, and what NumPy answers:

    op("cos", unary_calls(), ref=np.cos, dtypes="hfc", result="float", forms="inplace out")

`call(t(3, 4), 2, alpha=1)` is one call: `t(...)` stands for a tensor of the dtype under test,
`ints` for an index tensor, `bools` for a mask, `DTYPE` for the dtype under test itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

# One letter a group of dtypes, so that an entry says "ihf" for all real numbers.
DTYPE_GROUPS = {
    "b": ("bool",),
    "i": ("uint8", "int8", "int16", "int32", "int64"),
    "h": ("float16", "bfloat16"),
    "f": ("float32", "float64"),
    "c": ("complex64", "complex128"),
}
ALL_DTYPES = tuple(name for group in DTYPE_GROUPS.values() for name in group)
REAL_OF_COMPLEX = {"complex64": "float32", "complex128": "float64"}


def dtype_names(letters: str) -> tuple[str, ...]:
    """The dtypes that a string of group letters stands for; a dtype's name stands for itself."""
    if letters in ALL_DTYPES:
        return (letters,)
    return tuple(name for letter in letters for name in DTYPE_GROUPS[letter])


def is_floating(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def is_complex(dtype: str) -> bool:
    return dtype.startswith("complex")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor to be made: its shape, its dtype (None: the one under test) and its values."""

    shape: tuple[int, ...]
    dtype: str | None = None
    low: float = -3.0
    high: float = 3.0
    values: tuple[Any, ...] | None = None  # given one by one instead of drawn
    distinct: bool = False  # no two elements equal, so that sorting has one answer
    nonzero: bool = False  # away from zero, where the op has a pole or a kink
    differentiable: bool = True

    def __str__(self) -> str:
        return f"t{self.shape}" if self.dtype is None else f"t{self.shape}:{self.dtype}"

    __repr__ = __str__


class _DtypeUnderTest:
    def __repr__(self) -> str:
        return "DTYPE"


DTYPE = _DtypeUnderTest()


@dataclass(frozen=True)
class DtypeArgument:
    """A dtype given by name in an argument, as `dtype=as_dtype("float32")`."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Call:
    """One call of an op, with what differs from its entry."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dtypes: str | None = None
    result: str | None = None
    ref: Callable[..., Any] | None = None
    grad: bool = True
    inplace: bool = True
    out: bool = True
    layouts: bool = True

    def __str__(self) -> str:
        shown = [repr(argument) for argument in self.args]
        shown += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"({', '.join(shown)})"


@dataclass(frozen=True)
class Op:
    """All that the tests know about an op. See `op` for the meaning of the fields."""

    name: str
    calls: tuple[Call, ...]
    ref: Callable[..., Any] | None
    dtypes: str
    result: str
    forms: frozenset[str]
    grad: bool
    second: bool
    tolerance: float
    where: str
    empty: str | None
    zero_dim: str | None
    covers: frozenset[str]

    def __str__(self) -> str:
        return self.name

    def cases(self, among: Sequence[str] = ALL_DTYPES) -> list[tuple[Call, str]]:
        """Every call with every dtype it is for."""
        cases = [
            (one, dtype)
            for one in self.calls
            for dtype in dtype_names(one.dtypes if one.dtypes is not None else self.dtypes)
            if dtype in among
        ]
        return thinned(cases) if thin else cases

    def result_rule(self, one: Call) -> str:
        return one.result if one.result is not None else self.result


ENTRIES: dict[str, Op] = {}

# Set where a few cases shall stand for all, because each takes long, as under a sanitizer.
thin = False


def width(dtype: str) -> int:
    """The bits of an element."""
    return int("".join(filter(str.isdigit, dtype)) or 8)


def has_elements(item: Any) -> bool:
    """Whether a tensor of several elements is among arguments."""
    if isinstance(item, (list, tuple)):
        return any(map(has_elements, item))
    return isinstance(item, TensorSpec) and math.prod(item.shape) > 1


def thinned(cases: list[tuple[Call, str]]) -> list[tuple[Call, str]]:
    """Cases among which are all calls and all widths of elements, but not all pairs."""
    by_call: dict[int, list[tuple[Call, str]]] = {}
    for case in cases:
        by_call.setdefault(id(case[0]), []).append(case)
    kept: list[tuple[Call, str]] = []
    widths: set[int] = set()
    for number, of_call in enumerate(by_call.values()):
        new = [case for case in of_call if width(case[1]) not in widths]
        kept.append(new[0] if new else of_call[number % len(of_call)])
        if has_elements(of_call[0][0].args):
            widths.add(width(kept[-1][1]))
    for case in cases:
        if width(case[1]) not in widths and has_elements(case[0].args):
            kept.append(case)
            widths.add(width(case[1]))
    return kept


def t(*shape: int, **options: Any) -> TensorSpec:
    """A tensor of the dtype under test."""
    return TensorSpec(shape, **options)


def ints(*shape: int, high: int, low: int = 0, **options: Any) -> TensorSpec:
    """An int64 tensor with low <= element < high, such as an index."""
    return TensorSpec(shape, dtype="int64", low=low, high=high - 1, **options)


def bools(*shape: int, **options: Any) -> TensorSpec:
    """A mask."""
    return TensorSpec(shape, dtype="bool", **options)


def as_dtype(name: str) -> DtypeArgument:
    """A dtype as an argument, whatever the dtype under test."""
    return DtypeArgument(name)


_CALL_OPTIONS = ("dtypes", "result", "ref", "grad", "inplace", "out", "layouts")


def call(*args: Any, **kwargs: Any) -> Call:
    """One call. An option of the sample is written with a trailing underscore: `dtypes_="f"`."""
    options = {name: kwargs.pop(f"{name}_") for name in _CALL_OPTIONS if f"{name}_" in kwargs}
    return Call(args, kwargs, **options)


def op(
    names: str,
    *calls: Call | Iterable[Call],
    ref: Callable[..., Any] | None = None,
    dtypes: str = "bihfc",
    result: str = "same",
    forms: str = "",
    grad: bool = True,
    second: bool = True,
    tolerance: float = 1.0,
    where: str = "",
    empty: str | None = None,
    zero_dim: str | None = None,
    covers: str = "",
) -> None:
    """Declares the samples of an op, and of its aliases when `names` holds several words.

    ref        NumPy's answer, called with the same arguments; None when values are not defined
    dtypes     group letters of `DTYPE_GROUPS`
    result     dtype of the result: same, float (integers become float32), sum (integers become
               int64), bool, int64, real (complex becomes real), complex, any (not checked)
    forms      words among: inplace, out, view (the result shares memory), creation (takes device=),
               random (depends on the generator), method-only
    grad       differentiable; `second` twice
    tolerance  factor on the tolerance of each dtype
    where      the module in which the function is found, such as nn.functional
    empty      why the op has no call with a zero-size tensor; `zero_dim` likewise
    covers     registered ops that are only reached through this one
    """
    flat: list[Call] = []
    for item in calls:
        if isinstance(item, Call):
            flat.append(item)
        else:
            flat.extend(item)
    for name in names.split():
        if name in ENTRIES:
            raise ValueError(f"op {name!r} has two entries")
        ENTRIES[name] = Op(
            name,
            tuple(flat),
            ref,
            dtypes,
            result,
            frozenset(forms.split()),
            grad,
            second,
            tolerance,
            where,
            empty,
            zero_dim,
            frozenset(covers.split()),
        )


def unary_calls(low: float = -3.0, high: float = 3.0, **options: Any) -> list[Call]:
    """The calls of an elementwise function of one tensor, on values between low and high."""
    shapes: tuple[tuple[int, ...], ...] = ((3, 4), (), (0, 3), (2, 1, 3), (67,))
    return [call(t(*shape, low=low, high=high, **options)) for shape in shapes]


def special_call(**options: Any) -> Call:
    """Infinities, nan, both zeros and extremes, for functions of one floating-point tensor."""
    values = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-3, -0.5, 30.0)
    return call(t(len(values), values=values), dtypes_="f", grad_=False, **options)


def binary_calls(**options: Any) -> list[Call]:
    """The calls of an elementwise function of two tensors: equal shapes and broadcasting."""
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((2, 1, 3), (4, 1)),
        ((), ()),
        ((3,), ()),
        ((0, 3), (3,)),
        ((67,), (67,)),
    )
    return [call(t(*one, **options), t(*two, **options)) for one, two in pairs]


def with_options(calls: Iterable[Call], **options: Any) -> list[Call]:
    """The same calls with sample options changed."""
    return [replace(one, **options) for one in calls]
