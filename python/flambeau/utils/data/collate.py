"""Making a batch of samples: tensors and numbers are stacked, containers keep their shape."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["default_collate", "default_convert"]

_BAD_TYPE = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def _is_numpy(value: Any) -> bool:
    """Whether ``value`` is a NumPy array or scalar; nothing is if NumPy is not imported."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _holds_text_or_objects(array: Any) -> bool:
    return array.dtype.kind in "SUO"


def _rebuilt_mapping(original: Any, items: dict[Any, Any]) -> Any:
    """A mapping of the original's class with new values; a plain dictionary if that fails."""
    try:
        if isinstance(original, MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _rebuilt_sequence(original: Any, items: list[Any]) -> Any:
    """A sequence of the original's class with new elements; a list if that fails."""
    try:
        if isinstance(original, MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Turns NumPy arrays into tensors, also inside containers."""
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data):
        return data if _holds_text_or_objects(data) else flambeau.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt_sequence(data, [default_convert(item) for item in data])
    return data


def default_collate(batch: Any) -> Any:
    """Makes one batch out of a list of samples."""
    first = batch[0]
    if isinstance(first, Tensor):
        if first.layout is not flambeau.strided:
            raise RuntimeError(
                "Batches of sparse tensors are not currently supported by the default collate_fn; "
                "please provide a custom collate_fn to handle them appropriately."
            )
        return flambeau.stack(batch, 0)
    if isinstance(first, (str, bytes)):
        return batch
    if _is_numpy(first):
        if _holds_text_or_objects(first):
            raise TypeError(_BAD_TYPE.format(first.dtype))
        return default_collate([flambeau.as_tensor(item) for item in batch])
    if isinstance(first, float):
        return flambeau.tensor(batch, dtype=flambeau.float64)
    if isinstance(first, int):
        return flambeau.tensor(batch)
    if isinstance(first, Mapping):
        return _rebuilt_mapping(
            first, {key: default_collate([item[key] for item in batch]) for key in first}
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(items) for items in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)
    raise TypeError(_BAD_TYPE.format(type(first)))
