"""Samples of comparisons, logic and clamping."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import binary_calls, call, op, t, unary_calls

Array = Any


def clamp(x: Array, min: Any = None, max: Any = None) -> Array:
    if min is not None:
        x = np.maximum(x, np.asarray(min).astype(np.result_type(x, min)))
    return x if max is None else np.minimum(x, max)


def isclose(
    x: Array, y: Array, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    return np.isclose(x, y, rtol, atol, equal_nan)


COMPARED = {"result": "bool", "forms": "inplace-same out", "grad": False}
SMALL = {"low": -1.0, "high": 1.0}  # few integers, so that some are equal

op("eq", binary_calls(**SMALL), call(t(3, 4), 1), ref=np.equal, **COMPARED)
op("ne not_equal", binary_calls(**SMALL), call(t(3, 4), 1), ref=np.not_equal, **COMPARED)
op("lt less", binary_calls(**SMALL), call(t(3, 4), 1), ref=np.less, dtypes="bihf", **COMPARED)
op(
    "le less_equal",
    binary_calls(**SMALL),
    call(t(3, 4), 1),
    ref=np.less_equal,
    dtypes="bihf",
    **COMPARED,
)
op("gt greater", binary_calls(**SMALL), call(t(3, 4), 1), ref=np.greater, dtypes="bihf", **COMPARED)
op(
    "ge greater_equal",
    binary_calls(**SMALL),
    call(t(3, 4), 1),
    ref=np.greater_equal,
    dtypes="bihf",
    **COMPARED,
)
op("logical_and", binary_calls(**SMALL), ref=np.logical_and, **COMPARED)
op("logical_or", binary_calls(**SMALL), ref=np.logical_or, **COMPARED)
op("logical_xor", binary_calls(**SMALL), ref=np.logical_xor, **COMPARED)
op(
    "isclose",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(3), rtol=2.0, atol=0.5, dtypes_="f"),
    call(t(3), t(3), 1.0, 1.0, True, dtypes_="f"),
    call(t(), t()),
    call(t(0, 2), t(0, 2)),
    ref=isclose,
    result="bool",
    grad=False,
)
op(
    "allclose",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(3), rtol=20.0, atol=9.0, dtypes_="f"),
    call(t(), t()),
    call(t(0, 2), t(0, 2)),
    ref=lambda x, y, **k: bool(np.all(isclose(x, y, **k))),
    result="any",
    forms="data-dependent",
    grad=False,
)
op(
    "equal",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(2)),
    call(t(), t()),
    call(t(0, 2), t(0, 2)),
    ref=lambda x, y: x.shape == y.shape and bool(np.all(x == y)),
    result="any",
    forms="data-dependent",
    grad=False,
)
op(
    "isin",
    call(t(3, 4, **SMALL), t(2, **SMALL)),
    call(t(3, 4, **SMALL), t(5, 6, **SMALL)),  # many are sorted
    call(t(3, **SMALL), 1),
    call(t(3, **SMALL), t(2, **SMALL), invert=True),
    call(t(), t(2)),
    call(t(0, 2), t(2)),
    call(t(3, **SMALL), t(2, **SMALL), assume_unique=False),
    ref=lambda x, y, assume_unique=False, invert=False: np.isin(x, y, invert=invert),
    dtypes="if",
    result="bool",
    forms="out",
    grad=False,
)

op(
    "clamp clip",
    call(t(3, 4), 1, 2),
    call(t(3, 4), -1, 1, dtypes_="hf"),
    call(t(3, 4), min=0),
    call(t(3, 4), max=1),
    call(t(3, 4), min=t(4), max=t(3, 4, low=3, high=5)),
    call(t(3), None, t(3)),
    call(t(3), -0.5, 0.5, dtypes_="f"),
    call(t(3), 0.5, dtypes_="i", result_="float"),
    call(t(), 0),
    call(t(0, 2), 0, 1),
    call(t(3), 2, 1, grad_=False),
    ref=clamp,
    dtypes="ihf",
    forms="inplace out",
)
op(
    "clamp_min",
    call(t(3, 4), 0),
    call(t(3, 4), t(4)),
    call(t(), 0),
    call(t(0, 2), 1),
    ref=lambda x, min: clamp(x, min),
    dtypes="ihf",
    forms="inplace out",
)
op(
    "clamp_max",
    call(t(3, 4), 0),
    call(t(3, 4), t(4)),
    call(t(), 0),
    call(t(0, 2), 1),
    ref=lambda x, max: clamp(x, None, max),
    dtypes="ihf",
    forms="inplace out",
)

op(
    "is_nonzero",
    call(t()),
    call(t(1, 1)),
    ref=lambda x: bool(x.reshape(()) != 0),
    result="any",
    forms="data-dependent",
    grad=False,
    empty="it wants one element",
)
op(
    "is_floating_point",
    unary_calls(),
    ref=lambda x: x.dtype == np.float64,
    result="any",
    grad=False,
)
op("is_complex", unary_calls(), ref=lambda x: x.dtype == np.complex128, result="any", grad=False)
op("is_signed", unary_calls(), ref=lambda x: x.dtype.kind in "ifc", result="any", grad=False)
op(
    "is_same_size",
    call(t(2, 3), t(2, 3)),
    call(t(2, 3), t(3, 2)),
    call(t(), t()),
    call(t(0, 2), t(0, 2)),
    ref=lambda x, y: x.shape == y.shape,
    result="any",
    grad=False,
)
op("is_conj", unary_calls(), ref=lambda x: False, result="any", grad=False)
op("is_neg", unary_calls(), ref=lambda x: False, result="any", grad=False)
op("numel", unary_calls(), ref=lambda x: x.size, result="any", grad=False)
