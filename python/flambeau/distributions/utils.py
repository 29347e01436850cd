"""What distributions share: broadcasting of parameters, probabilities and logits, and attributes
that are computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import flambeau
from flambeau import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def is_number(value: Any) -> bool:
    """Whether a parameter is a number of Python's, and not a tensor."""
    return isinstance(value, (int, float, bool, complex))


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """All values as tensors of one shape; numbers take the dtype and device of the first tensor."""
    tensors = [value for value in values if isinstance(value, Tensor)]
    if not all(isinstance(value, Tensor) or is_number(value) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    if len(tensors) < len(values):
        like: dict[str, Any] = {"dtype": flambeau.get_default_dtype()}
        if tensors:
            like = {"dtype": tensors[0].dtype, "device": tensors[0].device}
        values = tuple(
            value if isinstance(value, Tensor) else flambeau.tensor(value, **like)
            for value in values
        )
    return tuple(flambeau.broadcast_tensors(*values))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return flambeau.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last `count` dimensions."""
    if count == 0:
        return value
    return value.reshape(value.shape[: value.dim() - count] + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log-odds, or from unnormalized log-probabilities along the last
    dimension.
    """
    return flambeau.sigmoid(logits) if is_binary else flambeau.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept a rounding error away from 0 and 1."""
    eps = flambeau.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The log-odds of binary probabilities, or the logarithms of others."""
    clamped = clamp_probs(probs)
    logs = flambeau.log(clamped)
    return logs - flambeau.log1p(-clamped) if is_binary else logs


class lazy_property:
    """A property that is computed when it is first asked for, with gradients, and kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with flambeau.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of the lower triangle, row by row, in one vector."""
    size = mat.shape[-1]
    if diag < -size or diag >= size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    mask = flambeau.ones(mat.shape[-2:], dtype=flambeau.bool, device=mat.device).tril(diag)
    return mat[..., mask]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The lower triangular matrix whose elements, row by row, are those of a vector."""
    # A triangle of side k below the main diagonal holds k (k + 1) / 2 elements, less the corner
    # that diag cuts off or plus the band that it adds.
    length = vec.shape[-1]
    side = (
        -(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5
    ) / 2
    size = round(side)
    eps = flambeau.finfo(vec.dtype).eps
    if not size - eps <= side <= size + eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the "
            "lower triangular part of a square D x D matrix."
        )
    mask = flambeau.ones(size, size, dtype=flambeau.bool, device=vec.device).tril(diag)
    matrix = vec.new_zeros(vec.shape[:-1] + (size, size))
    matrix[..., mask] = vec
    return matrix
