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


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stacks tensors."""
    if batch[0].layout is not flambeau.strided:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; "
            "please provide a custom collate_fn to handle them appropriately."
        )
    return flambeau.stack(batch, 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stacks NumPy arrays, or scalars, as tensors."""
    if _holds_text_or_objects(batch[0]):
        raise TypeError(_BAD_TYPE.format(batch[0].dtype))
    return collate([flambeau.as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """A tensor of floats in double precision, as Python's are."""
    return flambeau.tensor(batch, dtype=flambeau.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """A tensor of integers."""
    return flambeau.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts stay as they are."""
    return batch


# What makes a batch of samples of a type; programs enter their own. NumPy's types are added when
# somebody asks for the map (`_utils.collate`), so that NumPy is not imported for it.
default_collate_fn_map: dict[Any, Any] = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _collate_fn(first: Any, collate_fn_map: Any) -> Any:
    """What the map has for a sample: for its type, or for the first that it is an instance of."""
    if not collate_fn_map:
        return None
    found = collate_fn_map.get(type(first))
    if found is not None:
        return found
    for kind, function in collate_fn_map.items():
        if isinstance(first, kind):
            return function
    is_own = collate_fn_map is default_collate_fn_map and _is_numpy(first)
    return collate_numpy_array_fn if is_own else None


def collate(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Makes one batch out of a list of samples, of each type with the function of a map."""
    first = batch[0]
    function = _collate_fn(first, collate_fn_map)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)

    def inner(items: Any) -> Any:
        return collate(items, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _rebuilt_mapping(first, {key: inner([item[key] for item in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(inner(items) for items in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [inner(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)
    raise TypeError(_BAD_TYPE.format(type(first)))


def default_collate(batch: Any) -> Any:
    """Makes one batch out of a list of samples."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
