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
    """A mask of bools that lets a query see the keys up to its own place."""

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        if not isinstance(variant, CausalVariant):
            raise AssertionError("variant must be a CausalVariant")
        offset = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = flambeau.ones((seq_len_q, seq_len_kv), dtype=flambeau.bool).tril(offset)
        made = Tensor._make_subclass(cls, mask)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        """All is done in ``__new__``."""


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
