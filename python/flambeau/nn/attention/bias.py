"""Causal masks for scaled_dot_product_attention where queries and keys differ in number."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

import flambeau
from flambeau import _C, Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """In which corner the diagonal of a causal mask lies."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A mask of bools that lets a query see the keys up to its own place.

    Attention takes it by its description, on the device of the query, where it need not be made.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        if not isinstance(variant, CausalVariant):
            raise AssertionError("variant must be a CausalVariant")
        made = Tensor._make_subclass(cls, _mask(variant, seq_len_q, seq_len_kv))
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """All is done in ``__new__``."""

    def _materialize(self, device: Any = None) -> Tensor:
        return _mask(self.variant, self.seq_len_q, self.seq_len_kv, device)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func is not _C.scaled_dot_product_attention:
            with _C.DisableTorchFunctionSubclass():
                return func(*args, **given)
        return _attend(*args, **given)


def _mask(variant: CausalVariant, queries: int, keys: int, device: Any = None) -> Tensor:
    offset = keys - queries if variant == CausalVariant.LOWER_RIGHT else 0
    return flambeau.ones((queries, keys), dtype=flambeau.bool, device=device).tril(offset)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Attention under a causal bias."""
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    square = attn_mask.seq_len_q == attn_mask.seq_len_kv
    if square or attn_mask.variant == CausalVariant.UPPER_LEFT:
        options["is_causal"] = True
    else:
        options["attn_mask"] = attn_mask._materialize(query.device)
    return _C.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p, **options)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask whose diagonal starts at the first query and the first key."""
    if len(size) != 2:
        raise RuntimeError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask whose diagonal ends at the last query and the last key."""
    if len(size) != 2:
        raise RuntimeError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
