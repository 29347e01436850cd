"""Samples of gathering, scattering, index and mask functions.

Indexing with brackets is compared by tests/ops/test_indexing.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import bools, call, ints, op, t

Array = Any


def along(dim: int, index: Array) -> tuple[Any, ...]:
    """Open-mesh indices that address x at `index` along dim."""
    mesh = list(np.ogrid[tuple(slice(s) for s in index.shape)]) if index.ndim else []
    if index.ndim:
        mesh[dim] = index
    return tuple(mesh)


def gather(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    return x if x.ndim == 0 else x[along(dim, index)]


def scatter(x: Array, dim: int, index: Array, src: Any, *, reduce: str | None = None) -> Array:
    result = x.copy()
    for position in np.ndindex(*index.shape):
        target = list(position)
        if x.ndim:
            target[dim] = index[position]
        value = src[position] if isinstance(src, np.ndarray) and src.ndim == x.ndim else src
        where = tuple(target)
        if reduce == "add":
            result[where] += value
        elif reduce == "multiply":
            result[where] *= value
        else:
            result[where] = value
    return result


def scatter_reduce(
    x: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Array:
    result = x.copy()
    found: dict[tuple[int, ...], list[Any]] = {}
    for position in np.ndindex(*index.shape):
        target = list(position)
        if x.ndim:
            target[dim] = int(index[position])
        found.setdefault(tuple(target), []).append(src[position])
    functions = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "mean": None}
    for where, values in found.items():
        if include_self:
            values = [x[where], *values]
        if reduce == "mean":
            total = np.sum(values, axis=0)
            whole = np.issubdtype(x.dtype, np.integer)
            result[where] = total // len(values) if whole else total / len(values)
        else:
            result[where] = functions[reduce](np.array(values, dtype=x.dtype))
    return result


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Array:
    shape = [1] * source.ndim
    shape[dim] = -1
    indices = np.broadcast_to(index.reshape(shape), source.shape)
    return scatter_reduce(x, dim, indices, source, reduce, include_self=include_self)


def index_add(x: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1) -> Array:
    result = np.atleast_1d(x).copy()
    source = np.atleast_1d(source)
    for k, target in enumerate(np.atleast_1d(index)):
        where = (slice(None),) * (dim % result.ndim) + (target,)
        taken = (slice(None),) * (dim % result.ndim) + (k,)
        result[where] = result[where] + np.asarray(alpha, x.dtype) * source[taken]
    return result.reshape(x.shape)


def index_write(x: Array, dim: int, index: Array, value: Any) -> Array:
    result = np.atleast_1d(x).copy()
    if isinstance(value, np.ndarray):
        value = np.atleast_1d(value) if value.ndim or x.ndim == 0 else value
    result[(slice(None),) * (dim % result.ndim) + (np.atleast_1d(index),)] = value
    return result.reshape(x.shape)


def index_select(x: Array, dim: int, index: Array) -> Array:
    if x.ndim == 0:
        return x
    return np.take(x, np.atleast_1d(index), axis=dim)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    result = np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)).copy()
    mask = np.broadcast_to(mask, result.shape)
    result[mask] = source.ravel()[: int(mask.sum())]
    return result


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    result = x.copy()
    if accumulate:
        np.add.at(result.reshape(-1), index.ravel(), source.ravel())
    else:
        result.reshape(-1)[index.ravel()] = source.ravel()
    return result


def index_put(x: Array, indices: Any, values: Array, accumulate: bool = False) -> Array:
    result = x.copy()
    if accumulate:
        np.add.at(result, tuple(indices), values)
    else:
        result[tuple(indices)] = values
    return result


def positions(x: Array) -> Array:
    """Where x is not zero, a row each."""
    return np.stack(np.nonzero(np.atleast_1d(x)), -1)[:, : x.ndim]


DISTINCT_INDEX = {"dtype": "int64", "values": (2, 0)}
FORMS = "inplace out"

op(
    "gather",
    call(t(3, 4), 1, ints(3, 2, high=4)),
    call(t(3, 4), 0, ints(5, 4, high=3)),
    call(t(2, 3, 4), -1, ints(2, 3, 1, high=4)),
    call(t(), 0, ints(high=1)),
    call(t(3, 4), 1, ints(3, 0, high=4)),
    call(t(5), dim=0, index=ints(3, high=5)),
    ref=gather,
    forms="out",
)
op(
    "take_along_dim",
    call(t(3, 4), ints(3, 2, high=4), 1),
    call(t(3, 4), ints(1, 4, high=3), dim=0),
    call(t(3, 4), ints(5, high=12), layouts_=False),
    call(t(3, 4), ints(3, 0, high=4), 1),
    ref=lambda x, index, dim=None: np.take_along_axis(
        x,
        index
        if dim is None
        else np.broadcast_to(
            index,
            [
                max(i, s) if d != dim else i
                for d, (i, s) in enumerate(zip(index.shape, x.shape, strict=True))
            ],
        ),
        dim,
    ),
    forms="out",
    zero_dim="NumPy has none",
)
op(
    "scatter",
    call(t(3, 4), 1, t(3, 1, dtype="int64", values=(0, 3, 1)), t(3, 1)),
    call(t(3, 4), 0, t(1, 4, dtype="int64", values=(0, 2, 1, 0)), 1),
    call(t(3, 4), 1, t(2, 2, dtype="int64", values=(0, 3, 1, 2)), t(3, 4), grad_=False),
    call(t(3), 0, t(2, **DISTINCT_INDEX), src=t(2)),
    call(t(3), 0, ints(4, high=3), t(4), reduce="add", dtypes_="if", grad_=False),
    call(t(3), 0, ints(4, high=3), t(4), reduce="multiply", dtypes_="if", grad_=False),
    call(t(), 0, ints(high=1), t()),
    call(t(0, 2), 0, ints(0, 2, high=1), t(0, 2)),
    ref=scatter,
    forms=FORMS,
)
op(
    "scatter_add",
    call(t(3, 4), 1, ints(3, 6, high=4), t(3, 6)),
    call(t(3, 4), 0, ints(2, 3, high=3), t(2, 4), grad_=False),
    call(t(), 0, ints(high=1), t()),
    call(t(0, 2), 0, ints(0, 2, high=1), t(0, 2)),
    ref=lambda x, dim, index, src: scatter(x, dim, index, src, reduce="add"),
    dtypes="bihfc",
    forms=FORMS,
)
op(
    "scatter_reduce",
    call(t(3, 4), 1, ints(3, 6, high=4), t(3, 6), "sum"),
    call(t(3), 0, ints(5, high=3), t(5, low=0.5), "prod"),
    call(t(3), 0, ints(5, high=3), t(5, distinct=True), "amax"),
    call(t(3), 0, ints(5, high=3), t(5, distinct=True), reduce="amin", include_self=False),
    call(t(3), 0, ints(5, high=3), t(5), "mean", dtypes_="hf"),
    call(t(3), 0, ints(5, high=3), t(5), "mean", include_self=False, dtypes_="f"),
    call(t(), 0, ints(high=1), t(), "sum"),
    call(t(0, 2), 0, ints(0, 2, high=1), t(0, 2), "sum"),
    ref=scatter_reduce,
    dtypes="ihf",
    forms=FORMS,
    second=False,
    tolerance=4,
)
op(
    "index_reduce",
    call(t(3, 4, low=0.5), 0, ints(5, high=3), t(5, 4, low=0.5), "prod"),
    call(t(3, 4), 1, ints(2, high=4), t(3, 2, distinct=True), "amax"),
    call(t(3), 0, ints(5, high=3), t(5, distinct=True), reduce="amin", include_self=False),
    call(t(3), 0, ints(5, high=3), t(5), "mean", dtypes_="hf"),
    call(t(0, 2), 1, ints(3, high=2), t(0, 3), "prod"),
    ref=index_reduce,
    dtypes="ihf",
    forms=FORMS,
    second=False,
    tolerance=4,
    zero_dim="scatter_reduce, which it calls, has one",
)
op(
    "index_select",
    call(t(3, 4), 0, ints(2, high=3)),
    call(t(3, 4), 1, ints(5, high=4)),
    call(t(2, 3, 4), -1, ints(2, high=4)),
    call(t(3), 0, ints(high=3)),
    call(t(), 0, ints(1, high=1)),
    call(t(3, 4), 0, ints(0, high=3)),
    call(t(0, 4), 1, ints(2, high=4)),
    ref=index_select,
    forms="out",
)
op(
    "index_add",
    call(t(3, 4), 0, ints(5, high=3), t(5, 4)),
    call(t(3, 4), 1, ints(2, high=4), t(3, 2), alpha=2, dtypes_="ihfc"),
    call(t(), 0, ints(1, high=1), t()),
    call(t(0, 2), 1, ints(3, high=2), t(0, 3)),
    ref=index_add,
    forms=FORMS,
)
op(
    "index_copy",
    call(t(3, 4), 0, t(2, **DISTINCT_INDEX), t(2, 4)),
    call(t(3, 4), -1, t(2, **DISTINCT_INDEX), t(3, 2)),
    call(t(), 0, ints(1, high=1), t()),
    call(t(0, 3), 1, t(2, **DISTINCT_INDEX), t(0, 2)),
    ref=index_write,
    forms=FORMS,
)
op(
    "index_fill",
    call(t(3, 4), 0, ints(2, high=3), 1),
    call(t(3, 4), 1, ints(2, high=4), t()),
    call(t(), 0, ints(1, high=1), 1),
    call(t(0, 2), 1, ints(1, high=2), 1),
    ref=index_write,
    forms="inplace",
)
op(
    "index_put",
    call(t(3, 4), (ints(2, high=3), t(2, dtype="int64", values=(1, 3))), t(2)),
    call(t(3, 4), (t(2, **DISTINCT_INDEX),), t(4)),
    call(t(3), (bools(3),), t()),
    call(t(3, 4), [ints(5, high=3), ints(5, high=4)], t(5), True),
    call(t(0, 2), (ints(0, high=1),), t(2)),
    ref=index_put,
    forms="inplace",
    zero_dim="it indexes a dimension",
)
op(
    "masked_fill",
    call(t(3, 4), bools(3, 4), 1),
    call(t(3, 4), bools(4), t()),
    call(t(), bools(), 1),
    call(t(0, 2), bools(2), 1),
    call(t(2, 3), mask=bools(2, 1), value=0),
    ref=lambda x, mask, value: np.where(mask, value, x),
    forms="inplace",
)
op(
    "masked_select",
    call(t(3, 4), bools(3, 4)),
    call(t(3, 4), bools(4)),
    call(t(), bools()),
    call(t(0, 2), bools(2)),
    ref=lambda x, mask: np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
        np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
    ],
    forms="out data-dependent",
)
op(
    "masked_scatter",
    call(t(3, 4), bools(3, 4), t(12)),
    call(t(3, 4), bools(4), t(3, 4)),
    call(t(), bools(), t(1)),
    call(t(0, 2), bools(2), t(2)),
    ref=masked_scatter,
    forms="inplace data-dependent",
)
op(
    "take",
    call(t(3, 4), ints(5, high=12)),
    call(t(3, 4), ints(2, 2, high=12)),
    call(t(), ints(high=1)),
    call(t(3), ints(0, high=3)),
    ref=lambda x, index: x.ravel()[index],
    forms="out",
)
op(
    "put",
    call(t(3, 4), t(3, dtype="int64", values=(11, 0, 5)), t(3)),
    call(t(3), ints(5, high=3), t(5), accumulate=True, dtypes_="ihfc"),
    call(t(), ints(1, high=1), t(1)),
    call(t(3), ints(0, high=3), t(0)),
    ref=put,
    forms="inplace",
)
op(
    "nonzero",
    call(t(3, 4, low=-1, high=1)),
    call(t(5, low=-1, high=1)),
    call(t()),
    call(t(0, 2)),
    call(t(3, 4, low=-1, high=1), as_tuple=True),
    ref=lambda x, as_tuple=False: tuple(np.nonzero(x)) if as_tuple else positions(x),
    result="int64",
    forms="data-dependent",
    grad=False,
)
op(
    "argwhere",
    call(t(3, 4, low=-1, high=1)),
    call(t()),
    call(t(0, 2)),
    ref=positions,
    result="int64",
    forms="data-dependent",
    grad=False,
)
op(
    "unravel_index",
    call(ints(5, high=12), (3, 4)),
    call(ints(2, 2, high=24), (2, 3, 4)),
    call(ints(high=6), 6),
    call(ints(0, high=6), (2, 3)),
    ref=lambda index, shape: list(np.unravel_index(index, shape)),
    dtypes="i",
    result="int64",
    grad=False,
)


def nonzero_static(x: Array, *, size: int, fill_value: int = -1) -> Array:
    found = np.argwhere(x)[:size] if x.ndim else np.zeros((0, 0), np.int64)
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill_value)])


op(
    "nonzero_static",
    call(t(3, 4), size=20),
    call(t(5), size=2, fill_value=7),
    call(t(), size=3),
    call(t(0, 3), size=2),
    ref=nonzero_static,
    result="int64",
    grad=False,
)
