"""Samples of the functions that make tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .spec import DTYPE, as_dtype, bools, call, op, t, unary_calls

Array = Any


def shape_of(args: tuple[Any, ...]) -> tuple[int, ...]:
    """A size given as numbers or as one sequence."""
    return tuple(args[0]) if len(args) == 1 and not isinstance(args[0], int) else tuple(args)


def zeros(*size: Any, dtype: Any = None) -> Array:
    return np.zeros(shape_of(size), dtype)


def ones(*size: Any, dtype: Any = None) -> Array:
    return np.ones(shape_of(size), dtype)


def full(size: Any, value: Any, *, dtype: Any = None) -> Array:
    return np.full(tuple(size), value, dtype)


def arange(*bounds: Any, dtype: Any = None) -> Array:
    return np.arange(*bounds).astype(dtype) if dtype is not None else np.arange(*bounds)


def eye(n: int, m: int | None = None, *, dtype: Any = None) -> Array:
    return np.eye(n, m, dtype=dtype)


def triangle(upper: bool) -> Any:
    def indices(rows: int, columns: int, offset: int = 0, **_: Any) -> Array:
        make = np.triu_indices if upper else np.tril_indices
        return np.stack(make(rows, offset, columns))

    return indices


SIZES = [
    call(2, 3, dtype=DTYPE),
    call((2, 3), dtype=DTYPE),
    call([4], dtype=DTYPE),
    call((), dtype=DTYPE),
    call(0, 3, dtype=DTYPE),
]
UNDEFINED = "creation out undefined"
LIKE = [
    call(t(2, 3)),
    call(t()),
    call(t(0, 2)),
    call(t(2, 3), dtype=as_dtype("float64"), result_="float64"),
]
NO_TENSOR = {"zero_dim": "it makes vectors or matrices", "grad": False}

op("zeros", SIZES, call(2, 3, dtypes_="float32"), ref=zeros, forms="creation out", grad=False)
op("ones", SIZES, call(2, 3, dtypes_="float32"), ref=ones, forms="creation out", grad=False)
op("empty", SIZES, call(2, 3, dtypes_="float32"), forms=UNDEFINED, grad=False)
op(
    "full",
    call((2, 3), 2, dtype=DTYPE),
    call((), True, dtype=DTYPE),
    call([0, 2], 1, dtype=DTYPE),
    call((2,), 7, dtypes_="int64"),
    call((2,), 7.5, dtypes_="float32"),
    call((2,), True, dtypes_="bool"),
    call((2,), 1 + 2j, dtypes_="complex64"),
    ref=full,
    forms="creation out",
    grad=False,
)
op("zeros_like", LIKE, ref=lambda x, dtype=None: np.zeros(x.shape), forms="creation", grad=False)
op("ones_like", LIKE, ref=lambda x, dtype=None: np.ones(x.shape), forms="creation", grad=False)
op("empty_like", LIKE, forms="creation undefined", grad=False)
op(
    "full_like",
    call(t(2, 3), 2),
    call(t(), 1),
    call(t(0, 2), 1),
    call(t(2), 2.5, dtype=as_dtype("float64"), result_="float64"),
    ref=lambda x, value, dtype=None: np.full(x.shape, value),
    forms="creation",
    grad=False,
)
op(
    "new_zeros",
    call(t(2), (2, 3)),
    call(t(2), 2, 3),
    call(t(2), ()),
    call(t(0), 2),
    call(t(2), (2,), dtype=as_dtype("int64"), result_="int64"),
    ref=lambda x, *size, dtype=None: zeros(*size),
    forms="creation method-only",
    grad=False,
)
op(
    "new_ones",
    call(t(2), (2, 3)),
    call(t(2), 2, 3),
    call(t(2), ()),
    call(t(0), 2),
    ref=lambda x, *size, dtype=None: ones(*size),
    forms="creation method-only",
    grad=False,
)
op(
    "new_empty",
    call(t(2), (2, 3)),
    call(t(2), 2, 3),
    call(t(2), ()),
    call(t(0), 2),
    forms="creation method-only undefined",
    grad=False,
)
op(
    "new_full",
    call(t(2), (2, 3), 1),
    call(t(2), (), 1),
    call(t(0), [2], 1),
    ref=lambda x, size, value: full(size, value),
    forms="creation method-only",
    grad=False,
)
op(
    "new_tensor",
    call(t(2), [[1, 0], [0, 1]]),
    call(t(2), 1),
    call(t(0), []),
    ref=lambda x, data: np.array(data),
    forms="creation method-only",
    grad=False,
)
op(
    "new_empty_strided",
    call(t(2), (2, 3), (1, 2)),
    call(t(2), (), ()),
    call(t(0), (0,), (1,)),
    forms="creation method-only undefined",
    grad=False,
)
op(
    "empty_strided",
    call((2, 3), (1, 2), dtype=DTYPE),
    call((), (), dtype=DTYPE),
    call((0, 2), (2, 1), dtype=DTYPE),
    forms="creation undefined",
    grad=False,
)
op(
    "arange",
    call(5, dtype=DTYPE),
    call(1, 6, dtype=DTYPE),
    call(1, 10, 3, dtype=DTYPE),
    call(0, dtype=DTYPE),
    call(5, dtypes_="int64"),
    call(0.5, 3.0, 0.5, dtypes_="float32"),
    call(6, 1, -2, dtype=DTYPE),
    call(1, 2.5, dtypes_="float32"),
    ref=arange,
    dtypes="ihf",
    forms="creation out",
    **NO_TENSOR,
)
op(
    "range",
    call(1, 5, dtype=DTYPE),
    call(1, 5, 2, dtype=DTYPE),
    call(0, 3, dtypes_="float32"),
    ref=lambda start, end, step=1, dtype=None: np.arange(start, end + step / 2, step),
    dtypes="if",
    forms="creation out",
    empty="its end is included",
    **NO_TENSOR,
)
op(
    "linspace",
    call(0, 10, 5, dtype=DTYPE),
    call(-1.5, 2.0, 8, dtype=DTYPE, dtypes_="hf"),
    call(3, 3, 1, dtype=DTYPE),
    call(0, 1, 0, dtype=DTYPE),
    call(0, 1, 4, dtypes_="float32"),
    ref=lambda start, end, steps, dtype=None: np.linspace(start, end, steps),
    dtypes="hf",
    forms="creation out",
    tolerance=4,
    **NO_TENSOR,
)
op(
    "logspace",
    call(0, 2, 5, dtype=DTYPE),
    call(-1.0, 1.0, 4, 2.0, dtype=DTYPE),
    call(0, 1, 0, dtype=DTYPE),
    ref=lambda start, end, steps, base=10.0, dtype=None: np.logspace(start, end, steps, base=base),
    dtypes="f",
    forms="creation out",
    tolerance=4,
    **NO_TENSOR,
)
op(
    "eye",
    call(3, dtype=DTYPE),
    call(2, 4, dtype=DTYPE),
    call(0, dtype=DTYPE),
    call(3, dtypes_="float32"),
    ref=eye,
    forms="creation out",
    **NO_TENSOR,
)
op(
    "scalar_tensor",
    call(3, dtype=DTYPE),
    call(2.5, dtypes_="float32"),
    ref=lambda x, dtype=None: np.array(x),
    forms="creation",
    grad=False,
    empty="it makes one element",
)
op(
    "tensor",
    call([[1, 0], [0, 1]], dtype=DTYPE),
    call(1, dtype=DTYPE),
    call([], dtype=DTYPE),
    call([[], []], dtype=DTYPE),
    call([1, 2], dtypes_="int64"),
    call([1, 2.5], dtypes_="float32"),
    call([True, False], dtypes_="bool"),
    call([1, 2j], dtypes_="complex64"),
    ref=lambda x, dtype=None: np.array(x),
    forms="creation",
    grad=False,
)
op(
    "as_tensor asarray",
    call([[1, 0], [0, 1]], dtype=DTYPE),
    call(1, dtype=DTYPE),
    call([], dtype=DTYPE),
    call(t(2, 3)),
    ref=lambda x, dtype=None: np.array(x),
    forms="creation",
    grad=False,
)
op(
    "tril_indices",
    call(3, 4),
    call(3, 3, 1),
    call(4, 2, -1),
    call(0, 3),
    ref=triangle(False),
    dtypes="int64",
    forms="creation data-dependent",
    **NO_TENSOR,
)
op(
    "triu_indices",
    call(3, 4),
    call(3, 3, 1),
    call(4, 2, -1),
    call(0, 3),
    ref=triangle(True),
    dtypes="int64",
    forms="creation data-dependent",
    **NO_TENSOR,
)
op(
    "complex",
    call(t(3, 4), t(3, 4)),
    call(t(3, 1), t(4)),
    call(t(), t()),
    call(t(0, 2), t(0, 2)),
    ref=lambda x, y: x + 1j * y,
    dtypes="f",
    result="complex",
    forms="out",
)
op(
    "polar",
    call(t(3, 4, low=0.1), t(3, 4)),
    call(t(low=0.1), t()),
    call(t(0, 2), t(0, 2)),
    ref=lambda r, a: r * np.exp(1j * a),
    dtypes="f",
    result="complex",
    forms="out",
)
op(
    "meshgrid",
    call(t(2), t(3), indexing="ij"),
    call(t(2), t(3), indexing="xy"),
    call(t(), t(3), indexing="ij"),
    call(t(0), t(2), indexing="ij"),
    ref=lambda *x, indexing: list(np.meshgrid(*x, indexing=indexing)),
    result="same",
)
op(
    "cartesian_prod",
    call(t(2), t(3)),
    call(t(3)),
    call(t(0), t(2)),
    ref=lambda *x: (
        np.stack([g.ravel() for g in np.meshgrid(*x, indexing="ij")], -1) if len(x) > 1 else x[0]
    ),
    zero_dim="it takes vectors",
)
op(
    "combinations",
    call(t(4)),
    call(t(3), 2, True),
    call(t(0)),
    call(t(4), r=3),
    ref=lambda x, r=2, with_replacement=False: combinations(x, r, with_replacement),
    zero_dim="it takes a vector",
    forms="data-dependent",
)
op(
    "vander",
    call(t(4)),
    call(t(3), 2),
    call(t(3), N=4, increasing=True),
    call(t(0)),
    ref=lambda x, N=None, increasing=False: np.vander(
        x.astype(np.int64) if x.dtype == bool else x, N, increasing
    ),
    dtypes="ihfc",
    result="sum",
    grad=False,
    zero_dim="it takes a vector",
    tolerance=4,
)

WINDOW_CALLS = [
    call(5, dtype=DTYPE),
    call(8, False, dtype=DTYPE),
    call(1, dtype=DTYPE),
    call(0, dtype=DTYPE),
]


def window(formula: Any) -> Any:
    """A window function of length n from its formula over x in [0, 1)."""

    def make(n: int, periodic: bool = True, *, dtype: Any = None) -> Array:
        if n <= 1:
            return np.ones(n)
        return formula(np.arange(n) / (n if periodic else n - 1))

    return make


WINDOW = {"dtypes": "f", "forms": "creation", "tolerance": 4, **NO_TENSOR}
op("hann_window", WINDOW_CALLS, ref=window(lambda x: 0.5 - 0.5 * np.cos(2 * math.pi * x)), **WINDOW)
op(
    "hamming_window",
    WINDOW_CALLS,
    ref=window(lambda x: 0.54 - 0.46 * np.cos(2 * math.pi * x)),
    **WINDOW,
)
op("bartlett_window", WINDOW_CALLS, ref=window(lambda x: 1 - np.abs(2 * x - 1)), **WINDOW)
op(
    "blackman_window",
    WINDOW_CALLS,
    ref=window(lambda x: 0.42 - 0.5 * np.cos(2 * math.pi * x) + 0.08 * np.cos(4 * math.pi * x)),
    **WINDOW,
)

op(
    "fill",
    call(t(2, 3), 1),
    call(t(), 1),
    call(t(0, 2), 1),
    call(t(2, 3), t()),
    ref=lambda x, value: np.full(x.shape, value),
    forms="inplace",
)
op("zero_", unary_calls(), ref=lambda x: np.zeros_like(x), forms="mutating")
op(
    "fill_",
    call(t(2, 3), 1),
    call(t(), 1),
    call(t(0, 2), 1),
    call(t(2, 3), t()),
    ref=lambda x, value: np.full(x.shape, value),
    forms="mutating method-only",
)
op(
    "copy_",
    call(t(2, 3), t(3)),
    call(t(), t()),
    call(t(0, 2), t(2)),
    call(t(2), bools(2), dtypes_="ihfc"),
    ref=lambda x, y: np.broadcast_to(y, x.shape),
    forms="mutating method-only",
)


def combinations(x: Array, r: int, with_replacement: bool) -> Array:
    import itertools

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(x.tolist(), r))
    return np.array(rows, dtype=x.dtype).reshape(len(rows), r)


op(
    "empty_permuted",
    call((2, 3), (1, 0)),
    call((0, 3), (0, 1)),
    call((), ()),
    forms="creation undefined",
    dtypes="float32",
    result="float32",
    grad=False,
)
op(
    "set_flush_denormal",
    call(False),
    ref=lambda mode: True,
    dtypes="float32",
    result="any",
    grad=False,
    empty="takes no tensor",
    zero_dim="takes no tensor",
)
