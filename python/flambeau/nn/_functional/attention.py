"""Multi-head attention over given projection weights."""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["multi_head_attention_forward"]

_in_projection_packed = _C._in_projection_packed


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
    return _C._canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other)


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
    separate = _separate_weights(
        use_separate_proj_weight, (q_proj_weight, k_proj_weight, v_proj_weight)
    )
    bias_kv = () if bias_k is None or bias_v is None else (bias_k, bias_v)
    attended: Any = _C._multi_head_attention(
        query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_kv,
        add_zero_attn, dropout_p * training, out_proj_weight, out_proj_bias, key_padding_mask,
        need_weights, attn_mask, separate, static_k, static_v, average_attn_weights, is_causal,
    )  # fmt: skip
    return attended


def _separate_weights(given: bool, weights: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    """The weights of queries, keys and values, unless they are parts of one."""
    if not given:
        return ()
    for name, own in zip("qkv", weights, strict=True):
        if own is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    return weights
