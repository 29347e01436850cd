"""Samples of the elementwise functions of one tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .spec import call, op, special_call, t, unary_calls

POINTWISE = "inplace out"


def each(function: Any) -> Any:
    """A function of one Python float, applied to each element; what it cannot do is nan."""

    def one(x: float) -> float:
        try:
            return float(function(x))
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(one, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def sign(x: np.ndarray) -> np.ndarray:
    """As np.sign, but nan has the sign 0."""
    return x if x.dtype == bool else np.where(np.isnan(x), 0, np.sign(x))


def sgn(x: np.ndarray) -> np.ndarray:
    if not np.iscomplexobj(x):
        return sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size))


def bitwise_not(x: np.ndarray) -> np.ndarray:
    return np.invert(x)


def absolute(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


# Functions that make integers floating point and know complex numbers.
op("sin", unary_calls(), special_call(), ref=np.sin, result="float", forms=POINTWISE)
op("cos", unary_calls(), special_call(), ref=np.cos, result="float", forms=POINTWISE)
op("tan", unary_calls(-1.2, 1.2), special_call(), ref=np.tan, result="float", forms=POINTWISE)
op("sinh", unary_calls(), special_call(), ref=np.sinh, result="float", forms=POINTWISE)
op("cosh", unary_calls(), special_call(), ref=np.cosh, result="float", forms=POINTWISE)
op("tanh", unary_calls(), special_call(), ref=np.tanh, result="float", forms=POINTWISE)
op(
    "asin arcsin",
    unary_calls(-0.9, 0.9),
    special_call(),
    ref=np.arcsin,
    result="float",
    forms=POINTWISE,
)
op(
    "acos arccos",
    unary_calls(-0.9, 0.9),
    special_call(),
    ref=np.arccos,
    result="float",
    forms=POINTWISE,
)
op(
    "atan arctan",
    unary_calls(-0.9, 0.9),
    special_call(),
    ref=np.arctan,
    result="float",
    forms=POINTWISE,
)
op("asinh arcsinh", unary_calls(), special_call(), ref=np.arcsinh, result="float", forms=POINTWISE)
op(
    "acosh arccosh",
    unary_calls(1.1, 3.0),
    special_call(),
    ref=np.arccosh,
    result="float",
    forms=POINTWISE,
)
op(
    "atanh arctanh",
    unary_calls(-0.9, 0.9),
    special_call(),
    ref=np.arctanh,
    result="float",
    forms=POINTWISE,
)
op("exp", unary_calls(), special_call(), ref=np.exp, result="float", forms=POINTWISE)
op("exp2", unary_calls(), special_call(), ref=np.exp2, result="float", forms=POINTWISE)
op("expm1", unary_calls(), special_call(), ref=np.expm1, result="float", forms=POINTWISE)
op("log", unary_calls(0.1), special_call(), ref=np.log, result="float", forms=POINTWISE)
op("log2", unary_calls(0.1), special_call(), ref=np.log2, result="float", forms=POINTWISE)
op("log10", unary_calls(0.1), special_call(), ref=np.log10, result="float", forms=POINTWISE)
op("log1p", unary_calls(-0.8), special_call(), ref=np.log1p, result="float", forms=POINTWISE)
op("sqrt", unary_calls(0.1), special_call(), ref=np.sqrt, result="float", forms=POINTWISE)
op(
    "rsqrt",
    unary_calls(0.1),
    special_call(),
    ref=lambda x: 1 / np.sqrt(x),
    result="float",
    forms=POINTWISE,
)
op(
    "reciprocal",
    unary_calls(nonzero=True),
    special_call(),
    ref=lambda x: 1 / x,
    result="float",
    forms=POINTWISE,
)
op("sigmoid", unary_calls(), special_call(), ref=sigmoid, result="float", forms=POINTWISE)
op("sinc", unary_calls(), special_call(), ref=np.sinc, result="float", forms=POINTWISE)

# Functions that make integers floating point, real only.
op(
    "erf",
    unary_calls(),
    special_call(),
    ref=each(math.erf),
    dtypes="bihf",
    result="float",
    forms=POINTWISE,
)
op(
    "erfc",
    unary_calls(),
    special_call(),
    ref=each(math.erfc),
    dtypes="bihf",
    result="float",
    forms=POINTWISE,
)
op(
    "deg2rad",
    unary_calls(-200.0, 200.0),
    ref=np.deg2rad,
    dtypes="bihf",
    result="float",
    forms=POINTWISE,
)
op(
    "rad2deg",
    unary_calls(),
    ref=np.rad2deg,
    dtypes="bihf",
    result="float",
    forms=POINTWISE,
    tolerance=100,
)

# Functions that keep the dtype.
op(
    "abs absolute",
    unary_calls(nonzero=True),
    special_call(),
    ref=absolute,
    dtypes="ihfc",
    result="real",
    forms=POINTWISE,
)
op("neg negative", unary_calls(), special_call(), ref=np.negative, dtypes="ihfc", forms=POINTWISE)
op("positive", unary_calls(), special_call(), ref=np.positive, dtypes="ihfc")
op(
    "square",
    unary_calls(),
    special_call(),
    ref=lambda x: (x.astype(np.int64) if x.dtype == bool else x) * x,
    forms=POINTWISE,
    dtypes="ihfc",
)
op("sign", unary_calls(nonzero=True), special_call(), ref=sign, dtypes="bihf", forms=POINTWISE)
op("sgn", unary_calls(nonzero=True), ref=sgn, forms=POINTWISE)
op("ceil", unary_calls(), special_call(), ref=np.ceil, dtypes="ihf", forms=POINTWISE)
op("floor", unary_calls(), special_call(), ref=np.floor, dtypes="ihf", forms=POINTWISE)
op("trunc fix", unary_calls(), special_call(), ref=np.trunc, dtypes="ihf", forms=POINTWISE)
op(
    "round",
    unary_calls(),
    special_call(),
    call(t(6, values=(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)), dtypes_="f", grad_=False),
    call(t(3, 4), decimals=2, dtypes_="f", ref_=lambda x, decimals: np.round(x, decimals)),
    call(
        t(3, low=-900, high=900),
        decimals=-2,
        dtypes_="f",
        ref_=lambda x, decimals: np.round(x, decimals),
    ),
    ref=np.round,
    dtypes="ihf",
    forms=POINTWISE,
)
op(
    "frac",
    unary_calls(),
    special_call(ref_=lambda x: np.where(np.isinf(x), np.nan, x - np.trunc(x))),
    ref=lambda x: x - np.trunc(x),
    dtypes="hf",
    forms=POINTWISE,
)
op(
    "relu",
    unary_calls(nonzero=True),
    special_call(),
    ref=lambda x: np.where(x < 0, 0, x),
    dtypes="ihf",
    forms="inplace",
)
op("bitwise_not", unary_calls(), ref=bitwise_not, dtypes="bi", forms=POINTWISE)
op("logical_not", unary_calls(), ref=np.logical_not, result="bool", forms="out", grad=False)
op(
    "nan_to_num",
    unary_calls(),
    call(
        t(5, values=(1.0, math.nan, math.inf, -math.inf, 0.0)),
        7.0,
        8.0,
        -9.0,
        dtypes_="f",
        grad_=False,
        ref_=lambda x, nan, posinf, neginf: np.nan_to_num(x, True, nan, posinf, neginf),
    ),
    ref=np.nan_to_num,
    dtypes="bihf",
    forms=POINTWISE,
)
op(
    "logit",
    unary_calls(0.1, 0.9),
    call(
        t(5),
        0.2,
        dtypes_="f",
        grad_=False,
        ref_=lambda x, eps: np.log(np.clip(x, eps, 1 - eps) / (1 - np.clip(x, eps, 1 - eps))),
    ),
    ref=lambda x: np.log(x / (1 - x)),
    dtypes="hf",
    result="float",
    forms=POINTWISE,
)

# Questions about a number.
op("isnan", unary_calls(), special_call(), ref=np.isnan, result="bool", grad=False)
op("isinf", unary_calls(), special_call(), ref=np.isinf, result="bool", grad=False)
op("isfinite", unary_calls(), special_call(), ref=np.isfinite, result="bool", grad=False)
op(
    "isposinf",
    unary_calls(),
    special_call(),
    ref=np.isposinf,
    dtypes="bihf",
    result="bool",
    forms="out",
    grad=False,
)
op(
    "isneginf",
    unary_calls(),
    special_call(),
    ref=np.isneginf,
    dtypes="bihf",
    result="bool",
    forms="out",
    grad=False,
)
op("isreal", unary_calls(), ref=np.isreal, result="bool", grad=False)
op(
    "signbit",
    unary_calls(),
    special_call(),
    ref=lambda x: np.signbit(x.astype(np.float64)),
    dtypes="bihf",
    result="bool",
    forms="out",
    grad=False,
)

# Complex parts.
op(
    "angle",
    unary_calls(nonzero=True),
    ref=np.angle,
    result="real-float",
    forms="out",
    dtypes="ihfc",
)
op("conj_physical", unary_calls(), ref=np.conj, forms=POINTWISE)
op("conj", unary_calls(), ref=np.conj, forms="view-if-complex", dtypes="bihfc")
op("resolve_conj resolve_neg", unary_calls(), ref=lambda x: x)
op("real", unary_calls(), ref=np.real, result="real", forms="view attribute")
op("imag", unary_calls(), ref=np.imag, dtypes="c", result="real", forms="view attribute")
op("clone", unary_calls(), ref=np.copy)
op("detach", unary_calls(), ref=np.copy, grad=False, forms="view", covers="alias")
