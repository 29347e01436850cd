"""Embeddings: rows of a table, one by one or in bags."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor

__all__ = ["embedding", "embedding_bag"]


_OLDER_ORDER = (
    "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, "
    "input, ...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`."
)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` by index; the row at ``padding_idx`` gets no gradient."""
    return _C._nn_embedding(
        input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of ``weight``.

    A matrix of indices has a bag a row; in a vector bag i starts at ``offsets[i]``.
    """
    if weight.dtype is flambeau.int64 and input.is_floating_point():
        warnings.warn(_OLDER_ORDER, stacklevel=2)
        weight, input = input, weight
    return _C._nn_embedding_bag(
        input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
        per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
