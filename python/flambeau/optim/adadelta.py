"""Adadelta."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.optim._plain import (
    PlainOptimizer,
    count,
    new_step,
    with_weight_decay,
    zeros_like,
)
from flambeau.optim.optimizer import _check_common

__all__ = ["Adadelta"]


class Adadelta(PlainOptimizer):
    """Steps in the ratio of the root mean squares of steps and gradients (Zeiler, 2012)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_common(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _check_common(lr, weight_decay, eps)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(param, group),
            "square_avg": zeros_like(param),
            "acc_delta": zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        count(state, group)
        grad = with_weight_decay(grad, param, group["weight_decay"])
        rho, eps = group["rho"], group["eps"]
        mean_square = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = (state["acc_delta"] + eps).sqrt() / (mean_square + eps).sqrt() * grad
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta * -lr)
