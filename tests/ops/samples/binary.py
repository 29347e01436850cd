"""Samples of the elementwise functions of two or three tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .spec import binary_calls, bools, call, op, t, with_options
from .unary import POINTWISE

Array = Any


def scalar_calls(number: float, **options: Any) -> list[Any]:
    """A tensor with a Python number of its kind, which does not change its dtype."""
    return [call(t(3, 4, **options), number), call(t(0, 3, **options), number)]


def add(x: Array, y: Array, *, alpha: Any = 1) -> Array:
    return np.add(x, y if alpha == 1 else np.asarray(alpha, dtype=np.result_type(x, y)) * y)


def sub(x: Array, y: Array, *, alpha: Any = 1) -> Array:
    return np.subtract(x, y if alpha == 1 else np.asarray(alpha, dtype=np.result_type(x, y)) * y)


def div(x: Array, y: Array, *, rounding_mode: str | None = None) -> Array:
    if rounding_mode is None:
        return np.true_divide(x, y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    quotient = np.trunc(np.true_divide(x, y))
    return quotient.astype(np.result_type(x, y))


def power(x: Array, y: Array) -> Array:
    return np.power(x, y)


def float_power(x: Array, y: Array) -> Array:
    wide = np.complex128 if np.iscomplexobj(x) or np.iscomplexobj(y) else np.float64
    return np.power(np.asarray(x, dtype=wide), y)


def xlogy(x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(np.isnan(y), np.nan, np.where(x == 0, 0.0, x * np.log(y)))


def addcdiv(x: Array, a: Array, b: Array, *, value: Any = 1) -> Array:
    return x + value * a / b


def addcmul(x: Array, a: Array, b: Array, *, value: Any = 1) -> Array:
    return x + np.asarray(value, dtype=x.dtype) * a * b


def ldexp(x: Array, y: Array) -> Array:
    return x * np.power(2.0, y)


NON_NEGATIVE = {"low": 0.0, "high": 4.0}
POSITIVE = {"low": 0.3, "high": 3.0}

op(
    "add",
    binary_calls(),
    with_options(scalar_calls(2), dtypes="ihfc"),
    call(t(3, 4), t(4), alpha=2, dtypes_="ihfc"),
    call(t(2), 1.5, alpha=2, dtypes_="f"),
    call(t(3), 2.5, dtypes_="i", result_="float"),
    call(t(3, low=0, high=0), True, dtypes_="b"),
    ref=add,
    dtypes="bihfc",
    forms=POINTWISE,
)
op(
    "sub subtract",
    binary_calls(),
    scalar_calls(2),
    call(t(3, 4), t(4), alpha=2),
    call(t(3), 2.5, dtypes_="i", result_="float"),
    ref=sub,
    dtypes="ihfc",
    forms=POINTWISE,
)
op("rsub", binary_calls(), scalar_calls(2), ref=lambda x, y: np.subtract(y, x), dtypes="ihfc")
op(
    "mul multiply",
    binary_calls(),
    with_options(scalar_calls(2), dtypes="ihfc"),
    call(t(3), 2.5, dtypes_="i", result_="float"),
    ref=np.multiply,
    dtypes="bihfc",
    forms=POINTWISE,
)
op(
    "div divide",
    binary_calls(nonzero=True),
    scalar_calls(2, nonzero=True),
    call(
        t(3, 4),
        t(4, nonzero=True),
        rounding_mode="floor",
        dtypes_="ihf",
        result_="same",
        grad_=False,
    ),
    call(
        t(3, 4),
        t(4, nonzero=True),
        rounding_mode="trunc",
        dtypes_="ihf",
        result_="same",
        grad_=False,
    ),
    call(t(3, 4), 2, rounding_mode="floor", dtypes_="ihf", result_="same", grad_=False),
    ref=div,
    result="float",
    forms=POINTWISE,
)
op(
    "true_divide",
    binary_calls(nonzero=True),
    scalar_calls(2, nonzero=True),
    ref=np.true_divide,
    result="float",
    forms=POINTWISE,
)
op(
    "floor_divide",
    binary_calls(nonzero=True),
    scalar_calls(2),
    ref=np.floor_divide,
    dtypes="ihf",
    forms=POINTWISE,
    grad=False,
    tolerance=50,
)
op(
    "remainder",
    binary_calls(nonzero=True),
    call(t(3, 4), 2),
    call(3, t(4, nonzero=True), out_=False, grad_=False),
    call(t(5, values=(math.inf, 1.0, -1.0, 5.5, -5.5)), 2.0, dtypes_="f", grad_=False),
    ref=np.remainder,
    dtypes="ihf",
    forms=POINTWISE,
    tolerance=50,
)
op("fmod", binary_calls(nonzero=True), call(t(3, 4), 2), ref=np.fmod, dtypes="ihf", forms=POINTWISE)
op(
    "pow",
    with_options(binary_calls(**POSITIVE), dtypes="ihfc"),
    call(t(3, 4), 2),
    call(t(3, 4, **POSITIVE), 3),
    call(t(3, 4, **POSITIVE), 0.5, dtypes_="hfc"),
    call(t(3, 4, **POSITIVE), -1.5, dtypes_="f"),
    call(2, t(3, 4, **NON_NEGATIVE), inplace_=False),
    call(t(3), 0, dtypes_="ihfc"),
    call(t(3, nonzero=True), -1, dtypes_="f"),
    ref=power,
    dtypes="ihfc",
    forms=POINTWISE,
)
op(
    "float_power",
    binary_calls(**POSITIVE),
    call(t(3, 4, **POSITIVE), 2.5),
    ref=float_power,
    dtypes="ihfc",
    result="double",
    forms="out",
)
op("maximum", binary_calls(distinct=True), ref=np.maximum, dtypes="bihf", forms="out")
op("minimum", binary_calls(distinct=True), ref=np.minimum, dtypes="bihf", forms="out")
op("fmax", binary_calls(distinct=True), ref=np.fmax, dtypes="bihf", forms="out")
op("fmin", binary_calls(distinct=True), ref=np.fmin, dtypes="bihf", forms="out")
op(
    "atan2 arctan2",
    binary_calls(nonzero=True),
    ref=np.arctan2,
    dtypes="bihf",
    result="float",
    forms=POINTWISE,
)
op("hypot", binary_calls(nonzero=True), ref=np.hypot, dtypes="hf", forms=POINTWISE)
op("logaddexp", binary_calls(), ref=np.logaddexp, dtypes="hf", forms="out")
op("logaddexp2", binary_calls(), ref=np.logaddexp2, dtypes="hf", forms="out")
op(
    "copysign",
    binary_calls(nonzero=True),
    call(t(3, 4, nonzero=True), -1.0),
    ref=np.copysign,
    dtypes="bihf",
    result="float",
    forms=POINTWISE,
)
op("nextafter", binary_calls(), ref=None, dtypes="f", forms=POINTWISE, grad=False)
op(
    "xlogy",
    binary_calls(**POSITIVE),
    call(t(3, **POSITIVE), 2.5),
    ref=xlogy,
    dtypes="bihf",
    result="float",
    forms="out",
)
op(
    "heaviside",
    binary_calls(nonzero=True),
    ref=lambda x, y: np.heaviside(x.astype(np.float64), y),
    dtypes="ihf",
    forms=POINTWISE,
    grad=False,
)
op(
    "ldexp",
    call(t(3, 4), t(4, dtype="int64")),
    call(t(), t(dtype="int64")),
    call(t(0, 2), t(2, dtype="int64")),
    ref=ldexp,
    dtypes="f",
    forms=POINTWISE,
)
op("gcd", binary_calls(), ref=np.gcd, dtypes="i", forms=POINTWISE)
op("lcm", binary_calls(), ref=np.lcm, dtypes="i", forms=POINTWISE)

op(
    "bitwise_and",
    binary_calls(),
    call(t(3), 5, dtypes_="i"),
    ref=np.bitwise_and,
    dtypes="bi",
    forms=POINTWISE,
)
op(
    "bitwise_or",
    binary_calls(),
    call(t(3), 5, dtypes_="i"),
    ref=np.bitwise_or,
    dtypes="bi",
    forms=POINTWISE,
)
op(
    "bitwise_xor",
    binary_calls(),
    call(t(3), 5, dtypes_="i"),
    ref=np.bitwise_xor,
    dtypes="bi",
    forms=POINTWISE,
)
op(
    "bitwise_left_shift",
    binary_calls(**NON_NEGATIVE),
    call(t(3), 2),
    ref=np.left_shift,
    dtypes="i",
    forms=POINTWISE,
)
op(
    "bitwise_right_shift",
    binary_calls(**NON_NEGATIVE),
    call(t(3), 2),
    ref=np.right_shift,
    dtypes="i",
    forms=POINTWISE,
)

op(
    "lerp",
    call(t(3, 4), t(4), 0.3),
    call(t(3, 4), t(3, 4), t(3, 4)),
    call(t(), t(), 0.7),
    call(t(0, 2), t(2), 0.1),
    ref=lambda x, y, w: x + w * (y - x),
    dtypes="hfc",
    forms=POINTWISE,
)
op(
    "addcmul",
    call(t(3, 4), t(4), t(3, 1)),
    call(t(3), t(3), t(3), value=2),
    call(t(), t(), t()),
    call(t(0, 2), t(2), t(2)),
    ref=addcmul,
    dtypes="ihfc",
    forms=POINTWISE,
)
op(
    "addcdiv",
    call(t(3, 4), t(4), t(3, 1, nonzero=True)),
    call(t(3), t(3), t(3, nonzero=True), value=2),
    call(t(), t(), t(nonzero=True)),
    call(t(0, 2), t(2), t(2, nonzero=True)),
    ref=addcdiv,
    dtypes="hfc",
    forms=POINTWISE,
)
op(
    "where",
    call(bools(3, 4), t(3, 4), t(4), inplace_=False),
    call(bools(3, 1), t(4), 2.0, dtypes_="f", out_=False),
    call(bools(3), 1.0, t(3), dtypes_="f", out_=False),
    call(bools(), t(), t()),
    call(bools(0, 2), t(2), t(2)),
    ref=np.where,
    forms="out function-only",
)

op(
    "dist",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(3), 1.0),
    call(t(3), t(3), math.inf),
    call(t(), t()),
    call(t(0, 2), t(0, 2), grad_=False),
    ref=lambda x, y, p=2.0: np.linalg.norm((x - y).ravel(), p) if x.size else 0.0,
    dtypes="f",
)
