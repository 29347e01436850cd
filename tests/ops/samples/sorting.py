"""Samples of sorting and selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import call, op, t

Array = Any


def order(x: Array, dim: int, descending: bool) -> Array:
    """The stable order along dim; equal elements keep their order when descending too."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    length = x.shape[dim]
    backwards = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.flip(length - 1 - backwards, dim)


def sort(x: Array, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    indices = order(x, dim, descending)
    return np.take_along_axis(x, indices, dim), indices


def topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    indices = np.take(order(x, dim, largest), range(k), axis=dim)
    return np.take_along_axis(x, indices, dim), indices


def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    indices = np.take(order(x, dim, False), [k - 1], axis=dim)
    values = np.take_along_axis(x, indices, dim)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


D = {"distinct": True}

op(
    "sort",
    call(t(3, 4, **D)),
    call(t(3, 4, **D), 0),
    call(t(2, 3, 4, **D), -1, True),
    call(t(40), stable=True, descending=True, dim=0),
    call(t(40), stable=True),
    call(t()),
    call(t(0, 2)),
    call(t(70, **D), descending=True, dtypes_="ihf"),
    ref=sort,
    dtypes="bihf",
    result="any",
    zero_dim=None,
)
op(
    "argsort",
    call(t(3, 4, **D)),
    call(t(3, 4, **D), 0),
    call(t(5, **D), -1, True),
    call(t(40), stable=True),
    call(t()),
    call(t(0, 2)),
    ref=lambda x, dim=-1, descending=False, stable=False: sort(x, dim, descending)[1],
    dtypes="ihf",
    result="int64",
    grad=False,
)
op(
    "msort",
    call(t(3, 4, **D)),
    call(t(5, **D)),
    call(t()),
    call(t(0, 2)),
    ref=lambda x: np.sort(x, 0) if x.ndim else x,
    dtypes="bihf",
    forms="out",
)
op(
    "topk",
    call(t(3, 5, **D), 2),
    call(t(5, 3, **D), 2, 0),
    call(t(7, **D), 3, largest=False),
    call(t(), 1),
    call(t(0, 3, **D), 2),
    call(t(5, **D), 0),
    call(t(70, **D), 5),
    ref=topk,
    dtypes="ihf",
    result="any",
)
op(
    "kthvalue",
    call(t(5, **D), 2),
    call(t(3, 4, **D), 3, 1),
    call(t(3, 4, **D), 1, 0, True),
    call(t(), 1),
    call(t(0, 3, **D), 2),
    ref=kthvalue,
    dtypes="ihf",
    result="any",
)
