"""Samples of reductions, cumulative functions and norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .spec import as_dtype, call, op, t

Array = Any


def axes(dim: Any) -> Any:
    """NumPy's axis for a torch `dim`, where an empty tuple means every dimension."""
    if dim is None or (isinstance(dim, (tuple, list)) and len(dim) == 0):
        return None
    return tuple(dim) if isinstance(dim, (tuple, list)) else dim


def at_least_1d(x: Array, dim: Any) -> tuple[Array, bool]:
    return (x.reshape(1), True) if x.ndim == 0 and dim is not None else (x, False)


def reducer(function: Any) -> Any:
    """A NumPy reduction with torch's arguments."""

    def reduce(x: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
        x, lifted = at_least_1d(x, dim)
        result = function(x, axis=axes(dim), keepdims=keepdim)
        return np.reshape(result, ()) if lifted else result

    return reduce


def reduction_calls(several_dims: bool = True, empty: bool = True, **options: Any) -> list[Any]:
    """A whole tensor, one dimension, several, kept or not; zero-dimensional and zero-size."""
    calls = [
        call(t(3, 4, **options)),
        call(t(2, 3, 4, **options), 1),
        call(t(2, 3, 4, **options), -1, True),
        call(t(2, 3, **options), dim=0, keepdim=True),
        call(t(**options)),
        call(t(**options), 0),
        call(t(70, **options)),
    ]
    if several_dims:
        calls += [call(t(2, 3, 4, **options), (0, 2)), call(t(2, 3, 4, **options), [0, -1], True)]
    if empty:
        calls += [call(t(0, 3, **options)), call(t(2, 0, 3, **options), 1)]
    else:
        calls += [call(t(2, 0, **options), 0)]
    return calls


def with_index(function: Any, argument: Any) -> Any:
    """max and min: one tensor without dim, values and indices with it."""

    def reduce(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return function(x)
        if not isinstance(dim, int):
            return function(x, dim)
        x, lifted = at_least_1d(x, dim)
        values = function(x, axis=dim, keepdims=keepdim)
        if values.size == 0:
            indices = np.zeros(values.shape, np.int64)
        else:
            indices = argument(x, axis=dim, keepdims=keepdim)
        return (values.reshape(()), indices.reshape(())) if lifted else (values, indices)

    return reduce


def arg_reducer(function: Any) -> Any:
    def reduce(x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        if dim is None:
            flat = function(x)
            return np.reshape(flat, (1,) * x.ndim) if keepdim else flat
        x, lifted = at_least_1d(x, dim)
        if x.size == 0:
            return np.zeros(np.sum(x, axis=dim, keepdims=keepdim).shape, np.int64)
        result = function(x, axis=dim, keepdims=keepdim)
        return np.reshape(result, ()) if lifted else result

    return reduce


def spread(root: bool, with_mean: bool = False) -> Any:
    """var and std, whose second argument is a dimension or the old `unbiased`."""

    def reduce(
        x: Array,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: Any = 1,
    ) -> Any:
        if isinstance(dim, bool):
            dim, correction = None, int(dim)
        if unbiased is not None:
            correction = int(unbiased)
        with np.errstate(all="ignore"):
            mean = np.mean(x, axis=axes(dim), keepdims=True)
            total = np.sum(np.abs(x - mean) ** 2, axis=axes(dim), keepdims=keepdim)
            count = x.size if axes(dim) is None else np.prod(np.take(x.shape, axes(dim)))
            free = max(count - correction, 0)
            variance = total / free if free else np.where(total == 0, np.nan, np.inf)
        result = np.sqrt(variance) if root else variance
        return (result, np.mean(x, axis=axes(dim), keepdims=keepdim)) if with_mean else result

    return reduce


def norm(
    x: Array, p: Any = 2.0, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    size = np.abs(x)
    if p in ("fro", None):
        p = 2.0
    dim = axes(dim)
    if p == math.inf:
        return np.max(size, axis=dim, keepdims=keepdim)
    if p == -math.inf:
        return np.min(size, axis=dim, keepdims=keepdim)
    if p == 0:
        return np.sum(size != 0, axis=dim, keepdims=keepdim).astype(np.float64)
    return np.sum(size**p, axis=dim, keepdims=keepdim) ** (1 / p)


def logsumexp(x: Array, dim: Any, keepdim: bool = False) -> Array:
    x, lifted = at_least_1d(x, dim)
    result = np.log(np.sum(np.exp(x), axis=axes(dim), keepdims=keepdim))
    return np.reshape(result, ()) if lifted else result


def cumulative(function: Any) -> Any:
    def run(x: Array, dim: int, *, dtype: Any = None) -> Array:
        return x if x.ndim == 0 else function(x, axis=dim)

    return run


def cumulative_extreme(better: Any) -> Any:
    """cummax and cummin: running values and where they were found (the last one on ties)."""

    def run(x: Array, dim: int) -> Any:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        moved = np.moveaxis(x, dim, 0)
        values, indices = moved.copy(), np.zeros(moved.shape, np.int64)
        for k in range(1, moved.shape[0]):
            take = better(moved[k], values[k - 1])
            values[k] = np.where(take, moved[k], values[k - 1])
            indices[k] = np.where(take, k, indices[k - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(indices, 0, dim)

    return run


def count_nonzero(x: Array, dim: Any = None) -> Array:
    x, lifted = at_least_1d(x, dim)
    result = np.count_nonzero(x, axis=axes(dim))
    return np.reshape(result, ()) if lifted else result


def median(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower of two middle values, and its index along dim."""
    if dim is None:
        return np.sort(x, axis=None)[(x.size - 1) // 2] if x.size else np.nan
    x, lifted = at_least_1d(x, dim)
    order = np.argsort(x, axis=dim, kind="stable")
    indices = np.take(order, [(x.shape[dim] - 1) // 2], axis=dim)
    values = np.take_along_axis(x, indices, axis=dim)
    if lifted:
        return values.reshape(()), indices.reshape(())
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


NUMBERS_WITH_ONE = {"low": 0.5, "high": 1.5}
DISTINCT = {"distinct": True}
CUMULATIVE_CALLS = [
    call(t(3, 4), 0),
    call(t(2, 3, 4), -1),
    call(t(), 0),
    call(t(0, 2), 1),
    call(t(2, 0), 1),
    call(t(33), dim=0),
]

op(
    "sum",
    reduction_calls(),
    call(t(3, 4), dtype=as_dtype("float64"), dtypes_="bihf", result_="float64", out_=False),
    call(
        t(3, 4),
        (0, 1),
        dtype=as_dtype("float32"),
        dtypes_="if",
        result_="float32",
        grad_=False,
        out_=False,
    ),
    call(t(2, 3), None, True),
    call(t(2, 3), ()),
    ref=reducer(np.sum),
    result="sum",
    forms="out-dim",
    tolerance=10,
)
op(
    "nansum",
    reduction_calls(),
    call(t(4, values=(1.0, math.nan, 2.0, math.inf)), dtypes_="f", grad_=False),
    ref=reducer(np.nansum),
    dtypes="ihf",
    result="sum",
    forms="out-dim",
    tolerance=10,
)
op(
    "mean",
    reduction_calls(),
    call(
        t(3, 4, dtype="int64"),
        dtype=as_dtype("float32"),
        dtypes_="int64",
        result_="float32",
        out_=False,
    ),
    ref=reducer(np.mean),
    dtypes="hfc",
    forms="out-dim",
    tolerance=10,
)
op(
    "nanmean",
    reduction_calls(empty=False),
    call(t(0, 3), grad_=False),
    call(t(3, values=(1.0, math.nan, 2.0)), dtypes_="f", grad_=False),
    ref=reducer(np.nanmean),
    dtypes="hf",
    forms="out-dim",
    tolerance=10,
)
op(
    "prod",
    reduction_calls(False, **NUMBERS_WITH_ONE),
    call(t(4, values=(1.0, 0.0, 2.0, 0.0))),
    call(t(4, values=(1.0, 0.0, 2.0, 3.0))),
    ref=reducer(np.prod),
    result="sum",
    forms="out-dim",
    tolerance=20,
)
op(
    "amax",
    reduction_calls(empty=False, **DISTINCT),
    call(t(2, 3, **DISTINCT), ()),
    ref=lambda x, dim=None, keepdim=False: (
        reducer(np.max)(x, dim, keepdim) if x.size else np.zeros(0)
    ),
    dtypes="bihf",
    forms="out",
)
op(
    "amin",
    reduction_calls(empty=False, **DISTINCT),
    call(t(2, 3, **DISTINCT), ()),
    ref=lambda x, dim=None, keepdim=False: (
        reducer(np.min)(x, dim, keepdim) if x.size else np.zeros(0)
    ),
    dtypes="bihf",
    forms="out",
)
op(
    "aminmax",
    call(t(3, 4, **DISTINCT)),
    call(t(2, 3, **DISTINCT), dim=1),
    call(t(2, 3, **DISTINCT), dim=0, keepdim=True),
    call(t()),
    call(t(2, 0), dim=0),
    ref=lambda x, dim=None, keepdim=False: (
        (reducer(np.min)(x, dim, keepdim), reducer(np.max)(x, dim, keepdim))
        if x.size
        else (np.zeros(0), np.zeros(0))
    ),
    dtypes="bihf",
)
op(
    "max",
    reduction_calls(False, False, **DISTINCT),
    call(t(3, **DISTINCT), t(3, **DISTINCT)),
    ref=lambda x, dim=None, keepdim=False: (
        np.maximum(x, dim)
        if isinstance(dim, np.ndarray)
        else (np.zeros(0), np.zeros(0, np.int64))
        if x.size == 0
        else with_index(np.max, np.argmax)(x, dim, keepdim)
    ),
    dtypes="bihf",
    result="any",
)
op(
    "min",
    reduction_calls(False, False, **DISTINCT),
    call(t(3, **DISTINCT), t(3, **DISTINCT)),
    ref=lambda x, dim=None, keepdim=False: (
        np.minimum(x, dim)
        if isinstance(dim, np.ndarray)
        else (np.zeros(0), np.zeros(0, np.int64))
        if x.size == 0
        else with_index(np.min, np.argmin)(x, dim, keepdim)
    ),
    dtypes="bihf",
    result="any",
)
op(
    "argmax",
    reduction_calls(False, False, **DISTINCT),
    call(t(2, 3, **DISTINCT), keepdim=True),
    ref=arg_reducer(np.argmax),
    dtypes="ihf",
    result="int64",
    forms="out-dim",
    grad=False,
)
op(
    "argmin",
    reduction_calls(False, False, **DISTINCT),
    call(t(2, 3, **DISTINCT), keepdim=True),
    ref=arg_reducer(np.argmin),
    dtypes="ihf",
    result="int64",
    forms="out-dim",
    grad=False,
)
op(
    "any",
    reduction_calls(low=-1, high=1),
    ref=reducer(np.any),
    result="bool-or-uint8",
    forms="out-dim",
    grad=False,
)
op(
    "all",
    reduction_calls(low=-1, high=1),
    ref=reducer(np.all),
    result="bool-or-uint8",
    forms="out-dim",
    grad=False,
)
op(
    "count_nonzero",
    call(t(3, 4, low=-1, high=1)),
    call(t(2, 3, low=-1, high=1), 1),
    call(t(2, 3, 4), (0, 2)),
    call(t()),
    call(t(0, 2)),
    call(t(0, 2), 0),
    ref=count_nonzero,
    result="int64",
    grad=False,
)

SPREAD_CALLS = [
    call(t(3, 4)),
    call(t(2, 3, 4), 1),
    call(t(2, 3, 4), (0, 2)),
    call(t(3, 4), False, out_=False),
    call(t(3, 4), 1, True, True),
    call(t(3, 4), (0, 1), False),
    call(t(2, 3, 4), dim=-1, correction=0),
    call(t(3, 4), correction=2),
    call(t(3, 4), 0, keepdim=True),
    call(t(0, 3), grad_=False),
    call(t(1), grad_=False),
    call(t(), correction=0, grad_=False),
]
op(
    "var",
    SPREAD_CALLS,
    ref=spread(False),
    dtypes="hfc",
    result="real",
    forms="out-dim",
    tolerance=20,
)
op(
    "std",
    SPREAD_CALLS,
    ref=spread(True),
    dtypes="hfc",
    result="real",
    forms="out-dim",
    tolerance=20,
)
op("var_mean", SPREAD_CALLS, ref=spread(False, True), dtypes="hf", tolerance=20)
op("std_mean", SPREAD_CALLS, ref=spread(True, True), dtypes="hf", tolerance=20)
op(
    "norm",
    call(t(3, 4)),
    call(t(3, 4), 1),
    call(t(3, 4), 3.0),
    call(t(3, 4), math.inf),
    call(t(3, 4), -math.inf),
    call(t(3, 4), 0, grad_=False),
    call(t(2, 3), 2, 1),
    call(t(2, 3), 2, -1, True),
    call(t(2, 3, 4), 2, (0, 1)),
    call(t(3, 4), "fro"),
    call(t(3, 4), p="fro", dim=(0, 1)),
    call(t()),
    call(t(0, 3), grad_=False),
    call(t(3, 4), dim=0, keepdim=True),
    ref=norm,
    dtypes="hfc",
    result="real",
    tolerance=10,
)
op(
    "linalg_vector_norm",
    call(t(3, 4)),
    call(t(3, 4), 1),
    call(t(2, 3), 3.0, 1),
    call(t(2, 3), math.inf, dim=0, keepdim=True),
    call(t()),
    call(t(0, 3), grad_=False),
    ref=lambda x, ord=2, dim=None, keepdim=False: norm(x, ord, dim, keepdim),
    dtypes="hfc",
    result="real",
    forms="out",
    tolerance=10,
)
op(
    "logsumexp",
    call(t(3, 4), 1),
    call(t(2, 3, 4), (0, 2)),
    call(t(3, 4), 0, True),
    call(t(), 0),
    call(t(2, 0), 0),
    call(t(0, 2), 0, grad_=False),
    ref=logsumexp,
    dtypes="ihf",
    result="float",
    forms="out",
)

op(
    "cumsum",
    CUMULATIVE_CALLS,
    call(t(3), 0, dtype=as_dtype("float64"), dtypes_="bihf", result_="float64"),
    ref=cumulative(np.cumsum),
    result="sum",
    forms="inplace out",
    tolerance=10,
)
op(
    "cumprod",
    CUMULATIVE_CALLS,
    call(t(4, values=(1.0, 0.0, 2.0, 0.0)), 0),
    ref=cumulative(np.cumprod),
    result="sum",
    forms="inplace out",
    tolerance=20,
)
op(
    "logcumsumexp",
    CUMULATIVE_CALLS,
    ref=cumulative(np.logaddexp.accumulate),
    dtypes="hf",
    forms="out",
    tolerance=10,
)
op(
    "cummax",
    CUMULATIVE_CALLS,
    ref=cumulative_extreme(np.greater_equal),
    dtypes="bihf",
    result="any",
)
op("cummin", CUMULATIVE_CALLS, ref=cumulative_extreme(np.less_equal), dtypes="bihf", result="any")
op(
    "median",
    call(t(5, **DISTINCT)),
    call(t(2, 4, **DISTINCT)),
    call(t(3, 4, **DISTINCT), 1),
    call(t(3, 4, **DISTINCT), 0, True),
    call(t()),
    call(t(2, 0), 0, result_="any"),
    ref=lambda x, dim=None, keepdim=False: (
        (np.zeros(0), np.zeros(0, np.int64)) if x.shape == (2, 0) else median(x, dim, keepdim)
    ),
    dtypes="ihf",
    result="any",
)
op(
    "nanmedian",
    call(t(5, **DISTINCT)),
    call(t(3, 4, **DISTINCT), 1),
    call(t(3, 4, **DISTINCT), 0, True),
    call(t(4, values=(3.0, math.nan, 1.0, 2.0)), ref_=lambda x: np.array(2.0), dtypes_="f"),
    call(
        t(5, values=(3.0, math.nan, 1.0, 2.0, math.nan)),
        dtypes_="f",
        grad_=False,
        ref_=lambda x: 2.0,
    ),
    call(t()),
    call(t(2, 0), 0, ref_=lambda x, dim: (np.zeros(0), np.zeros(0, np.int64))),
    ref=median,
    dtypes="ihf",
    result="any",
)
op(
    "trace",
    call(t(3, 3)),
    call(t(2, 4)),
    call(t(0, 0)),
    ref=np.trace,
    dtypes="ihfc",
    result="sum",
    zero_dim="it takes a matrix",
)
op(
    "diff",
    call(t(5)),
    call(t(3, 4), 2),
    call(t(3, 4), dim=0),
    call(t(0, 2), dim=0),
    call(t(4), prepend=t(2)),
    call(t(4), 1, 0, t(1), t(2)),
    ref=lambda x, n=1, dim=-1, prepend=None, append=None: np.diff(
        x, n, dim, **{k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    ),
    dtypes="bihfc",
    zero_dim="it needs a dimension",
)
