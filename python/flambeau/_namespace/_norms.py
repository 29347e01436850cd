"""Norms of tensors by their older names, and the normalizations that also return the statistics
they used."""

from __future__ import annotations

from flambeau import _C
from flambeau._namespace._out import delivered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "batch_norm_update_stats",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "norm_except_dim",
]


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which is kept; over all of them for ``dim=-1``."""
    if dim == -1:
        return _C.linalg_vector_norm(v, pow)
    others = [d for d in range(v.dim()) if d != dim]
    return _C.linalg_vector_norm(v, pow, others, True) if others else v.abs()


def _statistics(x: Tensor, dims: Any, eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The mean, and one over the deviation."""
    wide = x.float() if x.dtype in (_C.float16, _C.bfloat16) else x
    variance, mean = _C.var_mean(wide, dims, correction=0, keepdim=keepdim)
    return mean.to(x.dtype), (variance + eps).rsqrt().to(x.dtype)


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """layer_norm, with the mean and the reciprocal deviation of each normalized part."""
    out = _C.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    mean, rstd = _statistics(input.detach(), dims, eps, True)
    return out, mean, rstd


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """group_norm, with the mean and the reciprocal deviation of each group."""
    out = _C.group_norm(input, group, weight, bias, eps)
    mean, rstd = _statistics(input.reshape(N, group, C // group * HxW), 2, eps, False)
    return out, mean, rstd


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """batch_norm, with the mean and the reciprocal deviation of each channel of the batch."""
    result = _C.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )
    if training:
        dims = [d for d in range(input.dim()) if d != 1]
        mean, rstd = _statistics(input.detach(), dims, eps, False)
    else:
        mean, rstd = input.new_empty(0), input.new_empty(0)
    found = result, mean, rstd
    if out is None:
        return found
    first, second, third = (delivered(*pair) for pair in zip(found, out, strict=True))
    return first, second, third


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each channel; running ones, where given, move towards them."""
    if input.numel() == 0:
        raise RuntimeError(
            "input tensor must have at least one element, but got input_sizes = "
            f"{list(input.shape)}"
        )
    dims = [d for d in range(input.dim()) if d != 1]
    var, mean = _C.var_mean(input.detach(), dims, correction=0)
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        count = input.numel() // max(input.size(1), 1)
        unbiased = var * (count / max(count - 1, 1))
        running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    return mean, var
