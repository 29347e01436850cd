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
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.size(0) if weight.dim() else 1  # what has none is refused below
        if padding_idx and not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        if padding_idx < 0:
            padding_idx += rows
    if max_norm is not None:
        with flambeau.no_grad():
            _C.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    return _C.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


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
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        rank = weight.dim()
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {rank}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a "
                "mini-batch of fixed length sequences. However, found offsets of type "
                f"{type(offsets)}"
            )
        bags, length = input.shape
        offsets = flambeau.arange(bags, dtype=input.dtype, device=input.device) * length
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    elif not isinstance(offsets, flambeau.Tensor) or offsets.dim() != 1:
        given = None if offsets is None else f"Tensor of dimension {offsets.dim()}"
        raise ValueError(f"offsets has to be a 1D Tensor but got {given}")
    if mode not in _BAG_MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    if max_norm is not None:
        with flambeau.no_grad():
            _C.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    return _C.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, _BAG_MODES[mode], sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )[0]  # fmt: skip
