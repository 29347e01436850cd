"""Attention with scores and masks given as functions of positions.

A ``score_mod(score, b, h, q_idx, kv_idx)`` changes scores, a ``mask_mod(b, h, q_idx, kv_idx)`` says
what is seen; they are called once, with indices that broadcast against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128

MaskMod = Callable[[Any, Any, Any, Any], Any]


class AuxRequest(NamedTuple):
    """Which extra results flex_attention is to give."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The extra results."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask_mod that lets everything be seen."""
    return batch.new_ones((), dtype=flambeau.bool)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Sees what all of the given mask_mods see."""
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def both(b: Any, h: Any, q: Any, kv: Any) -> Any:
        result = b.new_ones((), dtype=flambeau.bool)
        for mod in mask_mods:
            result = result & mod(b, h, q, kv)
        return result

    return both


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Sees what any of the given mask_mods sees."""
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def either(b: Any, h: Any, q: Any, kv: Any) -> Any:
        result = b.new_zeros((), dtype=flambeau.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q, kv)
        return result

    return either


def _positions(sizes: tuple[int, int, int, int], device: Any) -> list[Tensor]:
    """The indices of batch, head, query and key, each along a dimension of its own."""
    positions = []
    for dim, size in enumerate(sizes):
        shape = [1] * 4
        shape[dim] = size
        positions.append(flambeau.arange(size, device=device).view(shape))
    return positions


def _called(mod: MaskMod, sizes: tuple[int, int, int, int], device: Any) -> Tensor:
    """A mask_mod at all positions: (B, H, Q, KV)."""
    result = mod(*_positions(sizes, device))
    if not isinstance(result, Tensor):
        result = flambeau.tensor(result, device=device)
    return result.expand(sizes)


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """What a mask_mod says at all positions; of a score_mod, what it makes of scores of zero."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    arguments = getattr(getattr(mod_fn, "__code__", None), "co_argcount", 4)
    if arguments == 5:
        scores = flambeau.zeros(sizes, device=device)
        changed: Tensor = mod_fn(scores, *_positions(sizes, device))
        return changed.expand(sizes)
    return _called(mod_fn, sizes, device)


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _to_lists(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of zeros and ones as the number of ones, and the columns with the ones first."""
    counts = blocks.sum(-1, dtype=flambeau.int32)
    order = blocks.to(flambeau.int8).argsort(dim=-1, descending=True, stable=True)
    return counts, order.to(flambeau.int32)


def _to_dense(counts: Tensor, indices: Tensor) -> Tensor:
    """The inverse of _to_lists, as bools."""
    width = indices.size(-1)
    used = flambeau.arange(width, device=indices.device) < counts.unsqueeze(-1)
    blocks = flambeau.zeros(indices.shape, dtype=flambeau.int64, device=indices.device)
    return blocks.scatter_add(-1, indices.long(), used.long()) > 0


class BlockMask:
    """A mask as the blocks of it that are seen in part, and those seen whole."""

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None = None, q_indices: Tensor | None = None,
        full_q_num_blocks: Tensor | None = None, full_q_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (128, 128), mask_mod: MaskMod = noop_mask,
    ) -> None:  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: Any = 128,
        mask_mod: MaskMod | None = None, seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask from the blocks of keys that each block of queries sees."""
        size = _pair(BLOCK_SIZE)
        q_lists: tuple[Any, Any] = (None, None)
        full_q_lists: tuple[Any, Any] = (None, None)
        if compute_q_blocks:
            q_lists = _to_lists(_to_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_q_lists = _to_lists(_to_dense(full_kv_num_blocks, full_kv_indices).mT)
        if seq_lengths is None:
            seq_lengths = kv_indices.size(-2) * size[0], kv_indices.size(-1) * size[1]
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
            *q_lists, *full_q_lists, size, mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, Q, KV)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def _tensors(self) -> list[Tensor | None]:
        return [
            self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices,
            self.q_num_blocks, self.q_indices, self.full_q_num_blocks, self.full_q_indices,
        ]  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All that the mask is made of."""
        size = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, *self._tensors(), *size, self.mask_mod)

    def numel(self) -> int:
        """The number of positions of the mask."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Which blocks are seen, wholly or in part: (B, H, blocks, blocks)."""
        seen = _to_dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            seen = seen | _to_dense(self.full_kv_num_blocks, self.full_kv_indices)
        return seen.to(flambeau.int32)

    def sparsity(self) -> float:
        """The share of blocks, in percent, that are never looked at."""
        blocks = self.to_dense()
        return 100 * (1 - int(blocks.sum()) / blocks.numel())

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        moved = (None if tensor is None else tensor.to(device) for tensor in self._tensors())
        arguments: Any = (self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)
        return BlockMask(*arguments)

    def _at_positions(self, sizes: tuple[int, int, int, int], device: Any) -> Tensor:
        """What is seen at all positions."""

        def spread(blocks: Tensor) -> Tensor:
            rows = blocks.repeat_interleave(self.BLOCK_SIZE[0], -2)[..., : sizes[2], :]
            return rows.repeat_interleave(self.BLOCK_SIZE[1], -1)[..., : sizes[3]]

        part = spread(_to_dense(self.kv_num_blocks, self.kv_indices))
        seen = part & _called(self.mask_mod, sizes, device)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            seen = seen | spread(_to_dense(self.full_kv_num_blocks, self.full_kv_indices))
        return seen


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks of what a mask_mod lets be seen."""
    q_size, kv_size = size = _pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    # Blocks that stick out are filled up with what is not seen.
    mask = F.pad(mask, (0, -KV_LEN % kv_size, 0, -Q_LEN % q_size))
    blocks = mask.unflatten(-1, (-1, kv_size)).unflatten(-3, (-1, q_size))
    counts = blocks.sum((-1, -3))
    full = counts == q_size * kv_size
    part = (counts > 0) & ~full if separate_full_blocks else counts > 0
    full_lists: tuple[Any, Any] = _to_lists(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(*_to_lists(part), *full_lists, size, mask_mod, (Q_LEN, KV_LEN))


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query key^T * scale)) value, where ``block_mask`` lets it be seen."""
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if not enable_gqa and query.size(-3) != key.size(-3):
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got "
            f"Hq={query.size(-3)} and Hkv={key.size(-3)}. Try setting enable_gqa=True for GQA."
        )
    sizes = (query.size(0), query.size(1), query.size(2), key.size(2))
    mask = None if block_mask is None else block_mask._at_positions(sizes, query.device)
    if score_mod is None and not return_lse and return_aux is None:
        return F.scaled_dot_product_attention(
            query, key, value, mask, scale=scale, enable_gqa=enable_gqa
        )
    if enable_gqa:
        groups = query.size(1) // key.size(1)
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    wide = flambeau.float64 if query.dtype == flambeau.float64 else flambeau.float32
    scores = (query @ key.mT).to(wide) * factor
    if score_mod is not None:
        scores = score_mod(scores, *_positions(sizes, query.device)).expand(sizes)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    # Rows that see nothing are zeros and not nan.
    blind = scores.detach().amax(-1, keepdim=True) == -math.inf
    weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    output = weights.to(query.dtype) @ value
    lse = scores.logsumexp(-1)
    if return_aux is not None:
        most = scores.detach().amax(-1) if return_aux.max_scores else None
        return output, AuxOutput(lse if return_aux.lse else None, most)
    return (output, lse) if return_lse else output
