"""Clipping gradients by their norm or by value."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import TypeAlias

import flambeau
from flambeau import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Optimizers of other libraries annotate by this name.
_tensor_or_tensors: TypeAlias = Tensor | Iterable[Tensor]
_no_grad = flambeau.no_grad()


def _as_list(tensors: Any, what: str) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    if not isinstance(tensors, Iterable):
        raise TypeError(f"{what} should be a Tensor or an Iterable of Tensors, got {type(tensors)}")
    return list(tensors)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors taken as one vector."""
    listed = _as_list(tensors, "tensors")
    norm_type = float(norm_type)
    if not listed:
        return flambeau.tensor(0.0)
    first_device = listed[0].device
    norms = [tensor.norm(norm_type).to(first_device) for tensor in listed]
    total = flambeau.stack(norms).norm(norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scales gradients by max_norm / total_norm where that is below one."""
    grads = [p.grad for p in _as_list(parameters, "parameters") if p.grad is not None]
    if not grads:
        return
    # Scaling by a coefficient clamped to one needs no look at its value on the device.
    coefficient = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    with flambeau.no_grad():
        for grad in grads:
            grad.mul_(coefficient.to(grad.device))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients so that their total norm is at most ``max_norm``; returns what it was."""
    listed = _as_list(parameters, "parameters")
    if not listed and isinstance(parameters, GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    grads = [p.grad for p in listed if p.grad is not None]
    with flambeau.no_grad():
        total_norm = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(listed, max_norm, total_norm, foreach)
    return total_norm


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of clip_grad_norm_."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamps every element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with flambeau.no_grad():
        for param in _as_list(parameters, "parameters"):
            if param.grad is not None:
                param.grad.clamp_(min=-clip_value, max=clip_value)
