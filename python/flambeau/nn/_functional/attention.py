"""Multi-head attention over given projection weights."""

from __future__ import annotations

import math
import warnings

import flambeau
from flambeau import _C
from flambeau.nn._functional.activation import dropout, softmax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["multi_head_attention_forward"]


def _none_or_dtype(input: Tensor | None) -> Any:
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """A mask of bools that forbid as one of numbers to add; any other as it is."""
    if mask is None:
        return None
    if mask.dtype != flambeau.bool and not flambeau.is_floating_point(mask):
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. "
            "Use same type for both instead.",
            stacklevel=3,
        )
    if flambeau.is_floating_point(mask):
        return mask
    return flambeau.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Raises unless ranks agree; tells whether there is a batch dimension."""
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    kind = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {query.dim()}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or "
            f"{query.dim() - 1}-D but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
                f"{attn_mask.dim()}-D tensor instead"
            )
        expected = (num_heads, query.shape[0], key.shape[0])
        if not batched and attn_mask.dim() == 3 and attn_mask.shape != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )
    return batched


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> list[Tensor]:
    """Queries, keys and values by the three parts of one weight, in as few products as can be."""
    if k is v and q is k:
        return list(_C.linear(q, w, b).chunk(3, -1))
    width = q.size(-1)
    if k is not v:
        biases = (None,) * 3 if b is None else b.chunk(3)
        return [_C.linear(*part) for part in zip((q, k, v), w.chunk(3), biases, strict=True)]
    w_q, w_kv = w.split([width, width * 2])
    b_q, b_kv = (None, None) if b is None else b.split([width, width * 2])
    return [_C.linear(q, w_q, b_q), *_C.linear(k, w_kv, b_kv).chunk(2, -1)]


def _checked_attention_mask(mask: Tensor, queries: int, keys: int, heads: int) -> Tensor:
    """A mask with a dimension of heads."""
    if mask.dim() == 2:
        if mask.shape != (queries, keys):
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {mask.shape}, but should be {(queries, keys)}."
            )
        return mask.unsqueeze(0)
    if mask.dim() != 3:
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if mask.shape != (heads, queries, keys):
        raise RuntimeError(
            f"The shape of the 3D attn_mask is {mask.shape}, but should be "
            f"{(heads, queries, keys)}."
        )
    return mask


def _static_heads(given: Tensor, name: str, heads: int, head_dim: int) -> Tensor:
    if given.size(0) != heads:
        raise AssertionError(f"expecting {name}.size(0) of {heads}, but got {given.size(0)}")
    if given.size(2) != head_dim:
        raise AssertionError(f"expecting {name}.size(2) of {head_dim}, but got {given.size(2)}")
    return given


def _one_more_key(mask: Tensor | None) -> Tensor | None:
    """A mask that also lets one key more be seen, put behind the others."""
    return None if mask is None else _C.pad(mask, (0, 1))


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads over (steps, batch, width), and its weights where needed."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    bsz = query.size(1)
    attn_mask, key_padding_mask, is_causal = _prepared_masks(
        attn_mask, key_padding_mask, is_causal, need_weights, query.dtype
    )
    q, k, v = _projected(
        query, key, value, embed_dim_to_check, in_proj_weight, in_proj_bias,
        (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None,
    )  # fmt: skip
    if attn_mask is not None:
        attn_mask = _checked_attention_mask(attn_mask, q.size(0), k.size(0), bsz * num_heads)
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k, v = _C.cat([k, bias_k.repeat(1, bsz, 1)]), _C.cat([v, bias_v.repeat(1, bsz, 1)])
        attn_mask, key_padding_mask = _one_more_key(attn_mask), _one_more_key(key_padding_mask)
    q, k, v = _split_heads(q, k, v, num_heads, static_k, static_v)
    if add_zero_attn:
        k, v = (_C.cat([x, x.new_zeros((x.size(0), 1, x.size(2)))], dim=1) for x in (k, v))
        attn_mask, key_padding_mask = _one_more_key(attn_mask), _one_more_key(key_padding_mask)
    if key_padding_mask is not None:
        attn_mask = _with_padding(attn_mask, key_padding_mask, bsz, num_heads, k.size(1))
    split, dropout_p = (bsz, num_heads), dropout_p * training
    seen, weights = _attend(q, k, v, attn_mask, dropout_p, is_causal, split, need_weights)
    output = _C.linear(seen, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


def _with_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each with a batch dimension; what was one tensor stays one."""
    same_kv, same_qk = value is key, key is query
    query = query.unsqueeze(1)
    key = query if same_qk else key.unsqueeze(1)
    return query, key, key if same_kv else value.unsqueeze(1)


