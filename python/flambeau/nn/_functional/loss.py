"""Losses. Those with an op of their own call it; the others are the formula of their definition."""

from __future__ import annotations

import math
import warnings

import flambeau
from flambeau import _C
from flambeau.nn._functional.precision import single
from flambeau.nn._reduction import effective_reduction, get_enum, reduce_loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy between logits and class indices or class probabilities."""
    reduction = effective_reduction(size_average, reduce, reduction)
    return _C.cross_entropy_loss(
        input, target, weight, get_enum(reduction), ignore_index, label_smoothing
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of class indices, given log-probabilities."""
    reduction = effective_reduction(size_average, reduce, reduction)
    return _C.nll_loss_nd(input, target, weight, get_enum(reduction), ignore_index)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a Poisson distribution with mean (or log mean) ``input``."""
    reduction = effective_reduction(size_average, reduce, reduction)
    return _C.poisson_nll_loss(input, target, log_input, full, eps, get_enum(reduction))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of a Gaussian with mean ``input`` and variance ``var``."""
    get_enum(reduction)
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * flambeau.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not (input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1) and any(
            own != other and other != 1
            for own, other in zip(reversed(input.size()), reversed(var.size()), strict=False)
        ):
            raise ValueError("var is of incorrect size")
    var = var.clone()
    with flambeau.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduce_loss(loss, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence, ``input`` being log-probabilities."""
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size. 'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition. 'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            stacklevel=2,
        )
    reduction = effective_reduction(size_average, reduce, reduction)
    if reduction == "batchmean":
        total = _C.kl_div(input, target, get_enum("sum"), log_target=log_target)
        return total / input.size(0) if input.dim() > 0 else total
    return _C.kl_div(input, target, get_enum(reduction), log_target=log_target)


def _same_size(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Both tensors broadcast to one size, which they should have had."""
    if target.size() == input.size():
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size "
        f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=3,
    )
    input, target = flambeau.broadcast_tensors(input, target)
    return input, target


