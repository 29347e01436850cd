"""Arithmetic as a module: models that are made for quantization write `add` and `cat` this way, so
that what they give can be observed. Without quantization it is the arithmetic itself.
"""

from __future__ import annotations

import flambeau
from flambeau import nn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["FloatFunctional"]


class FloatFunctional(nn.Module):
    """add, mul, cat and others as methods, each followed by the submodule that observes results."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = nn.Identity()

    def forward(self, x: Any) -> Any:
        """Refuses, as PyTorch does: call a method."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + y"""
        return self.activation_post_process(flambeau.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """x + y for a number"""
        return flambeau.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """x * y"""
        return self.activation_post_process(flambeau.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """x * y for a number"""
        return flambeau.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Tensors one after the other along dim."""
        return self.activation_post_process(flambeau.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """relu(x + y)"""
        return self.activation_post_process(flambeau.relu(flambeau.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """x @ y"""
        return self.activation_post_process(flambeau.matmul(x, y))
