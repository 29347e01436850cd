"""Copies and sums of tensors over the devices of one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def _device(device: Any) -> Any:
    return flambeau.device("cuda", device) if isinstance(device, int) else flambeau.device(device)


def broadcast(tensor: Tensor, devices: Any = None, *, out: Any = None) -> tuple[Tensor, ...]:
    """The tensor on each of several devices, or copied into each of `out`."""
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got {devices=} and {out=}"
        )
    if devices is not None:
        return tuple(tensor.to(_device(device)) for device in devices)
    return tuple(each.copy_(tensor) for each in out)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Any, buffer_size: int = 10485760
) -> list[list[Tensor]]:
    """Several tensors on each of several devices: a list of tensors a device."""
    return [[tensor.to(_device(device)) for tensor in tensors] for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape that lie on several devices."""
    shapes = {tuple(x.shape) for x in inputs}
    if len(shapes) != 1:
        raise ValueError(f"reduce_add: tensors have different shapes: {sorted(shapes)}")
    place = inputs[0].device if destination is None else _device(destination)
    total = inputs[0].to(place)
    for x in inputs[1:]:
        total = total + x.to(place)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The sums of corresponding tensors, of a list for each device."""
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Any = None,
    chunk_sizes: Any = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Any = None,
) -> tuple[Tensor, ...]:
    """Chunks of the tensor along `dim`, one on each device."""
    if out is not None:
        chunks = tensor.split([x.shape[dim] for x in out], dim)
        return tuple(x.copy_(chunk) for x, chunk in zip(out, chunks, strict=True))
    devices = list(devices or range(flambeau.cuda.device_count()))
    chunks = (
        tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(chunk_sizes, dim)
    )
    return tuple(chunk.to(_device(device)) for chunk, device in zip(chunks, devices, strict=True))


def gather(
    tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Any = None
) -> Tensor:
    """Tensors of several devices joined along `dim` on one, a CUDA device by default."""
    if out is not None:
        return flambeau.cat([x.to(out.device) for x in tensors], dim, out=out)
    place = _device("cuda" if destination is None else "cpu" if destination == -1 else destination)
    return flambeau.cat([x.to(place) for x in tensors], dim)
