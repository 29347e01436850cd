"""Samples of the softmax family, dropout and what neural networks are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import as_dtype, call, op, t

Array = Any


def softmax(x: Array, dim: int, *, dtype: Any = None) -> Array:
    if x.ndim == 0:
        return np.ones(())
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def log_softmax(x: Array, dim: int, *, dtype: Any = None) -> Array:
    return np.log(softmax(x, dim)) if x.size else x


SOFTMAX_CALLS = [
    call(t(3, 4), 1),
    call(t(2, 3, 4), 0),
    call(t(2, 3, 4), -2),
    call(t(), 0),
    call(t(0, 3), 1),
    call(t(3, 0), 1),
    call(t(2, 70), -1),
    call(t(2, 3), 1, dtype=as_dtype("float64"), result_="float64"),
    call(t(3, dtype="int64"), 0, dtype=as_dtype("float32"), dtypes_="int64", result_="float32"),
]
op(
    "softmax",
    SOFTMAX_CALLS,
    call(t(2, 3, low=80, high=100), 1, dtypes_="f"),
    ref=softmax,
    dtypes="hf",
)
op(
    "log_softmax",
    SOFTMAX_CALLS,
    call(t(2, 3, low=80, high=100), 1, dtypes_="f"),
    ref=log_softmax,
    dtypes="hf",
    tolerance=4,
)
op(
    "dropout",
    call(t(3, 4), 0.0, True),
    call(t(3, 4), 0.5, False),
    call(t(), 0.3, False),
    call(t(0, 2), 0.5, True, layouts_=False),
    ref=lambda x, p, train: x,
    dtypes="hf",
    forms="inplace-function",
)
