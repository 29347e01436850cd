"""Samples of convolution and pooling over one, two and three dimensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .spec import call, op, t

Array = Any


def each(value: Any, count: int) -> tuple[int, ...]:
    """One number for every dimension, or one for each."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def windows(x: Array, size: Any, stride: Any, padding: Any, dilation: Any, fill: float) -> Array:
    """All windows of the last dimensions: the positions, then what lies in each window."""
    rank = len(size)
    stride, padding, dilation = (each(v, rank) for v in (stride, padding, dilation))
    widths = [(0, 0)] * (x.ndim - rank) + [(p, p) for p in padding]
    padded = np.pad(x, widths, constant_values=fill)
    span = tuple((s - 1) * d + 1 for s, d in zip(size, dilation, strict=True))
    axes = tuple(range(-rank, 0))
    view = np.lib.stride_tricks.sliding_window_view(padded, span, axis=axes)
    steps = tuple(slice(None, None, s) for s in stride)
    return view[(..., *steps, *(slice(None, None, d) for d in dilation))]


def convolution(x: Array, weight: Array, bias: Array | None = None, stride: Any = 1,
                padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Array:  # fmt: skip
    rank = weight.ndim - 2
    single = x.ndim == rank + 1
    x = x[None] if single else x
    taken = windows(x, weight.shape[2:], stride, padding, dilation, 0.0)
    inputs, outputs = x.shape[1] // groups, weight.shape[0] // groups
    axes = tuple(range(taken.ndim - rank, taken.ndim))
    parts = []
    for g in range(groups):
        some = taken[:, g * inputs : (g + 1) * inputs]
        kernel = weight[g * outputs : (g + 1) * outputs]
        product = np.tensordot(some, kernel, ((1, *axes), tuple(range(1, weight.ndim))))
        parts.append(np.moveaxis(product, -1, 1))
    result = np.concatenate(parts, 1)
    if bias is not None:
        result = result + bias.reshape(-1, *[1] * rank)
    return result[0] if single else result


def transposed(x: Array, weight: Array, bias: Array | None = None, stride: Any = 1,
               padding: Any = 0, output_padding: Any = 0, groups: int = 1,
               dilation: Any = 1) -> Array:  # fmt: skip
    """Every input element adds its multiple of the kernel to the output."""
    rank = weight.ndim - 2
    stride, padding, extra, dilation = (
        each(v, rank) for v in (stride, padding, output_padding, dilation)
    )
    kernel = weight.shape[2:]
    full = [(x.shape[2 + k] - 1) * stride[k] + (kernel[k] - 1) * dilation[k] + 1 + extra[k]
            for k in range(rank)]  # fmt: skip
    inputs, outputs = x.shape[1] // groups, weight.shape[1]
    result = np.zeros((x.shape[0], outputs * groups, *full))
    for position in itertools.product(*(range(n) for n in x.shape[2:])):
        for offset in itertools.product(*(range(n) for n in kernel)):
            at = tuple(p * s + o * d for p, s, o, d in
                       zip(position, stride, offset, dilation, strict=True))  # fmt: skip
            for g in range(groups):
                some = x[(slice(None), slice(g * inputs, (g + 1) * inputs), *position)]
                part = some @ weight[(slice(g * inputs, (g + 1) * inputs), slice(None), *offset)]
                result[(slice(None), slice(g * outputs, (g + 1) * outputs), *at)] += part
    cut = tuple(slice(p, n - p) for p, n in zip(padding, full, strict=True))
    result = result[(..., *cut)]
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def pooling(rank: int, take: Any, fill: float) -> Any:
    def pool(x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Array:
        size = each(kernel_size, rank)
        taken = windows(x, size, size if stride is None else stride, padding, 1, fill)
        return take(taken, axis=tuple(range(-rank, 0)))

    return pool


def adaptive(rank: int, take: Any) -> Any:
    def pool(x: Array, output_size: Any) -> Array:
        size = each(output_size, rank)
        result = np.zeros(x.shape[: x.ndim - rank] + size)
        for position in itertools.product(*(range(n) for n in size)):
            cut = []
            for k, n in enumerate(size):
                length = x.shape[x.ndim - rank + k]
                start, end = position[k] * length // n, -(-(position[k] + 1) * length // n)
                cut.append(slice(start, end))
            result[(..., *position)] = take(x[(..., *cut)], axis=tuple(range(-rank, 0)))
        return result

    return pool


SPATIAL = {"where": "nn.functional", "zero_dim": "it takes images", "dtypes": "f"}

op(
    "conv1d",
    call(t(2, 2, 6), t(3, 2, 3), t(3)),
    call(t(1, 2, 6), t(2, 1, 2), None, 2, 1, 2, 2),
    call(t(2, 5), t(1, 2, 3)),
    call(t(0, 2, 6), t(3, 2, 3), grad_=False),
    ref=convolution,
    tolerance=20,
    **SPATIAL,
)
op(
    "conv2d",
    call(t(1, 2, 4, 4), t(1, 2, 2, 2), t(1)),
    call(t(1, 1, 5, 5), t(1, 1, 3, 3), None, 2, 1),
    call(t(1, 2, 3, 4), t(2, 1, 2, 2), t(2), padding=(1, 0), groups=2),
    call(t(1, 5, 5), t(1, 1, 2, 2), stride=(2, 1), dilation=2),
    call(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4), grad_=False),
    call(t(0, 2, 4, 4), t(1, 2, 2, 2), t(1), grad_=False),
    ref=convolution,
    tolerance=20,
    covers="_convolution",
    **SPATIAL,
)
op(
    "conv3d",
    call(t(1, 1, 3, 3, 3), t(1, 1, 2, 2, 2), t(1)),
    call(t(1, 2, 3, 2, 2), t(2, 1, 2, 1, 2), None, 1, (1, 0, 0), 1, 2),
    call(t(0, 1, 3, 3, 3), t(1, 1, 2, 2, 2), grad_=False),
    ref=convolution,
    tolerance=20,
    **SPATIAL,
)
op(
    "conv_transpose1d",
    call(t(1, 2, 4), t(2, 2, 3), t(2)),
    call(t(1, 2, 3), t(2, 1, 2), None, 2, 1, 1, 2),
    ref=transposed,
    tolerance=20,
    empty="the reference has none",
    **SPATIAL,
)
op(
    "conv_transpose2d",
    call(t(1, 2, 2, 3), t(2, 1, 2, 2), t(1)),
    call(t(1, 1, 3, 3), t(1, 2, 3, 3), None, 2, 1, 1),
    call(t(1, 2, 2, 2), t(2, 1, 2, 2), stride=2, groups=2, dilation=(1, 2)),
    ref=transposed,
    tolerance=20,
    empty="the reference has none",
    **SPATIAL,
)
op(
    "conv_transpose3d",
    call(t(1, 1, 2, 2, 2), t(1, 1, 2, 2, 1), t(1)),
    call(t(1, 1, 2, 1, 2), t(1, 1, 2, 2, 2), None, 2),
    ref=transposed,
    tolerance=20,
    empty="the reference has none",
    **SPATIAL,
)

D = {"distinct": True}
op(
    "max_pool1d",
    call(t(1, 2, 7, **D), 3),
    call(t(2, 6, **D), 2, 1, 1),
    ref=pooling(1, np.max, -np.inf),
    covers="max_pool1d_with_indices",
    empty="PyTorch refuses",
    **SPATIAL,
)
op(
    "max_pool2d",
    call(t(1, 1, 4, 5, **D), 2),
    call(t(1, 2, 4, 4, **D), 3, 1, 1),
    call(t(1, 5, 5, **D), (2, 3), (1, 2)),
    call(t(0, 2, 4, 4), 2, grad_=False),
    ref=pooling(2, np.max, -np.inf),
    covers="max_pool2d_with_indices",
    **SPATIAL,
)
op(
    "max_pool3d",
    call(t(1, 1, 2, 3, 4, **D), 2),
    call(t(1, 2, 2, 3, **D), (1, 2, 2), 1),
    ref=pooling(3, np.max, -np.inf),
    covers="max_pool3d_with_indices",
    empty="PyTorch refuses",
    **SPATIAL,
)
op(
    "avg_pool1d",
    call(t(1, 2, 7), 3),
    call(t(2, 6), 2, 1, 1),
    ref=pooling(1, np.mean, 0.0),
    tolerance=4,
    empty="the other ranks show it",
    **SPATIAL,
)
op(
    "avg_pool2d",
    call(t(1, 1, 4, 5), 2),
    call(t(1, 2, 4, 4), 3, 1, 1),
    call(t(0, 2, 4, 4), 2, grad_=False),
    ref=pooling(2, np.mean, 0.0),
    tolerance=4,
    **SPATIAL,
)
op(
    "avg_pool3d",
    call(t(1, 1, 2, 3, 4), 2),
    call(t(1, 2, 2, 3), (1, 2, 2), 1),
    ref=pooling(3, np.mean, 0.0),
    tolerance=4,
    empty="the other ranks show it",
    **SPATIAL,
)
for rank, shape in ((1, (1, 2, 5)), (2, (1, 1, 4, 5)), (3, (1, 1, 2, 3, 4))):
    op(
        f"adaptive_avg_pool{rank}d",
        call(t(*shape), 2),
        call(t(*shape[1:]), (1,) * rank),
        ref=adaptive(rank, np.mean),
        tolerance=4,
        empty="PyTorch's ranks differ",
        **SPATIAL,
    )
    op(
        f"adaptive_max_pool{rank}d",
        call(t(*shape, **D), 2),
        call(t(*shape[1:], **D), (1,) * rank),
        ref=adaptive(rank, np.max),
        empty="PyTorch's ranks differ",
        **SPATIAL,
    )


def pixel_shuffle(x: Array, r: int) -> Array:
    *outer, c, h, w = x.shape
    parts = x.reshape(*outer, c // (r * r), r, r, h, w)
    n = len(outer)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return parts.transpose(order).reshape(*outer, c // (r * r), h * r, w * r)


def pixel_unshuffle(x: Array, r: int) -> Array:
    *outer, c, h, w = x.shape
    n = len(outer)
    parts = x.reshape(*outer, c, h // r, r, w // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return parts.transpose(order).reshape(*outer, c * r * r, h // r, w // r)


op(
    "pixel_shuffle",
    call(t(1, 4, 2, 3), 2),
    call(t(4, 1, 2), 2),
    call(t(0, 4, 2, 2), 2),
    ref=pixel_shuffle,
    **SPATIAL,
)
op(
    "pixel_unshuffle",
    call(t(1, 1, 4, 6), 2),
    call(t(1, 2, 4), 2),
    call(t(0, 1, 4, 4), 2),
    ref=pixel_unshuffle,
    **SPATIAL,
)
op(
    "channel_shuffle native_channel_shuffle",
    call(t(1, 4, 2), 2),
    call(t(2, 6, 1, 1), 3),
    ref=lambda x, g: np.swapaxes(x.reshape(x.shape[0], g, -1, *x.shape[2:]), 1, 2).reshape(x.shape),
    empty="PyTorch refuses",
    where="nn.functional",
    zero_dim="it takes channels",
    dtypes="f",
)


def any_convolution(x: Array, weight: Array, bias: Any, stride: Any, padding: Any, dilation: Any,
                    is_transposed: bool, output_padding: Any, groups: int) -> Array:  # fmt: skip
    if is_transposed:
        return transposed(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return convolution(x, weight, bias, stride, padding, dilation, groups)


op(
    "convolution",
    call(t(1, 1, 3, 3), t(1, 1, 2, 2), t(1), (1, 1), (0, 1), (1, 1), False, (0, 0), 1),
    call(t(1, 2, 3), t(2, 1, 2), None, (2,), (0,), (1,), True, (1,), 2),
    ref=any_convolution,
    tolerance=20,
    empty="the reference has none",
    **{**SPATIAL, "where": ""},
)
op(
    "conv_tbc",
    call(t(3, 2, 2), t(2, 2, 1), t(1)),
    call(t(3, 1, 2), t(3, 2, 2), t(2), 1),
    ref=lambda x, w, b, pad=0: convolution(
        x.transpose(1, 2, 0), w.transpose(2, 1, 0), b, 1, pad
    ).transpose(2, 0, 1),
    tolerance=20,
    empty="PyTorch refuses",
    **{**SPATIAL, "where": ""},
)
