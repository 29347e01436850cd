"""Samples of bags of embeddings, and of losses of pairs, triples and sequences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .spec import call, ints, op, t

Array = Any


def reduced(loss: Array, reduction: int) -> Array:
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


def bags(table: Array, indices: Array, offsets: Array, scale_grad_by_freq: bool = False,
         mode: int = 0, sparse: bool = False, weights: Any = None, include_last: bool = False,
         padding_idx: int | None = None) -> Any:  # fmt: skip
    ends = list(offsets[1:]) + ([] if include_last else [len(indices)])
    results, bag_of, sizes, chosen = [], np.zeros(len(indices), int), [], []
    for bag, (start, end) in enumerate(zip(offsets[: len(ends)], ends, strict=True)):
        kept = [i for i in range(start, end) if indices[i] != padding_idx]
        rows = table[indices[kept]] * (1 if weights is None else weights[kept][:, None])
        bag_of[start:end] = bag
        sizes.append(len(kept) if mode else 0)  # the bags of a sum are not counted
        take = (np.sum, np.mean, np.max)[mode]
        results.append(take(rows, 0) if kept else np.zeros(table.shape[1]))
        first = rows.argmax(0) if kept else []
        chosen.append(indices[kept][first] if kept else np.zeros(table.shape[1], int))
    return (
        np.stack(results),
        bag_of,
        np.array(sizes),
        np.stack(chosen) if mode == 2 else np.array(sizes),
    )


OFFSETS = t(3, dtype="int64", values=(0, 2, 2))
op(
    "embedding_bag",
    call(t(4, 2), ints(5, high=4), OFFSETS),
    call(t(4, 2), ints(5, high=4), OFFSETS, True, 1, grad_=False),
    call(t(4, 2, distinct=True), ints(5, high=4), OFFSETS, False, 2),
    call(t(4, 2), ints(5, high=4), OFFSETS, False, 0, False, t(5), False, 1),
    call(t(4, 2), ints(2, high=4), OFFSETS, False, 1, False, None, True),
    call(t(4, 0), ints(5, high=4), OFFSETS),
    call(t(4, 83), ints(5, high=4), OFFSETS, False, 0, False, t(5), False, 1, grad_=False),
    ref=bags,
    dtypes="f",
    result="any",
    tolerance=4,
    zero_dim="it takes a table",
    forms="data-dependent",
)


def ctc(x: Array, targets: Array, inputs: Any, lengths: Any, blank: int = 0, reduction: int = 0,
        zero_infinity: bool = False) -> Array:  # fmt: skip
    """The sum over all labellings of each sample's steps, one by one."""
    losses, start = [], 0
    for n, (steps, length) in enumerate(zip(inputs, lengths, strict=True)):
        wanted = list(targets[n, :length] if targets.ndim == 2 else targets[start:][:length])
        start += length
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=steps):
            if [k for k, _ in itertools.groupby(path) if k != blank] == wanted:
                total += math.exp(sum(x[time, n, k] for time, k in enumerate(path)))
        losses.append(-math.log(total))
    found = np.array(losses)
    if reduction == 1:
        return (found / np.maximum(lengths, 1)).mean()
    return reduced(found, reduction)


LABELS = t(2, 2, dtype="int64", values=(1, 2, 1, 1))
op(
    "ctc_loss",
    call(t(4, 2, 3), LABELS, (4, 3), (2, 2)),
    call(t(4, 2, 3), LABELS, (4, 3), (2, 1), 0, 1),
    call(t(3, 2, 3), t(3, dtype="int64", values=(1, 2, 1)), (3, 3), (2, 1), 0, 2, True),
    ref=ctc,
    # Its gradient takes log-probabilities to be the results of log_softmax.
    grad=False,
    dtypes="f",
    tolerance=20,
    empty="a loss needs samples",
    forms="data-dependent",
    zero_dim="it takes sequences",
)


def kl_div(x: Array, y: Array, reduction: int = 0, *, log_target: bool = False) -> Array:
    return reduced(np.exp(y) * (y - x) if log_target else y * (np.log(y) - x), reduction)


def poisson(x: Array, y: Array, log_input: bool, full: bool, eps: float, reduction: int) -> Array:
    loss = np.exp(x) - y * x if log_input else x - y * np.log(x + eps)
    if full:
        stirling = y * np.log(y) - y + 0.5 * np.log(2 * np.pi * y)
        loss = loss + np.where(y <= 1, 0, stirling)
    return reduced(loss, reduction)


def hinge(x: Array, y: Array, margin: float = 1.0, reduction: int = 0) -> Array:
    return reduced(np.where(y == 1, x, np.maximum(0, margin - x)), reduction)


def ranking(a: Array, b: Array, y: Array, margin: float = 0.0, reduction: int = 0) -> Array:
    return reduced(np.maximum(0, -y * (a - b) + margin), reduction)


def cosine(a: Array, b: Array, y: Array, margin: float = 0.0, reduction: int = 0) -> Array:
    cos = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return reduced(np.where(y == 1, 1 - cos, np.maximum(0, cos - margin)), reduction)


def triplet(a: Array, p: Array, n: Array, margin: float = 1.0, power: float = 2.0,
            eps: float = 1e-6, swap: bool = False, reduction: int = 0) -> Array:  # fmt: skip
    def distance(x: Array, y: Array) -> Array:
        return (np.abs(x - y + eps) ** power).sum(-1) ** (1 / power)

    far = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
    return reduced(np.maximum(0, margin + distance(a, p) - far), reduction)


LOSS = {"dtypes": "f", "tolerance": 10, "empty": "the mean of nothing is no number"}
POSITIVE = {"low": 0.1, "high": 3.0}
SIGNS = {"values": (1.0, -1.0, 1.0), "differentiable": False}
op(
    "kl_div",
    call(t(3, 2), t(3, 2, **POSITIVE)),
    call(t(3), t(3), 0, log_target=True),
    call(t(), t(**POSITIVE), 2),
    ref=kl_div,
    **LOSS,
)
op(
    "poisson_nll_loss",
    call(t(3, 2), t(3, 2, **POSITIVE, differentiable=False), True, True, 1e-8, 1),
    call(t(3, **POSITIVE), t(3, **POSITIVE), False, False, 1e-8, 0),
    call(t(), t(**POSITIVE), True, False, 1e-8, 2),
    ref=poisson,
    **LOSS,
)
op(
    "hinge_embedding_loss",
    call(t(3), t(3, **SIGNS), 0.5),
    call(t(2, 3), t(3, **SIGNS), 1.0, 0),
    call(t(), t(values=(-1.0,), differentiable=False)),
    ref=hinge,
    **LOSS,
)
op(
    "margin_ranking_loss",
    call(t(3), t(3), t(3, **SIGNS), 0.5),
    call(t(2, 3), t(3), t(3, **SIGNS), 0.1, 0),
    call(t(), t(), t(values=(-1.0,), differentiable=False)),
    ref=ranking,
    **LOSS,
)
op(
    "cosine_embedding_loss",
    call(t(3, 2), t(3, 2), t(3, **SIGNS), 0.1),
    call(t(3, 4), t(3, 4), t(3, **SIGNS), 0.0, 0),
    call(t(3), t(3), t(values=(1.0,), differentiable=False)),
    ref=cosine,
    **LOSS,
)
op(
    "triplet_margin_loss",
    call(t(3, 2), t(3, 2), t(3, 2)),
    call(t(2, 3), t(2, 3), t(2, 3), 2.0, 3.0, 1e-6, True, 0),
    ref=triplet,
    **LOSS,
    zero_dim="it takes vectors",
)
