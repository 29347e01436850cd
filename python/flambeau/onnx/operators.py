"""Shapes as tensors, which an exported program could compute with."""

from __future__ import annotations

from flambeau._namespace._symbolic import _shape_as_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape as a vector of int64."""
    return _shape_as_tensor(x)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """The tensor in a shape given as a vector."""
    return x.reshape(shape.tolist())
