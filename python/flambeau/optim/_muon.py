"""Muon: momentum, orthogonalized."""

from __future__ import annotations

import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim._plain import PlainOptimizer, zeros_like

__all__ = ["Muon"]


def _orthogonalized(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Close to U V^T for a matrix U S V^T: a polynomial of odd degree drives all singular values
    towards one (Newton-Schulz). Half precision is exact enough.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if matrix.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    a, b, c = coefficients
    x = matrix.bfloat16()
    tall = matrix.size(0) > matrix.size(1)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        polynomial = flambeau.addmm(gram, gram, gram, beta=b, alpha=c)
        x = flambeau.addmm(x, polynomial, x, beta=a)
    return x.T if tall else x


class Muon(PlainOptimizer):
    """Steps along the orthogonalized momentum of the gradient; for weights that are matrices
    (Jordan et al., 2024).

    Args:
        params: matrices, or groups of them.
        lr: the learning rate.
        weight_decay: how much of a weight is taken away per step, times lr.
        momentum: of the gradient.
        nesterov: whether the momentum looks one step ahead.
        ns_coefficients: of the polynomial that orthogonalizes.
        eps: the least norm to divide by.
        ns_steps: how often the polynomial is applied.
        adjust_lr_fn: "original", "match_rms_adamw" or "spectral_unclamped": how lr follows the
            shape of a matrix.
    """

    _options = ("foreach", "maximize")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if weight_decay < 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if momentum < 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw", "spectral_unclamped"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(param)}

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        momentum = group["momentum"]
        buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
        direction = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        step = _orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            rate = lr * 0.2 * math.sqrt(max(rows, columns))
        elif group["adjust_lr_fn"] == "spectral_unclamped":
            rate = lr * math.sqrt(rows / columns)
        else:
            rate = lr * math.sqrt(max(1, rows / columns))
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(step, alpha=-rate)
