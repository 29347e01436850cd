"""Samples of what Python has in nn.functional only, and the core computes as compositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import call, ints, op, t

Array = Any
CORE: dict[str, Any] = {"where": "_C", "dtypes": "f", "tolerance": 20}


def softmax(x: Array, dim: int = -1) -> Array:
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def normalize(x: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    length = (np.abs(x) ** p).sum(dim, keepdims=True) ** (1 / p)
    return x / np.maximum(length, eps)


def response_norm(
    x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    padded = np.pad(x**2, [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (x.ndim - 2))
    mean = sum(padded[:, i : i + x.shape[1]] for i in range(size)) / size
    return x / (mean * alpha + k) ** beta


def lp_pool(x: Array, p: float, size: int, stride: Any = None, ceil_mode: bool = False) -> Array:
    starts = range(0, x.shape[-1] - size + 1, stride or size)
    windows = np.stack([x[..., i : i + size] for i in starts], -2)
    sums = (windows**p).sum(-1)
    return np.maximum(sums, 0) ** (1 / p)


def unpool(x: Array, indices: Array, size: Any, stride: Any = None, *rest: Any) -> Array:
    width = (x.shape[-1] - 1) * (stride or size)[0] + size[0]
    out = np.zeros((*x.shape[:-1], width), x.dtype)
    np.put_along_axis(out, indices, x, -1)
    return out


op(
    "_normalize",
    call(t(3, 4)),
    call(t(2, 3, 4), 3.0, -1, 0.5),
    call(t(0, 3)),
    ref=normalize,
    zero_dim="it takes vectors",
    **CORE,
)
op(
    "_local_response_norm",
    call(t(2, 5, 3), 3),
    call(t(2, 4, 2, 2), 2, 0.5, 0.5, 2.0),
    call(t(0, 2, 3), 3),
    ref=response_norm,
    zero_dim="it takes channels",
    **CORE,
)
op(
    "_lp_pool1d",
    call(t(2, 3, 6, low=0.5), 2, 2),
    call(t(3, 7, low=0.5), 3.0, 3, 2),
    ref=lp_pool,
    empty="a window needs elements",
    zero_dim="it takes channels",
    covers="_lp_pool2d _lp_pool3d",
    **CORE,
)
op(
    "_max_unpool1d",
    call(t(1, 2, 2), t(1, 2, 2, dtype="int64", values=(1, 2, 0, 3)), (2,)),
    call(t(2, 0), ints(2, 0, high=1), (2,), (1,), 0, (1,), ref_=lambda *_: np.zeros((2, 1))),
    ref=unpool,
    zero_dim="it takes channels",
    forms="data-dependent",
    covers="_max_unpool2d _max_unpool3d",
    **CORE,
)
op(
    "_interpolate",
    call(t(1, 2, 3), (6,), (), ref_=lambda x, *_: x.repeat(2, -1)),
    call(t(1, 2, 4), None, (0.5,), "area", ref_=lambda x, *_: (x[..., ::2] + x[..., 1::2]) / 2),
    call(t(1, 1, 2, 3), None, (2.0, 2.0), "bilinear", False, True),
    call(t(0, 2, 3), (6,), (), ref_=lambda x, *_: x.repeat(2, -1)),
    ref=None,
    zero_dim="it takes channels",
    **CORE,
)
op(
    "_nn_embedding",
    call(ints(3, 2, high=4), t(4, 3), ref_=lambda i, w: w[i]),
    call(ints(3, high=4), t(4, 3), -2, grad_=False, ref_=lambda i, w, _: w[i]),
    call(ints(high=4), t(4, 3), ref_=lambda i, w: w[i]),
    call(ints(0, high=4), t(4, 3), ref_=lambda i, w: w[i]),
    ref=None,
    forms="data-dependent",
    **CORE,
)
op(
    "_nn_embedding_bag",
    call(ints(3, 2, high=4), t(4, 3), ref_=lambda i, w: w[i].mean(1)),
    call(
        ints(2, 2, high=4), t(4, 3), None, None, 2.0, False, "sum", False, t(2, 2),
        ref_=lambda i, w, *rest: (w[i] * rest[-1][..., None]).sum(1),
    ),
    call(ints(2, 2, high=4), t(4, 0), ref_=lambda i, w: w[i].mean(1)),
    ref=None,
    zero_dim="it takes bags",
    forms="data-dependent",
    **CORE,
)  # fmt: skip
op(
    "_tanhshrink",
    call(t(3, 4)),
    call(t()),
    call(t(0, 3)),
    ref=lambda x: x - np.tanh(x),
    **CORE,
)
op(
    "_softsign",
    call(t(3, 4, nonzero=True)),
    call(t(nonzero=True)),
    call(t(0, 3)),
    ref=lambda x: x / (1 + np.abs(x)),
    **CORE,
)
op(
    "_softmin",
    call(t(3, 4), -1),
    call(t(3, 4), 0),
    call(t(), 0, ref_=lambda x, _: np.ones(())),
    call(t(0, 3), 1),
    ref=lambda x, dim: softmax(-x, dim),
    **CORE,
)


def attention(
    q: Array, k: Array, v: Array, width: int, heads: int, weight: Array, bias: Any, *rest: Any
) -> Any:
    parts = zip((q, k, v), np.split(weight, 3), np.split(bias, 3), strict=True)
    projected = [x @ w.T + b for x, w, b in parts]
    q, k, v = (x.reshape(len(x), -1, heads, width // heads) for x in projected)
    scores = np.einsum("qbhd,kbhd->bhqk", q, k) / np.sqrt(width // heads)
    weights = softmax(scores)
    seen = np.einsum("bhqk,kbhd->qbhd", weights, v).reshape(len(q), -1, width)
    return seen @ rest[3].T, weights.mean(1)


op(
    "_multi_head_attention",
    call(
        t(2, 1, 4), t(3, 1, 4), t(3, 1, 4), 4, 2, t(12, 4), t(12), (), False, 0.0, t(4, 4), None,
        None, True, None, (),
    ),
    ref=attention,
    empty="attention needs keys",
    zero_dim="it takes steps",
    **CORE,
)  # fmt: skip
