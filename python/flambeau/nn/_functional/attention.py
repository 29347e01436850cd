"""Scaled dot-product attention, as its formula."""

from __future__ import annotations

import math

import flambeau
from flambeau.nn._functional.activation import dropout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T * scale + mask) value, over the last two dimensions.

    A mask of bools says where to attend; any other is added. With ``enable_gqa`` key and value
    may have fewer heads (third dimension from the end), each of which serves several queries.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            "scaled_dot_product_attention: Expected query, key, and value to all be  at least 2 "
            f"dimensional, but got query: {query.dim()}, key: {key.dim()} and value: "
            f"{value.dim()} dimensions."
        )
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        attn_mask = flambeau.ones(
            (query.size(-2), key.size(-2)), dtype=flambeau.bool, device=query.device
        ).tril()
    if attn_mask is not None:
        if attn_mask.dtype == flambeau.bool:
            scores = scores.masked_fill(~attn_mask, -math.inf)
            # A row that attends nowhere gives zeros instead of nan.
            weights = scores.softmax(-1).masked_fill(~attn_mask.any(-1, keepdim=True), 0.0)
        else:
            weights = (scores + attn_mask).softmax(-1)
    else:
        weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = dropout(weights, dropout_p)
    return weights @ value
