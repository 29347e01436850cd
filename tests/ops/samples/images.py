"""Samples of resizing, sampling at points, and windows as columns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .spatial import each, windows
from .spec import call, op, t

Array = Any


def im2col(x: Array, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    single = x.ndim == 3
    x = x[None] if single else x
    taken = windows(x, each(kernel_size, 2), stride, padding, dilation, 0.0)
    columns = taken.transpose(0, 1, 4, 5, 2, 3)
    columns = columns.reshape(len(x), np.prod(columns.shape[1:4]), np.prod(columns.shape[4:]))
    return columns[0] if single else columns


def col2im(columns: Array, output_size: Any, kernel_size: Any, dilation: Any, padding: Any,
           stride: Any) -> Array:  # fmt: skip
    """The adjoint of im2col, by the columns of unit images."""
    single = columns.ndim == 2
    columns = columns[None] if single else columns
    kernel = each(kernel_size, 2)
    channels = columns.shape[1] // (kernel[0] * kernel[1])
    result = np.zeros((len(columns), channels, *output_size))
    for c, y, x in itertools.product(*(range(n) for n in result.shape[1:])):
        unit = np.zeros((1, *result.shape[1:]))
        unit[0, c, y, x] = 1
        result[:, c, y, x] = (columns * im2col(unit, kernel, dilation, padding, stride)).sum((1, 2))
    return result[0] if single else result


def linear_weights(size: int, out: int, align_corners: bool) -> Array:
    """(out, size): how much each input counts in each output of linear interpolation."""
    weights = np.zeros((out, size))
    for i in range(out):
        if align_corners:
            place = i * (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            place = max((i + 0.5) * size / out - 0.5, 0.0)
        low = min(int(place), size - 1)
        weights[i, low] += 1 - (place - low)
        weights[i, min(low + 1, size - 1)] += place - low
    return weights


def interpolate(
    x: Array, size: Any, *, mode: str = "nearest", align_corners: bool = False
) -> Array:
    for axis, out in enumerate(each(size, x.ndim - 2), 2):
        n = x.shape[axis]
        if mode == "nearest":
            x = np.take(x, [i * n // out for i in range(out)], axis)
        else:
            weights = linear_weights(n, out, align_corners)
            x = np.moveaxis(np.tensordot(x, weights, (axis, 1)), -1, axis)
    return x


def cubic_share(distance: float) -> float:
    """The weight of a pixel in Keys' cubic convolution."""
    d, a = abs(distance), -0.75
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((d - 5) * d + 8) * d * a - 4 * a


def grid_sampler(x: Array, grid: Array, mode: int, padding: int, align_corners: bool) -> Array:
    """Linear (mode 0) or cubic sampling, with zeros outside."""
    rank = x.ndim - 2
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *at in np.ndindex(*grid.shape[:-1]):
        place = [
            ((c + 1) * (size - align_corners) - (not align_corners)) / 2
            for c, size in zip(grid[(n, *at)][::-1], x.shape[2:], strict=True)
        ]
        for corner in itertools.product((0, 1) if mode == 0 else (-1, 0, 1, 2), repeat=rank):
            index = [int(np.floor(p)) + k for p, k in zip(place, corner, strict=True)]
            if all(0 <= i < size for i, size in zip(index, x.shape[2:], strict=True)):
                apart = [p - i for p, i in zip(place, index, strict=True)]
                weight = np.prod([1 - abs(d) if mode == 0 else cubic_share(d) for d in apart])
                result[(n, slice(None), *at)] += weight * x[(n, slice(None), *index)]
    return result


def affine_grid(theta: Array, size: Any, align_corners: bool) -> Array:
    def positions(n: int) -> Array:
        return np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n) if n > 1 else [0.0]

    mesh = np.meshgrid(*(positions(n) for n in size[2:]), indexing="ij")
    base = np.stack([*mesh[::-1], np.ones(size[2:])], -1)
    return np.einsum("...j,nij->n...i", base, theta)


IMAGE = {"dtypes": "f", "zero_dim": "it takes images", "tolerance": 10}
op(
    "im2col",
    call(t(1, 2, 3, 4), (2, 3), (1, 1), (0, 0), (1, 1)),
    call(t(1, 4, 5), (2, 2), (2, 1), (1, 0), (2, 1)),
    call(t(0, 2, 3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
    ref=im2col,
    **{**IMAGE, "dtypes": "hfc"},
)
op(
    "col2im",
    call(t(1, 4, 6), (3, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
    call(t(4, 4), (3, 3), (2, 2), (1, 1), (1, 1), (2, 2)),
    call(t(0, 4, 4), (3, 3), (2, 2), (1, 1), (0, 0), (1, 1)),
    ref=col2im,
    **{**IMAGE, "dtypes": "hf"},
)
op(
    "interpolate",
    call(t(1, 2, 5), 3),
    call(t(1, 1, 3, 4), (5, 2)),
    call(t(1, 2, 4), 7, mode="linear"),
    call(t(1, 1, 3, 4), (5, 2), mode="bilinear"),
    call(t(1, 1, 2, 3), (3, 4), mode="bilinear", align_corners=True),
    call(t(1, 1, 2, 2, 2), (3, 1, 2), mode="trilinear"),
    call(t(0, 2, 4), 7, mode="linear"),
    ref=interpolate,
    where="nn.functional",
    **IMAGE,
)
PLACES = {"low": -1.4, "high": 1.4}
op(
    "grid_sampler grid_sampler_2d",
    call(t(1, 2, 3, 2), t(1, 2, 2, 2, **PLACES), 0, 0, False),
    call(t(1, 1, 2, 3), t(1, 2, 1, 2, **PLACES), 0, 0, True),
    call(t(1, 2, 3, 2), t(1, 0, 2, 2, **PLACES), 0, 0, False),
    call(t(1, 1, 3, 4), t(1, 2, 1, 2, **PLACES), 2, 0, False),
    ref=grid_sampler,
    **IMAGE,
)
op(
    "grid_sampler_3d",
    call(t(1, 1, 2, 3, 2), t(1, 2, 1, 2, 3, **PLACES), 0, 0, False),
    call(t(1, 1, 2, 2, 2), t(1, 0, 1, 2, 3, **PLACES), 0, 0, True),
    call(t(1, 1, 3, 2, 4), t(1, 1, 1, 2, 3, **PLACES), 2, 0, False),
    ref=grid_sampler,
    **IMAGE,
)
op(
    "affine_grid_generator",
    call(t(2, 2, 3), (2, 1, 2, 3), True),
    call(t(1, 2, 3), (1, 1, 1, 4), False),
    call(t(1, 3, 4), (1, 1, 2, 1, 2), False),
    ref=affine_grid,
    empty="PyTorch refuses",
    **IMAGE,
)
