"""Copies of a module on several devices, differentiable in the module's own parameters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

__all__ = ["replicate"]


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
