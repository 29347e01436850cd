"""Samples of losses that Python has in nn.functional only: of margins, of variances, weighted."""

from __future__ import annotations

from typing import Any

import numpy as np

from .losses import LOSS, POSITIVE, SIGNS, reduced
from .spec import call, op, t

Array = Any


def log_sigmoid(x: Array) -> Array:
    return -np.logaddexp(0, -x)


def gaussian(
    x: Array, y: Array, var: Array, full: bool = False, eps: float = 1e-6, reduction: int = 1
) -> Array:
    var = np.asarray(var)
    var = np.maximum(var[..., None] if var.ndim == x.ndim - 1 else var, eps)
    loss = 0.5 * (np.log(var) + (x - y) ** 2 / var)
    return reduced(loss + 0.5 * np.log(2 * np.pi) if full else loss, reduction)


def weighted(loss: Array, weight: Array, reduction: int = 1, average: bool = True) -> Array:
    if average and reduction == 1:
        return (loss * weight).sum() / weight.sum()
    return reduced(loss * weight, reduction)


def multi_margin(
    x: Array, y: Array, p: int = 1, margin: float = 1, weight: Any = None, reduction: int = 1
) -> Array:
    rows, classes = x.reshape(-1, x.shape[-1]), y.reshape(-1)
    losses = []
    for row, k in zip(rows, classes, strict=True):
        terms = np.maximum(0, margin - row[k] + row) ** p * (1 if weight is None else weight[k])
        losses.append((terms.sum() - terms[k]) / len(row))
    return reduced(np.array(losses).reshape(y.shape), reduction)


def multilabel_margin(x: Array, y: Array, reduction: int = 1) -> Array:
    losses = []
    for row, labels in zip(np.atleast_2d(x), np.atleast_2d(y), strict=True):
        end = list(labels).index(-1) if -1 in labels else len(labels)
        named = list(labels[:end])
        others = [k for k in range(len(row)) if k not in named]
        losses.append(sum(max(0, 1 - row[k] + row[j]) for k in named for j in others) / len(row))
    return reduced(np.array(losses).reshape(y.shape[:-1]), reduction)


def soft_multilabel(x: Array, y: Array, weight: Any = None, reduction: int = 1) -> Array:
    loss = -(y * log_sigmoid(x) + (1 - y) * log_sigmoid(-x))
    return reduced((loss if weight is None else loss * weight).mean(-1), reduction)


def triplet(
    near: Array, far: Array, between: Any = None, margin: float = 1.0, reduction: int = 1
) -> Array:
    far = far if between is None else np.minimum(far, between)
    return reduced(np.maximum(0, margin + near - far), reduction)


CORE: dict[str, Any] = {**LOSS, "where": "_C", "forms": "data-dependent"}
op(
    "_gaussian_nll_loss",
    call(t(3, 2), t(3, 2), t(3, 2, **POSITIVE)),
    call(t(3, 2), t(3, 2), t(3, **POSITIVE), True, 0.5, 0),
    call(t(3, 2), t(3, 2), 0.25, False, 1e-6, 2),
    call(t(), t(), t(**POSITIVE)),
    ref=gaussian,
    **CORE,
)
op(
    "_weighted_loss",
    call(t(3, 2), t(3, 2, **POSITIVE)),
    call(t(3), t(3), 1, False),
    call(t(), t(), 2),
    ref=weighted,
    **CORE,
)
op(
    "_soft_margin_loss",
    call(t(3, 2), t(3, 2)),
    call(t(3), t(3, **SIGNS), 0),
    call(t(), t(values=(-1.0,), differentiable=False), 2),
    ref=lambda x, y, reduction=1: reduced(np.log1p(np.exp(-y * x)), reduction),
    **CORE,
)
op(
    "_multilabel_soft_margin_loss",
    call(t(3, 2), t(3, 2)),
    call(t(3, 4), t(3, 4), t(4), 0),
    call(t(3), t(3), None, 2),
    ref=soft_multilabel,
    zero_dim="it takes vectors",
    **CORE,
)
CLASSES = t(3, dtype="int64", values=(1, 0, 1))
op(
    "_multi_margin_loss",
    call(t(3, 2), CLASSES),
    call(t(3, 2), CLASSES, 2, 0.5, t(2), 0),
    call(t(4), t(dtype="int64", values=(2,)), 1, 1, None, 2),
    ref=multi_margin,
    zero_dim="it takes vectors",
    **CORE,
)
LABELS = t(2, 3, dtype="int64", values=(2, -1, 0, 1, 0, -1))
op(
    "_multilabel_margin_loss",
    call(t(2, 3), LABELS),
    call(t(3), t(3, dtype="int64", values=(0, 2, -1)), 0),
    call(t(2, 3), LABELS, 2),
    ref=multilabel_margin,
    zero_dim="it takes vectors",
    **CORE,
)
op(
    "_triplet_margin",
    call(t(3), t(3)),
    call(t(3), t(3), t(3), 0.5, 0),
    call(t(), t(), None, 2.0, 2),
    ref=triplet,
    **CORE,
)
