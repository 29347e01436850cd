"""Losses: what they call is an op; reductions and deprecated arguments are translated here."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C
from flambeau.nn._reduction import effective_reduction, get_enum

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
    return _C._gaussian_nll_loss(input, target, var, full, eps, get_enum(reduction))


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
    code = 3 if reduction == "batchmean" else get_enum(reduction)
    return _C.kl_div(input, target, code, log_target=log_target)


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
        return _C._weighted_loss(_C.mse_loss(input, target, 0), weight, get_enum(reduction))
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
        return _C._weighted_loss(_C.l1_loss(input, target, 0), weight, get_enum(reduction))
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
        losses = _C.huber_loss(input, target, 0, delta)
        return _C._weighted_loss(losses, weight, get_enum(reduction), average=False)
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
    return _C._soft_margin_loss(input, target, get_enum(reduction))


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
    return _C._multilabel_soft_margin_loss(input, target, weight, get_enum(reduction))


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
    return _C._multi_margin_loss(input, target, p, margin, weight, get_enum(reduction))


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
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )
    distance = _C.pairwise_distance if distance_function is None else distance_function
    to_positive, to_negative = distance(anchor, positive), distance(anchor, negative)
    between = distance(positive, negative) if swap else None
    return _C._triplet_margin(to_positive, to_negative, between, margin, get_enum(reduction))


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
    return _C._multilabel_margin_loss(input, target, get_enum(reduction))


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
