"""A linear layer that ends in the cross-entropy of its outputs."""

from __future__ import annotations

import math
from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.nn._functional.linear_loss import LinearCrossEntropyOptions

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(Module):
    """The cross-entropy between classes and a linear function of the input.

    ``out_features`` are the inner dimensions of a loss of several dimensions; the weight of the
    layer, ``linear``, is kept flat. See :func:`flambeau.nn.functional.linear_cross_entropy`.
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.reduction = reduction
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        self.register_buffer("weight", weight)
        flat = num_classes * math.prod(self.out_features)
        self.linear = Linear(in_features, flat, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
