"""RAdam."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim._plain import (
    PlainOptimizer,
    count,
    new_step,
    with_weight_decay,
    zeros_like,
)
from flambeau.optim.optimizer import _check_common

__all__ = ["RAdam"]


class RAdam(PlainOptimizer):
    """Adam that is plain momentum until its variance can be trusted (Liu et al., 2019)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_common(lr, weight_decay, eps, betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(param, group),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        step = count(state, group)
        if group["decoupled_weight_decay"]:
            param.mul_(1 - lr * group["weight_decay"])
        else:
            grad = with_weight_decay(grad, param, group["weight_decay"])
        beta1, beta2 = group["betas"]
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        mean_square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        unbiased = mean / (1 - beta1**step)
        # The length of the simple average that approximates the exponential one, now and at last.
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        if not isinstance(length, Tensor) and length <= 5.0:
            param.add_(unbiased * -lr)
            return
        rectification = (
            (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        ) ** 0.5
        adapted = (1 - beta2**step) ** 0.5 / (mean_square.sqrt() + group["eps"])
        factor = adapted * rectification
        if isinstance(length, Tensor):
            factor = flambeau.where(length > 5.0, factor, 1.0)
        param.add_(unbiased * factor * -lr)
