"""What autocast computes in single precision of functions that are made of ops in Python."""

from __future__ import annotations

import flambeau
from flambeau import _C, Tensor


def single(*tensors: Tensor, devices: tuple[str, ...] = ("cpu", "cuda")) -> tuple[Tensor, ...]:
    """The arguments of a function that autocast computes in single precision on these devices."""
    if not _C._is_any_autocast_enabled():
        return tensors

    def cast(tensor: Tensor) -> Tensor:
        kind = tensor.device.type
        fits = kind in devices and _C.is_autocast_enabled(kind) and tensor.is_floating_point()
        return tensor.float() if fits and tensor.dtype != flambeau.float64 else tensor

    return tuple(map(cast, tensors))
