"""Folding a batch norm in evaluation into the convolution or linear layer before it."""

from __future__ import annotations

import copy
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float,
    bn_weight: Tensor | None, bn_bias: Tensor | None, channel_dim: int,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight and bias whose layer gives what normalization made of the given one's results."""
    bias = flambeau.zeros_like(mean) if bias is None else bias
    bn_weight = flambeau.ones_like(mean) if bn_weight is None else bn_weight
    bn_bias = flambeau.zeros_like(mean) if bn_bias is None else bn_bias
    scale = bn_weight * flambeau.rsqrt(var + eps)
    shape = [1] * weight.dim()
    shape[channel_dim] = -1
    new_weight = (weight * scale.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * scale + bn_bias).to(bias.dtype)
    return (
        Parameter(new_weight, weight.requires_grad),
        Parameter(new_bias, bias.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and bias of a convolution followed by a batch norm."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor, bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """The weight and bias of a linear layer followed by a batch norm."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what ``conv`` and then ``bn`` do in evaluation."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what ``linear`` and then ``bn`` do in evaluation."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