def _weighted(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Reduces an elementwise loss with weights; the mean is the weighted mean."""
    if weight.size() != loss.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == "mean":
        return loss.sum() / weight.sum()
    return reduce_loss(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared difference."""
    reduction = effective_reduction(size_average, reduce, reduction)
    input, target = _same_size(input, target)
    if weight is not None:
        return _weighted(_C.mse_loss(input, target, 0), weight, reduction)
    return _C.mse_loss(input, target, get_enum(reduction))


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute difference."""
    reduction = effective_reduction(size_average, reduce, reduction)
    input, target = _same_size(input, target)
    if weight is not None:
        return _weighted(_C.l1_loss(input, target, 0), weight, reduction)
    return _C.l1_loss(input, target, get_enum(reduction))


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """The squared difference over 2 beta where it is below ``beta``, else the absolute one."""
    reduction = effective_reduction(size_average, reduce, reduction)
    input, target = _same_size(input, target)
    if beta == 0.0:
        return _C.l1_loss(input, target, get_enum(reduction))
    return _C.smooth_l1_loss(input, target, get_enum(reduction), beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """smooth_l1_loss times delta."""
    input, target = _same_size(input, target)
    if weight is not None:
        # Unlike mse_loss and l1_loss, the mean here is over all elements.
        if weight.size() != input.size():
            raise ValueError("Weights and input must have the same size.")
        return reduce_loss(_C.huber_loss(input, target, 0, delta) * weight, reduction)
    return _C.huber_loss(input, target, get_enum(reduction), delta)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross-entropy between probabilities and targets in [0, 1]."""
    reduction = effective_reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = flambeau.broadcast_tensors(weight, target)[0]
    return _C.binary_cross_entropy(input, target, weight, get_enum(reduction))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross-entropy between logits and targets in [0, 1]."""
    reduction = effective_reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    return _C.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight, get_enum(reduction)
    )


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input)), in the dtype of the input."""
    reduction = effective_reduction(size_average, reduce, reduction)
    input, target = single(input, target)
    if not input.is_floating_point():
        raise RuntimeError(
            f"soft_margin_loss: result type Float can't be cast to the desired output type "
            f"{input.dtype}"
        )
    losses = (-input * target).exp().log1p()
    if losses.shape != input.shape:
        raise RuntimeError(
            f"soft_margin_loss: output with shape {list(input.shape)} doesn't match the broadcast "
            f"shape {list(losses.shape)}"
        )
    return reduce_loss(losses, reduction).to(input.dtype)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, max(0, margin - input) where it is -1."""
    reduction = effective_reduction(size_average, reduce, reduction)
    return _C.hinge_embedding_loss(input, target, margin, get_enum(reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of one-against-all logistic losses."""
    reduction = effective_reduction(size_average, reduce, reduction)
    loss = -(target * _C.log_sigmoid(input) + (1 - target) * _C.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    classes = input.dim() - 1  # of the input: what it is broadcast to may have more dimensions
    return reduce_loss(loss.sum(dim=classes) / input.size(classes), reduction)


def _check_scores(input: Tensor, op: str) -> None:
    """Raises unless there are classes to have scores, of one row or of a batch of them."""
    if input.device.type == "cpu" and input.dtype not in (flambeau.float32, flambeau.float64):
        raise NotImplementedError(f'"{op}" not implemented for {input.dtype}')
    if input.dim() > 2 or (input.dim() and input.size(-1) == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The hinge loss between the score of the target class and every other."""
    reduction = effective_reduction(size_average, reduce, reduction)
    get_enum(reduction)  # raises for a name that is none
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    (input,) = single(input)
    _check_scores(input, "multi_margin_loss")
    batch = input.reshape(-1, input.size(-1) if input.dim() else 1)
    index = target.reshape(-1, 1)
    if target.dim() > 1 or index.size(0) != batch.size(0):
        raise RuntimeError(
            f"multi_margin_loss: inconsistent target size, expected one class for each of "
            f"{batch.size(0)} rows of scores, got input {tuple(input.shape)} and target "
            f"{tuple(target.shape)}"
        )
    loss = (margin - batch.gather(1, index) + batch).clamp_min(0)
    loss = loss if p == 1 else loss * loss
    if weight is not None:
        loss = loss * weight[index]
    loss = loss.scatter(1, index, 0.0).sum(1) / batch.size(1)
    return reduce_loss(loss.reshape(target.shape), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    reduction = effective_reduction(size_average, reduce, reduction)
    return _C.cosine_embedding_loss(input1, input2, target, margin, get_enum(reduction))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin)."""
    reduction = effective_reduction(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _C.margin_ranking_loss(input1, input2, target, margin, get_enum(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin), distances in the p-norm."""
    reduction = effective_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _C.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, get_enum(reduction)
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with any distance."""
    get_enum(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )
    distance = _C.pairwise_distance if distance_function is None else distance_function
    to_positive = distance(anchor, positive)
    to_negative = distance(anchor, negative)
    if swap:
        to_negative = flambeau.minimum(to_negative, distance(positive, negative))
    return reduce_loss((margin + to_positive - to_negative).clamp_min(0), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The hinge loss between every class that is a target and every one that is not.

    Targets are class indices, of which those before the first -1 count.
    """
    reduction = effective_reduction(size_average, reduce, reduction)
    get_enum(reduction)  # raises for a name that is none
    (input,) = single(input)
    _check_scores(input, "multilabel_margin_loss")
    if target.size() != input.size():
        raise RuntimeError(
            f"inconsistent target size: {list(target.size())} for input of size: "
            f"{list(input.size())}"
        )
    if target.dtype != flambeau.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}")
    scores = input.reshape(-1, input.size(-1) if input.dim() else 1)
    labels = target.reshape(scores.size())
    classes = scores.size(1)
    # Other devices find labels out of range where they gather by them, without being waited for.
    is_near = labels.device.type == "cpu"
    if is_near and labels.numel() and not -1 <= int(labels.min()) <= int(labels.max()) < classes:
        raise RuntimeError("argument #2 'target' is out of range")
    counts = (labels >= 0).cumprod(1).bool()
    index = labels.masked_fill(~counts, 0)
    is_target = flambeau.zeros_like(labels).scatter_add_(1, index, counts.long()) > 0
    margins = (1 - scores.gather(1, index).unsqueeze(2) + scores.unsqueeze(1)).clamp_min(0)
    compared = counts.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = margins.masked_fill(~compared, 0).sum((1, 2)) / classes
    return reduce_loss(loss if input.dim() == 2 else loss.squeeze(0), reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification of log-probabilities (T, N, C) or (T, C)."""
    return _C.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction),
        zero_infinity,
    )  # fmt: skip
