"""What data parallelism is made of. Copies between devices are differentiable."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = ["gather", "parallel_apply", "replicate", "scatter"]


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


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """Copies of a module whose parameters are copies of the module's own on each device."""
    return [_replica(network, device, detach, {}) for device in devices]


def _replica(module: Any, device: Any, detach: bool, made: dict[int, Any]) -> Any:
    """One copy; modules and tensors that occur several times stay one."""
    if id(module) in made:
        return made[id(module)]
    copied = made[id(module)] = copy.copy(module)
    copied.__dict__ = dict(module.__dict__)
    copied._parameters, copied._buffers, copied._modules = {}, {}, {}
    for name, child in module._modules.items():
        copied._modules[name] = None if child is None else _replica(child, device, detach, made)
    for table, to in (
        (module._parameters, copied.__dict__),  # no leaves of the graph, so no parameters
        (module._buffers, copied._buffers),
    ):
        for name, tensor in table.items():
            if tensor is not None and id(tensor) not in made:
                source = tensor.detach() if detach else tensor
                made[id(tensor)] = source.to(device)
            to[name] = None if tensor is None else made[id(tensor)]
    return copied


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Calls each module with its input. Devices work at the same time: calls only enqueue."""
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    keywords = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    results = []
    for module, args, kwargs in zip(modules, inputs, keywords, strict=True):
        arguments = args if isinstance(args, (list, tuple)) else (args,)
        results.append(module(*arguments, **kwargs))
    return results
