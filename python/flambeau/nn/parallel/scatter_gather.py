"""Splitting a batch among devices, and joining their results. Copies are differentiable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["gather", "scatter"]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Splits the tensors of a nested structure among devices; anything else is given to all."""
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        parts = inputs.chunk(count, dim)
        return tuple(part.to(device) for part, device in zip(parts, target_gpus, strict=False))
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return [type(inputs)(*args) for args in _transposed(inputs, target_gpus, dim)]
    if isinstance(inputs, (tuple, list)) and inputs:
        return [type(inputs)(args) for args in _transposed(inputs, target_gpus, dim)]
    if isinstance(inputs, dict) and inputs:
        rows = _transposed(tuple(inputs.values()), target_gpus, dim)
        return [type(inputs)(zip(inputs, values, strict=True)) for values in rows]
    return [inputs for _ in target_gpus]


def _transposed(items: Any, devices: Sequence[Any], dim: int) -> list[tuple[Any, ...]]:
    """The parts of all items for each device."""
    return list(zip(*(scatter(item, devices, dim) for item in items), strict=False))


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Joins the results of several devices on one."""
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(out.dim() == 0 for out in outputs):
            outputs = [out.unsqueeze(0) for out in outputs]
        return flambeau.cat([out.to(target_device) for out in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(first) == len(out) for out in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    columns = (gather(list(column), target_device, dim) for column in zip(*outputs, strict=True))
    return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
