"""nn.MultiheadAttention of nested tensors: on padded ones, of which the padding is masked."""

from __future__ import annotations

import flambeau
from flambeau.nested import to_padded_tensor
from flambeau.nested._jagged import NestedTensor
from flambeau.nested._jagged_rules import packed
from flambeau.nested._strided import from_components

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def attend(
    module: Any, query: Any, key: Any, value: Any, masks: tuple[Any, Any], **options: Any
) -> Any:
    """What a MultiheadAttention gives for nested tensors of shape (batch, ragged, features)."""
    if masks != (None, None):
        raise AssertionError("MultiheadAttention does not support NestedTensor with masks")
    if not module.batch_first or not (key.is_nested and value.is_nested):
        raise AssertionError(
            "MultiheadAttention takes nested tensors with batch_first=True, and nested query, key "
            "and value together"
        )
    made: dict[int, Any] = {}
    for nested in (query, key, value):
        made.setdefault(id(nested), to_padded_tensor(nested, 0.0))
    dense = [made[id(nested)] for nested in (query, key, value)]
    lengths = flambeau.tensor([len(x) for x in key.unbind()], device=key.device)
    positions = flambeau.arange(dense[1].shape[1], device=key.device)
    output, weights = module(*dense, key_padding_mask=positions >= lengths[:, None], **options)
    if isinstance(query, NestedTensor):
        return query._like(packed(output, query)), weights
    rows = [row[: len(x)] for row, x in zip(output, query.unbind(), strict=True)]
    return from_components(rows), weights