def _prepared_masks(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    need_weights: bool,
    dtype: Any,
) -> tuple[Tensor | None, Tensor | None, bool]:
    """Both masks as numbers to add, and whether attention is to make the causal one itself."""
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        return None, None, True
    attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", dtype, False)
    return attn_mask, key_padding_mask, is_causal and key_padding_mask is None


def _split_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    num_heads: int,
    static_k: Tensor | None,
    static_v: Tensor | None,
) -> list[Tensor]:
    """(steps, batch, width) as (batch * heads, steps, width of a head)."""
    bsz, width = q.shape[1:]
    heads, head_dim = bsz * num_heads, width // num_heads
    if head_dim * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    q, k, v = (x.reshape(x.size(0), heads, head_dim).transpose(0, 1) for x in (q, k, v))
    k = k if static_k is None else _static_heads(static_k, "static_k", heads, head_dim)
    v = v if static_v is None else _static_heads(static_v, "static_v", heads, head_dim)
    return [q, k, v]


def _projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    weight: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, Tensor | None, Tensor | None] | None,
) -> list[Tensor]:
    """Queries, keys and values, by one weight for all or one for each."""
    if query.size(-1) != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {query.size(-1)}"
        )
    if separate is None:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(query, key, value, weight, bias)
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    for name, own in zip("qkv", separate, strict=True):
        if own is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    parts = zip((query, key, value), separate, biases, strict=True)
    return [_C.linear(x, own, b) for x, own, b in parts]  # type: ignore[arg-type]


def _with_padding(
    mask: Tensor | None, padding: Tensor, bsz: int, num_heads: int, keys: int
) -> Tensor:
    """The mask with the keys that are padding added to what is forbidden."""
    if padding.size(0) != bsz:
        raise AssertionError(
            f"Expected key_padded_mask.shape[0] to be {bsz}, but got {padding.size(0)}"
        )
    if padding.size(1) != keys:
        raise AssertionError(
            f"Expected key_padded_mask.shape[1] to be {keys}, but got {padding.size(1)}"
        )
    spread = padding.view(bsz, 1, 1, keys).expand(-1, num_heads, -1, -1)
    spread = spread.reshape(bsz * num_heads, 1, keys)
    return spread if mask is None else mask + spread


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    split: tuple[int, int],
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """What heads (bsz * num_heads, steps, width) see, side by side as (steps, bsz, width); and, if
    asked for, with which weights."""
    bsz, num_heads = split
    queries, width, keys = q.size(1), q.size(2), k.size(1)
    if need_weights:
        scaled = q * math.sqrt(1.0 / width)
        scores = (
            _C.bmm(scaled, k.transpose(-2, -1))
            if mask is None
            else _C.baddbmm(mask, scaled, k.transpose(-2, -1))
        )
        weights = softmax(scores, dim=-1)
        if dropout_p > 0.0:
            weights = dropout(weights, dropout_p)
        seen = _C.bmm(weights, v).transpose(0, 1).reshape(queries, bsz, num_heads * width)
        return seen, weights.view(bsz, num_heads, queries, keys)
    if mask is not None:
        mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.view(bsz, num_heads, -1, keys)
    q, k, v = (x.unflatten(0, split) for x in (q, k, v))
    seen = _C.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    return seen.permute(2, 0, 1, 3).reshape(queries, bsz, num_heads * width), None
