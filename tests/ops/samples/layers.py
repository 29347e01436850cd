"""Samples of what layers are made of: linear maps, normalisation, losses, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from .nn import log_softmax
from .spec import bools, call, ints, op, t

Array = Any


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    result = np.matmul(x, weight.T)
    return result if bias is None else result + bias


def batch_norm(x: Array, mean: Any, var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5
               ) -> Array:  # fmt: skip
    shape = (1, -1, *[1] * (x.ndim - 2))
    if training:
        over = (0, *range(2, x.ndim))
        mean, var = x.mean(axis=over), x.var(axis=over)
    result = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps)
    if weight is not None:
        result = result * weight.reshape(shape) + bias.reshape(shape)
    return result


def reduced(loss: Array, reduction: str) -> Array:
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](loss)


def nll_loss(x: Array, target: Array, weight: Any = None, ignore_index: int = -100,
             reduction: str = "mean") -> Array:  # fmt: skip
    weight = np.ones(x.shape[1]) if weight is None else weight
    keep = target != ignore_index
    safe = np.where(keep, target, 0)
    picked = -np.take_along_axis(x, safe[:, None], 1)[:, 0]
    scale = np.where(keep, weight[safe], 0)
    loss = picked * scale
    return loss.sum() / scale.sum() if reduction == "mean" else reduced(loss, reduction)


def cross_entropy(x: Array, target: Array, weight: Any = None, ignore_index: int = -100,
                  reduction: str = "mean", label_smoothing: float = 0.0) -> Array:  # fmt: skip
    logs = log_softmax(x, 1)
    if target.dtype.kind == "f":
        return reduced(-(logs * target).sum(1), reduction)
    if not label_smoothing:
        return nll_loss(logs, target, weight, ignore_index, reduction)
    hard = nll_loss(logs, target, None, ignore_index, reduction)
    soft = reduced(-logs.sum(1), reduction)
    return (1 - label_smoothing) * hard + label_smoothing / x.shape[1] * soft


IN_NN = {"where": "nn.functional", "zero_dim": "it takes a batch"}

op(
    "linear",
    call(t(2, 3), t(4, 3), t(4)),
    call(t(2, 3), t(4, 3)),
    call(t(3), t(4, 3), t(4)),
    call(t(2, 2, 3), t(4, 3), t(4)),
    call(t(0, 3), t(4, 3), t(4)),
    call(t(3), t(3)),
    ref=linear,
    dtypes="hfc",
    tolerance=20,
    **IN_NN,
)
op(
    "bilinear",
    call(t(2, 3), t(2, 4), t(5, 3, 4), t(5)),
    call(t(2, 3), t(2, 2), t(1, 3, 2)),
    call(t(0, 3), t(0, 2), t(1, 3, 2)),
    ref=lambda x, y, w, b=0.0: np.einsum("ni,oij,nj->no", x, w, y) + b,
    dtypes="f",
    tolerance=20,
    **IN_NN,
)
op(
    "batch_norm",
    call(t(3, 2), t(2, differentiable=False), t(2, low=0.5, differentiable=False), t(2), t(2)),
    call(t(2, 2, 2, 2), None, None, t(2), t(2), True),
    call(t(4, 2), None, None, training=True),
    call(t(2, 2, 3), t(2, differentiable=False), t(2, low=0.5, differentiable=False), None, None),
    ref=batch_norm,
    dtypes="f",
    tolerance=50,
    empty="a batch of none has no mean",
    forms="updates-statistics",
    **IN_NN,
)
op(
    "layer_norm",
    call(t(3, 4), (4,)),
    call(t(2, 3, 2), (3, 2), t(3, 2), t(3, 2)),
    call(t(0, 4), (4,)),
    ref=lambda x, shape, weight=1.0, bias=0.0, eps=1e-5: (
        (x - x.mean(axis=tuple(range(-len(shape), 0)), keepdims=True))
        / np.sqrt(x.var(axis=tuple(range(-len(shape), 0)), keepdims=True) + eps)
        * weight
        + bias
    ),
    dtypes="f",
    tolerance=50,
    **IN_NN,
)
op(
    "embedding",
    call(ints(2, 3, high=5), t(5, 4)),
    call(ints(high=5), t(5, 4)),
    call(ints(0, high=5), t(5, 4), grad_=False),
    ref=lambda index, weight: weight[index],
    dtypes="hf",
    covers="embedding_renorm_",
    where="nn.functional",
)
op(
    "one_hot",
    call(ints(4, high=3), 3),
    call(ints(2, 2, high=3), num_classes=5),
    call(ints(high=3), 3),
    call(ints(0, high=3), 3),
    ref=lambda index, num_classes: np.eye(num_classes, dtype=np.int64)[index],
    dtypes="int64",
    where="nn.functional",
    forms="data-dependent",
    grad=False,
)
op(
    "nll_loss",
    call(t(3, 4), ints(3, high=4)),
    call(t(3, 4), ints(3, high=4), reduction="sum"),
    call(t(3, 4), ints(3, high=4), t(4, low=0.5, differentiable=False), reduction="none"),
    call(t(3, 4), t(3, dtype="int64", values=(1, -100, 2))),
    call(t(0, 4), ints(0, high=4), reduction="sum"),
    ref=nll_loss,
    dtypes="f",
    covers="nll_loss_nd nll_loss2d",
    **IN_NN,
)
op(
    "cross_entropy",
    call(t(3, 4), ints(3, high=4)),
    call(t(3, 4), ints(3, high=4), reduction="sum"),
    call(t(3, 4), ints(3, high=4), t(4, low=0.5, differentiable=False), reduction="none"),
    call(t(3, 4), t(3, dtype="int64", values=(1, 3, 1)), ignore_index=3),
    call(t(3, 4), ints(3, high=4), label_smoothing=0.2),
    call(t(3, 4), t(3, 4, low=0.1, high=0.5)),
    call(t(0, 4), ints(0, high=4), reduction="sum"),
    ref=cross_entropy,
    dtypes="f",
    tolerance=10,
    covers="cross_entropy_loss",
    **IN_NN,
)
op(
    "mse_loss",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(3), reduction="sum"),
    call(t(), t(), reduction="none"),
    call(t(0, 2), t(0, 2), reduction="sum"),
    ref=lambda x, y, reduction="mean": reduced((x - y) ** 2, reduction),
    dtypes="f",
    tolerance=10,
    where="nn.functional",
)
op(
    "l1_loss",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(3), reduction="sum"),
    call(t(), t(), reduction="none"),
    call(t(0, 2), t(0, 2), reduction="sum"),
    ref=lambda x, y, reduction="mean": reduced(np.abs(x - y), reduction),
    dtypes="f",
    tolerance=10,
    where="nn.functional",
)
op(
    "binary_cross_entropy_with_logits",
    call(t(3, 4), t(3, 4, low=0, high=1)),
    call(t(3), t(3, low=0, high=1), reduction="sum"),
    call(t(), t(low=0, high=1)),
    call(t(0, 2), t(0, 2), reduction="sum"),
    ref=lambda x, y, reduction="mean": reduced(
        np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x))), reduction
    ),
    dtypes="f",
    tolerance=10,
    where="nn.functional",
)
op(
    "pad",
    call(t(2, 3), (1, 2)),
    call(t(1, 2, 3), (1, 1), mode="reflect", ref_=lambda x, p, mode: np.pad(
        x, [(0, 0), (0, 0), p], mode)),
    call(t(1, 2, 3), (1, 2), mode="replicate", ref_=lambda x, p, mode: np.pad(
        x, [(0, 0), (0, 0), p], "edge")),
    call(t(0, 2), (1, 1)),
    ref=lambda x, p: np.pad(x, [(0, 0)] * (x.ndim - 1) + [p]),
    dtypes="f",
    **IN_NN,
)  # fmt: skip
op(
    "cosine_similarity",
    call(t(3, 4, nonzero=True), t(3, 4, nonzero=True)),
    call(t(0, 2), t(0, 2)),
    ref=lambda x, y, dim=1: (
        np.sum(x * y, dim) / (np.sqrt(np.sum(x * x, dim)) * np.sqrt(np.sum(y * y, dim)))
    ),
    dtypes="f",
    tolerance=10,
    **IN_NN,
)
op(
    "pairwise_distance",
    call(t(3, 4), t(3, 4)),
    call(t(3, 4), t(4), 1.0),
    call(t(0, 2), t(0, 2)),
    ref=lambda x, y, p=2.0, eps=1e-6: np.sum(np.abs(x - y + eps) ** p, -1) ** (1 / p),
    dtypes="f",
    tolerance=10,
    **IN_NN,
)


def normalised(x: Array, over: tuple[int, ...], eps: float) -> Array:
    return (x - x.mean(axis=over, keepdims=True)) / np.sqrt(x.var(axis=over, keepdims=True) + eps)


def group_norm(x: Array, groups: int, weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Array:  # fmt: skip
    grouped = x.reshape(x.shape[0], groups, -1)
    result = normalised(grouped, (2,), eps).reshape(x.shape)
    shape = (1, -1, *[1] * (x.ndim - 2))
    return result if weight is None else result * weight.reshape(shape) + bias.reshape(shape)


op(
    "group_norm",
    call(t(2, 4, 2), 2),
    call(t(2, 4), 4, t(4), t(4), grad_=False),
    call(t(1, 4, 2), 2, t(4), t(4)),
    ref=group_norm,
    dtypes="f",
    tolerance=50,
    empty="a group of none has no mean",
    **IN_NN,
)
op(
    "instance_norm",
    call(t(2, 2, 3)),
    call(t(1, 2, 2, 2), weight=t(2), bias=t(2)),
    ref=lambda x, weight=None, bias=None: group_norm(x, x.shape[1], weight, bias),
    dtypes="f",
    tolerance=50,
    empty="an instance of none has no mean",
    **IN_NN,
)
op(
    "rms_norm",
    call(t(3, 4), (4,), eps=1e-5),
    call(t(2, 3), (3,), t(3), 1e-3),
    call(t(0, 4), (4,), eps=1e-5),
    ref=lambda x, shape, weight=1.0, eps=0.0: (
        x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight
    ),
    dtypes="f",
    tolerance=50,
    **IN_NN,
)
op(
    "binary_cross_entropy",
    call(t(3, 4, low=0.1, high=0.9), t(3, 4, low=0.1, high=0.9)),
    call(t(3, low=0.1, high=0.9), t(3, low=0.1, high=0.9), reduction="sum"),
    call(t(low=0.1, high=0.9), t(low=0.1, high=0.9)),
    call(t(0, 2), t(0, 2), reduction="sum"),
    ref=lambda x, y, reduction="mean": reduced(
        -(y * np.log(x) + (1 - y) * np.log(1 - x)), reduction
    ),
    dtypes="f",
    tolerance=10,
    where="nn.functional",
)
op(
    "smooth_l1_loss huber_loss",
    call(t(3, 4), t(3, 4)),
    call(t(3), t(3), reduction="sum"),
    call(t(), t(), reduction="none"),
    call(t(0, 2), t(0, 2), reduction="sum"),
    ref=lambda x, y, reduction="mean": reduced(
        np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5), reduction
    ),
    dtypes="f",
    tolerance=10,
    where="nn.functional",
)


def attention(q: Array, k: Array, v: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
              is_causal: bool = False, *, scale: float | None = None,
              enable_gqa: bool = False) -> Array:  # fmt: skip
    if enable_gqa:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = np.tril(np.ones(scores.shape[-2:], bool))
    if attn_mask is not None and attn_mask.dtype == bool:
        attn_mask = np.where(attn_mask, 0.0, -np.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    return e / np.maximum(e.sum(-1, keepdims=True), 1e-30) @ v


op(
    "scaled_dot_product_attention",
    call(t(1, 1, 2, 2), t(1, 1, 3, 2), t(1, 1, 3, 2)),
    call(t(3, 2), t(3, 2), t(3, 2), is_causal=True),
    call(t(2, 2, 2), t(2, 2), t(2, 1), bools(2, 2)),
    call(t(2, 1, 2), t(1, 2, 2), t(2, 2, 2), t(1, 2, differentiable=False), scale=0.5),
    call(t(4, 1, 2), t(2, 2, 2), t(2, 2, 2), enable_gqa=True),
    call(t(1, 2, 70, 8), t(1, 2, 600, 8), t(1, 2, 600, 8), grad_=False, dtypes_="f"),
    call(t(0, 2, 2), t(0, 3, 2), t(0, 3, 2)),
    ref=attention,
    dtypes="hf",
    tolerance=20,
    zero_dim="it takes matrices",
    where="nn.functional",
)
