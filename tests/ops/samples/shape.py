"""Samples of the shape functions that copy: repeating, flipping, rolling, triangles, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from .creation import shape_of
from .spec import call, ints, op, t

Array = Any


def repeat(x: Array, *repeats: Any) -> Array:
    return np.tile(x, shape_of(repeats))


def repeat_interleave(x: Array, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Array:
    return np.repeat(x, repeats, axis=dim)


def roll(x: Array, shifts: Any, dims: Any = None) -> Array:
    return np.roll(x, shifts, axis=None if dims in (None, ()) else dims)


def diag_embed(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    size = x.shape[-1] + abs(offset)
    result = np.zeros((*x.shape[:-1], size, size), x.dtype)
    for k in range(x.shape[-1]):
        result[..., k + max(-offset, 0), k + max(offset, 0)] = x[..., k]
    return np.moveaxis(result, (-2, -1), (dim1, dim2))


def sum_to_size(x: Array, *size: Any) -> Array:
    size = shape_of(size)
    x = x.sum(axis=tuple(range(x.ndim - len(size))))
    return x.sum(
        axis=tuple(k for k, s in enumerate(size) if s == 1 and x.shape[k] != 1), keepdims=True
    )


def constant_pad_nd(x: Array, pad: Any, value: Any = 0) -> Array:
    widths = [(0, 0)] * x.ndim
    for k in range(len(pad) // 2):
        widths[-1 - k] = (pad[2 * k], pad[2 * k + 1])
    cut = tuple(
        slice(max(-low, 0), size - max(-high, 0))
        for (low, high), size in zip(widths, x.shape, strict=True)
    )
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    return np.pad(x[cut], grown, constant_values=value)


def scatter_view(select: Any) -> Any:
    """A copy of x in which what `select` picks is replaced by src."""

    def run(x: Array, src: Array, *args: Any, **kwargs: Any) -> Array:
        positions = np.arange(x.size).reshape(x.shape)
        result = x.copy()
        result.ravel()[select(positions, *args, **kwargs).ravel()] = src.ravel()
        return result

    return run


def sliced(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


op(
    "repeat",
    call(t(2, 3), 2, 1),
    call(t(3), (2, 2)),
    call(t(), 3),
    call(t(0, 2), 1, 2),
    call(t(2), 0),
    ref=repeat,
    forms="method-only",
)
op(
    "tile",
    call(t(2, 3), (2, 2)),
    call(t(2, 3), (2,)),
    call(t(3), (2, 2)),
    call(t(), (2,)),
    call(t(0, 2), (1, 2)),
    ref=lambda x, dims: np.tile(x, dims),
)
op(
    "repeat_interleave",
    call(t(3), 2),
    call(t(2, 3), 2, 1),
    call(t(2, 3), ints(2, high=3), 0),
    call(t(2, 3), 2),
    call(t(), 2),
    call(t(0), 2),
    ref=repeat_interleave,
    forms="data-dependent",
)
op(
    "flip",
    call(t(2, 3), (0,)),
    call(t(2, 3), [0, 1]),
    call(t(2, 3, 4), (0, -1)),
    call(t(0, 2), (0,)),
    ref=np.flip,
    zero_dim="it names a dimension",
)
op("fliplr", call(t(2, 3)), call(t(0, 2)), ref=np.fliplr, zero_dim="it takes two dimensions")
op(
    "flipud",
    call(t(2, 3)),
    call(t(3)),
    call(t(0, 2)),
    ref=np.flipud,
    zero_dim="it takes one dimension",
)
op(
    "roll",
    call(t(5), 2),
    call(t(3, 4), -1),
    call(t(3, 4), 1, None),
    call(t(3, 4), 1, 0),
    call(t(3, 4), (1, 2), (0, 1)),
    call(t(0, 2), 1, 0),
    ref=roll,
    zero_dim="it moves along a dimension",
)
op(
    "rot90",
    call(t(2, 3)),
    call(t(2, 3), 2),
    call(t(2, 3, 4), 1, (0, 2)),
    call(t(2, 3), -1, [1, 0]),
    call(t(0, 2)),
    ref=lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    zero_dim="it turns a plane",
)
op(
    "tril",
    call(t(3, 4)),
    call(t(4, 3), 1),
    call(t(2, 3, 3), -1),
    call(t(0, 3)),
    ref=lambda x, diagonal=0: np.tril(x, diagonal),
    forms="inplace out",
    zero_dim="it takes matrices",
)
op(
    "triu",
    call(t(3, 4)),
    call(t(4, 3), 1),
    call(t(2, 3, 3), diagonal=-1),
    call(t(0, 3)),
    ref=lambda x, diagonal=0: np.triu(x, diagonal),
    forms="inplace out",
    zero_dim="it takes matrices",
)
op(
    "diag",
    call(t(3)),
    call(t(3), 1),
    call(t(3, 4)),
    call(t(3, 4), -1),
    call(t(0)),
    ref=lambda x, diagonal=0: np.diag(x, diagonal),
    forms="out",
    zero_dim="it takes a vector",
)
op(
    "diagflat",
    call(t(3)),
    call(t(2, 2), 1),
    call(t()),
    call(t(0)),
    ref=lambda x, offset=0: np.diagflat(x, offset),
)
op(
    "diag_embed",
    call(t(3)),
    call(t(2, 3), 1),
    call(t(2, 3), -1, 0, 2),
    call(t(0, 2)),
    ref=diag_embed,
    zero_dim="it takes a dimension",
)
op(
    "sum_to_size",
    call(t(3, 4), 4),
    call(t(2, 3, 4), (3, 1)),
    call(t(3, 4), 3, 4),
    call(t(), ()),
    call(t(0, 2), 1, 2),
    ref=sum_to_size,
    forms="method-only",
    dtypes="ihfc",
    result="any",
    tolerance=10,
)
op(
    "constant_pad_nd",
    call(t(2, 3), (1, 2)),
    call(t(2, 3), [1, 0, 0, 2], 1),
    call(t(4), (-1, 2)),
    call(t(0, 2), (1, 1)),
    ref=constant_pad_nd,
    zero_dim="it pads a dimension",
)
op(
    "select_scatter",
    call(t(3, 4), t(4), 0, 1),
    call(t(3, 4), t(3), 1, -1),
    call(t(0, 2), t(0), 1, 0),
    ref=scatter_view(lambda x, dim, index: np.take(x, index, dim)),
    second=False,
    zero_dim="it needs a dimension",
)
op(
    "slice_scatter",
    call(t(5, 2), t(2, 2), 0, 1, 3),
    call(t(2, 5), t(2, 3), 1, 0, 5, 2),
    call(t(0, 2), t(0, 2)),
    ref=scatter_view(sliced),
    zero_dim="it needs a dimension",
)
op(
    "diagonal_scatter",
    call(t(3, 4), t(3)),
    call(t(3, 4), t(3), 1),
    call(t(0, 2), t(0)),
    ref=scatter_view(lambda x, offset=0: np.diagonal(x, offset)),
    zero_dim="it takes matrices",
)
op(
    "as_strided_scatter",
    call(t(3, 4), t(2, 2), (2, 2), (4, 1)),
    call(t(6), t(2), (2,), (2,), 1),
    call(t(0), t(0), (0,), (1,)),
    ref=lambda x, src, size, stride, offset=0: scatter_view(
        lambda p: np.lib.stride_tricks.as_strided(p.ravel()[offset:], size, [8 * s for s in stride])
    )(x, src),
    zero_dim="it needs a dimension",
    forms="rigid",
    grad=False,
)
NEEDS_DIMENSION = "it needs a dimension"
op(
    "expand_copy",
    call(t(3, 1), (3, 4)),
    call(t(), (2,)),
    call(t(0, 1), (0, 3)),
    ref=np.broadcast_to,
)
op(
    "transpose_copy",
    call(t(2, 3, 4), 0, 2),
    call(t(), 0, -1),
    call(t(0, 2), 0, 1),
    ref=lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
)
op("t_copy", call(t(2, 3)), call(t()), call(t(0, 3)), ref=np.transpose)
op(
    "unsqueeze_copy",
    call(t(2, 3), 1),
    call(t(), 0),
    call(t(0, 3), -1),
    ref=np.expand_dims,
)
op(
    "squeeze_copy",
    call(t(2, 1, 3, 1)),
    call(t(2, 1, 3, 1), (1,)),
    call(t()),
    call(t(0, 1)),
    ref=lambda x, dim=None: np.squeeze(x, dim),
)
op("alias_copy", call(t(2, 3)), call(t()), call(t(0, 3)), ref=lambda x: x)
op("detach_copy", call(t(2, 3)), call(t()), call(t(0, 3)), ref=lambda x: x, grad=False)
op(
    "as_strided_copy",
    call(t(3, 4), (2, 2), (4, 1), layouts_=False),
    call(t(0), (0,), (1,), layouts_=False),
    ref=lambda x, size, stride: np.lib.stride_tricks.as_strided(
        x, size, [x.itemsize * s for s in stride]
    ),
    zero_dim=NEEDS_DIMENSION,
    forms="rigid",
)
op(
    "diagonal_copy",
    call(t(3, 4)),
    call(t(2, 3, 4), 1, 0, 2),
    call(t(0, 3)),
    ref=np.diagonal,
    zero_dim=NEEDS_DIMENSION,
)
op(
    "select_copy",
    call(t(3, 4), 1, 2),
    call(t(0, 4), 1, 2),
    ref=lambda x, dim, index: np.take(x, index, axis=dim),
    zero_dim=NEEDS_DIMENSION,
)
op(
    "slice_copy",
    call(t(5, 4), 0, 1, 4, 2),
    call(t(0, 4), 1, 2),
    ref=lambda x, dim=0, start=None, end=None, step=1: x[
        (slice(None),) * dim + (slice(start, end, step),)
    ],
    zero_dim=NEEDS_DIMENSION,
)
op(
    "view_as_real_copy",
    call(t(2, 3)),
    call(t()),
    call(t(0, 3)),
    ref=lambda x: np.stack([x.real, x.imag], -1),
    dtypes="c",
    result="real",
)
op(
    "view_as_complex_copy",
    call(t(3, 2)),
    call(t(0, 2)),
    ref=lambda x: x[..., 0] + 1j * x[..., 1],
    dtypes="f",
    result="complex",
    forms="rigid",
    zero_dim=NEEDS_DIMENSION,
)


def unfold(x: Array, dim: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return windows[(slice(None),) * dim + (slice(None, None, step),)]


op(
    "unfold_copy",
    call(t(7, 2), 0, 3, 2),
    call(t(2, 7), 1, 3, 1),
    call(t(0, 2), 1, 2, 1),
    call(t(), 0, 1, 1),
    ref=unfold,
)
op(
    "unbind_copy",
    call(t(3, 2)),
    call(t(2, 3), 1),
    call(t(2, 0)),
    ref=lambda x, dim=0: list(np.moveaxis(x, dim, 0)),
    zero_dim=NEEDS_DIMENSION,
)
op(
    "split_copy",
    call(t(5, 2), 2),
    call(t(2, 4), 2, 1),
    call(t(2, 0), 1),
    ref=lambda x, size, dim=0: np.split(x, range(size, x.shape[dim], size), dim),
    zero_dim=NEEDS_DIMENSION,
)
op(
    "split_with_sizes_copy",
    call(t(5, 2), (2, 3)),
    call(t(2, 4), (1, 3), 1),
    call(t(2, 0), (1, 1)),
    ref=lambda x, sizes, dim=0: np.split(x, np.cumsum(sizes)[:-1], dim),
    zero_dim=NEEDS_DIMENSION,
)
op(
    "view_copy",
    call(t(2, 6), (3, 4)),
    call(t(), (1, 1)),
    call(t(0, 3), (3, 0)),
    ref=lambda x, size: x.reshape(size),
    forms="rigid",
)
op(
    "permute_copy",
    call(t(2, 3, 4), (2, 0, 1)),
    call(t(), ()),
    call(t(0, 2), (1, 0)),
    ref=np.transpose,
)
op(
    "narrow_copy",
    call(t(5, 3), 0, 1, 3),
    call(t(5), 0, 5, 0),
    call(t(0, 3), 1, 0, 2),
    ref=lambda x, dim, start, length: np.take(x, range(start, start + length), axis=dim),
    zero_dim="it needs a dimension",
)


def fill_diagonal(x: Array, value: Any, wrap: bool = False) -> Array:
    result = x.copy()
    if x.size:
        np.fill_diagonal(result, value, wrap)
    return result


op(
    "fill_diagonal_",
    call(t(3, 4), 1),
    call(t(7, 3), 1, wrap=True),
    call(t(7, 3), 1),
    call(t(2, 2, 2), 0),
    call(t(3, 3), t()),
    call(t(0, 2), 1),
    ref=fill_diagonal,
    forms="mutating method-only",
    grad=False,
    zero_dim="it takes matrices",
)
