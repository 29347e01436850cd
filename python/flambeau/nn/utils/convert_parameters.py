"""Parameters as one vector, and back."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from flambeau import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters flattened, one after another."""
    flat = []
    device = None
    for param in parameters:
        device = _check_param_device(param, device)
        flat.append(param.view(-1))
    return flambeau.cat(flat)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives each parameter its part of a vector as its data."""
    if not isinstance(vec, flambeau.Tensor):
        raise TypeError(
            f"expected torch.Tensor, but got: {type(vec).__module__}.{type(vec).__qualname__}"
        )
    device = None
    position = 0
    for param in parameters:
        device = _check_param_device(param, device)
        size = param.numel()
        param.data = vec[position : position + size].view_as(param).data
        position += size


def _check_param_device(param: Tensor, device: Any) -> Any:
    """Returns the one device that all parameters must be on."""
    if device is not None and param.device != device:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
    return param.device
