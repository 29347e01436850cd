"""Samples of counting, quantiles, covariances, distances, integrals and unique elements."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .spec import call, ints, op, t

Array = Any
LEVELS = (-2.0, -0.5, 0.0, 1.0, 2.5)


def positions(values: Array, edges: Array, right: bool) -> Array:
    return np.searchsorted(edges, values, "right" if right else "left")


def searchsorted(
    edges: Array, values: Array, *, right: bool = False, side: Any = None, **_: Any
) -> Array:
    right = right or side == "right"
    if edges.ndim == 1:
        return positions(values, edges, right)
    rows = [positions(v, e, right) for e, v in zip(edges, values, strict=True)]
    return np.array(rows, np.int64).reshape(values.shape)


op(
    "searchsorted",
    call(t(5, values=LEVELS), t(3, 4)),
    call(t(5, values=LEVELS), t(3, 4), right=True),
    call(t(2, 5, values=LEVELS * 2), t(2, 3), side="right"),
    call(t(5, values=LEVELS), t()),
    call(t(5, values=LEVELS), 1),
    call(t(5, values=LEVELS), t(0, 3)),
    call(t(0), t(4)),
    ref=searchsorted,
    dtypes="hf",
    result="int64",
    forms="out",
    grad=False,
)
op(
    "bucketize",
    call(t(3, 4), t(5, values=LEVELS)),
    call(t(), t(5, values=LEVELS), right=True),
    call(1, t(5, values=LEVELS)),
    call(t(0, 3), t(5, values=LEVELS)),
    ref=lambda x, edges, right=False: positions(x, edges, right),
    dtypes="hf",
    result="int64",
    forms="out",
    grad=False,
)
op(
    "bincount",
    call(ints(20, high=6)),
    call(ints(20, high=6), minlength=9),
    call(ints(20, high=6), t(20)),
    call(ints(0, high=6), minlength=3),
    ref=lambda x, w=None, minlength=0: np.bincount(x.reshape(-1), w, minlength=minlength),
    dtypes="f",
    result="any",
    forms="data-dependent",
    grad=False,
    zero_dim="counts the elements of a vector",
)


def histogram(x: Array, bins: Any = 100, *, range: Any = None, weight: Any = None,
              density: bool = False) -> Any:  # fmt: skip
    if range is None and x.size == 0:
        range = (0, 1)
    return np.histogram(x, bins, range, density=density, weights=weight)


op(
    "histc",
    call(t(30), 5, -2, 2),
    call(t(3, 4), bins=4),
    call(t(), 3, -1, 1),
    call(t(0, 3), 3),
    ref=lambda x, bins=100, min=0, max=0: histogram(
        x, bins, range=(min, max) if min != max else None
    )[0],
    dtypes="f",
    forms="out data-dependent",
    grad=False,
)
op(
    "histogram",
    call(t(30), 5, range=[-2.0, 2.0]),
    call(t(3, 4), bins=4, density=True),
    call(t(30), t(5, values=LEVELS)),
    call(t(30), 5, weight=t(30, low=0.1, high=1.0)),
    call(t(0, 3), 3),
    call(t(), 3),
    ref=histogram,
    dtypes="f",
    forms="data-dependent",
    grad=False,
)


def histogramdd(x: Array, bins: Any, range: Any = None, weight: Any = None,
                density: bool = False) -> Any:  # fmt: skip
    pairs = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    flat = x.reshape(-1, x.shape[-1])
    return np.histogramdd(flat, bins, pairs, density=density, weights=weight)


op(
    "histogramdd",
    call(t(30, 2), [3, 4]),
    call(t(30, 2), 3, range=[-2.0, 2.0, -1.0, 1.0]),
    call(t(30, 2), [t(5, values=LEVELS), t(5, values=LEVELS)]),
    call(t(30, 3), [2, 2, 2], weight=t(30, low=0.1, high=1.0), density=True),
    ref=histogramdd,
    dtypes="f",
    forms="data-dependent",
    grad=False,
    empty="a histogram of no points has no range",
    zero_dim="points are rows of a matrix",
)


def quantile(function: Any) -> Any:
    def reduce(x: Array, q: Any, dim: Any = None, keepdim: bool = False, *,
               interpolation: str = "linear") -> Array:  # fmt: skip
        axis = None if x.ndim == 0 else dim
        return function(x, q, axis=axis, keepdims=keepdim, method=interpolation)

    return reduce


SHARES = t(3, values=(0.1, 0.55, 1.0), differentiable=False)
QUANTILE_CALLS = [
    call(t(7, distinct=True), 0.3),
    call(t(3, 5, distinct=True), SHARES, 1),
    call(t(3, 5, distinct=True), SHARES, 0, True),
    call(t(3, 5, distinct=True), SHARES, interpolation="nearest"),
    call(t(3, 5, distinct=True), 0.4, -1, interpolation="lower"),
    call(t(3, 5, distinct=True), 0.4, -1, interpolation="higher"),
    call(t(3, 5, distinct=True), 0.4, 0, True, interpolation="midpoint"),
    call(t(), 0.5),
]
for name, function in (("quantile", np.quantile), ("nanquantile", np.nanquantile)):
    op(
        name,
        QUANTILE_CALLS,
        call(t(4, values=(1.0, float("nan"), 3.0, 2.0)), 0.3, grad_=False),
        ref=quantile(function),
        dtypes="f",
        forms="out",
        empty="no elements have no quantile",
    )

op(
    "cov",
    call(t(3, 6)),
    call(t(3, 6), correction=0),
    call(t(3, 6), fweights=ints(6, low=1, high=4)),
    call(t(6)),
    call(t(3, 6), aweights=t(6, low=0.2, high=1.0), dtypes_="f"),
    ref=lambda x, correction=1, fweights=None, aweights=None: np.cov(
        x, ddof=correction, fweights=fweights, aweights=aweights
    ),
    dtypes="if",
    result="float",
    tolerance=4,
    empty="no observations have no covariance",
    zero_dim="one observation has no covariance",
)
op(
    "corrcoef",
    call(t(3, 6)),
    ref=np.corrcoef,
    dtypes="f",
    tolerance=4,
    empty="no observations have no correlation",
    zero_dim="one observation has no correlation",
)


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    norm = (np.abs(x) ** p).sum(others, keepdims=True) ** (1 / p)
    return x * np.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1)


op(
    "renorm",
    call(t(3, 4, nonzero=True), 2, 0, 1.5),
    call(t(2, 3, 4, nonzero=True), 1, -1, 3),
    call(t(0, 3), 2, 0, 1.0),
    ref=renorm,
    dtypes="hfc",
    forms="inplace out",
    tolerance=2,
    zero_dim="takes at least a matrix",
)
op(
    "frexp",
    call(t(3, 4, nonzero=True)),
    call(t(nonzero=True)),
    call(t(0, 3)),
    call(t(5, values=(0.0, float("inf"), 1.0, -8.0, 0.3)), grad_=False),
    ref=np.frexp,
    dtypes="hf",
    result="any",
    second=False,
)


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)

    def of_row(row: Array) -> Array:
        values, counts = np.unique(row, return_counts=True)
        return np.flatnonzero(row == values[np.argmax(counts)])[-1]

    if x.size == 0:
        indices = np.zeros([n for d, n in enumerate(x.shape) if d != dim % x.ndim], np.int64)
    else:
        indices = np.apply_along_axis(of_row, dim, x)
    kept = np.expand_dims(indices, dim)
    values = np.take_along_axis(x, kept, dim)
    return (values, kept) if keepdim else (values.squeeze(dim), indices)


op(
    "mode",
    call(t(9, high=2, low=-2), dtypes_="bi", grad_=False),
    call(t(3, 7, low=0, high=3), 1, dtypes_="bi", grad_=False),
    call(t(3, 4, distinct=True), 0, True),
    call(t()),
    call(t(3, 0), 0),
    ref=mode,
    dtypes="ihf",
    result="any",
)


def cdist(x1: Array, x2: Array, p: float = 2.0, compute_mode: str = "") -> Array:
    d = np.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p == 0:
        return (d != 0).sum(-1).astype(float)
    return d.max(-1) if np.isinf(p) else (d**p).sum(-1) ** (1 / p)


op(
    "cdist",
    call(t(3, 4), t(5, 4)),
    call(t(3, 4), t(5, 4), 1.0),
    call(t(3, 4), t(5, 4), 0.0),
    call(t(3, 4), t(5, 4), float("inf")),
    call(t(3, 4), t(5, 4), 3.5),
    call(t(2, 3, 4), t(1, 5, 4)),
    call(t(30, 2), t(4, 2)),
    call(t(0, 4), t(5, 4)),
    ref=cdist,
    dtypes="f",
    covers="_cdist",
    tolerance=8,
    zero_dim="points are rows of a matrix",
)


def pdist(x: Array, p: float = 2.0) -> Array:
    pairs = itertools.combinations(range(len(x)), 2)
    return np.array([cdist(x[i : i + 1], x[j : j + 1], p)[0, 0] for i, j in pairs])


op(
    "pdist",
    call(t(4, 3)),
    call(t(4, 3), 1.0),
    call(t(4, 3), 3.0),
    call(t(0, 3)),
    ref=pdist,
    dtypes="f",
    zero_dim="points are rows of a matrix",
)


def unique(x: Array, sorted: bool = True, return_inverse: bool = False,
           return_counts: bool = False, dim: Any = None) -> Any:  # fmt: skip
    found = np.unique(x, False, return_inverse, return_counts, dim)
    if not return_inverse and not return_counts:
        return found
    parts = list(found)
    if return_inverse:
        parts[1] = parts[1].reshape(x.shape if dim is None else (-1,))
    return tuple(parts)


def runs(x: Array, return_inverse: bool = False, return_counts: bool = False) -> Any:
    flat = x.reshape(-1)
    starts = np.concatenate([[True], flat[1:] != flat[:-1]])[: flat.size]
    parts: list[Array] = [flat[starts]]
    if return_inverse:
        parts.append((np.cumsum(starts) - 1).reshape(x.shape))
    if return_counts:
        parts.append(np.diff(np.append(np.flatnonzero(starts), flat.size)))
    return tuple(parts) if len(parts) > 1 else parts[0]


op(
    "unique",
    call(t(20)),
    call(t(4, 5), return_inverse=True, return_counts=True),
    call(t(6, 2, low=0, high=1), dim=0, return_inverse=True, return_counts=True),
    call(t(2, 6, low=0, high=1), dim=1, return_counts=True),
    call(t()),
    call(t(0)),
    ref=unique,
    dtypes="bihf",
    result="any",
    forms="data-dependent",
    grad=False,
    covers="_unique2 _unique_dim",
)
op(
    "unique_consecutive",
    call(t(20, low=0, high=2)),
    call(t(4, 5, low=0, high=1), return_inverse=True, return_counts=True),
    call(t()),
    call(t(0)),
    ref=runs,
    dtypes="bihf",
    result="any",
    forms="data-dependent",
    grad=False,
    covers="_unique_consecutive",
)


def trapezoid(y: Array, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Array:
    return np.trapezoid(y, x, dx, dim)


def running_trapezoid(y: Array, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Array:
    y = np.moveaxis(y, dim, -1)
    steps = dx if x is None else np.diff(x)
    return np.moveaxis(np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2, -1), -1, dim)


INTEGRAL_CALLS = [
    call(t(3, 5)),
    call(t(5, 3), dim=0, dx=0.5),
    call(t(3, 5), t(5)),
]
op(
    "trapezoid trapz",
    INTEGRAL_CALLS,
    call(t(0, 3)),
    ref=trapezoid,
    dtypes="fc",
    result="any",
    tolerance=4,
    zero_dim="integrates along a dimension",
)
op(
    "cumulative_trapezoid",
    INTEGRAL_CALLS,
    call(t(0, 3)),
    ref=running_trapezoid,
    dtypes="fc",
    result="any",
    tolerance=4,
    zero_dim="integrates along a dimension",
)


def gradient(x: Array, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    positions = spacing if isinstance(spacing, (list, tuple)) else [spacing]
    return np.gradient(x, *positions, axis=dim, edge_order=edge_order)


op(
    "gradient",
    call(t(6)),
    call(t(4, 5), spacing=2.0),
    call(t(4, 5), dim=1, edge_order=2),
    call(t(4, 5), spacing=[0.5, 2.0]),
    call(t(5), spacing=[t(5, values=LEVELS, differentiable=False)], edge_order=2, layouts_=False),
    ref=gradient,
    dtypes="f",
    tolerance=8,
    empty="needs two elements",
    zero_dim="needs two elements",
)


def kaiser(length: int, periodic: bool = True, beta: float = 12.0) -> Array:
    return np.kaiser(length + 1, beta)[:-1] if periodic else np.kaiser(length, beta)


op(
    "kaiser_window",
    call(7),
    call(7, False),
    call(8, True, 5.0),
    call(0),
    ref=kaiser,
    dtypes="float32",
    result="any",
    forms="creation",
    grad=False,
    zero_dim="makes a vector",
)


def hashed(x: Array, dim: Any = None, *, keepdim: bool = False) -> Array:
    wide = x.astype(np.float64 if x.dtype.kind == "f" else np.int64)
    axis = None if dim is None else dim
    bits = np.ascontiguousarray(wide).view(np.uint64).reshape(x.shape)
    return np.bitwise_xor.reduce(bits, axis=axis, keepdims=keepdim)


op(
    "hash_tensor",
    call(t(3, 5)),
    call(t(3, 5), 1),
    call(t(2, 3, 4), (0, 2), keepdim=True),
    call(t()),
    call(t(0, 3), 1),
    ref=hashed,
    dtypes="bif",
    result="uint64",
    grad=False,
)
