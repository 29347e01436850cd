"""NAdam."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.optim._plain import (
    PlainOptimizer,
    count,
    new_step,
    number,
    with_weight_decay,
    zeros_like,
)
from flambeau.optim.optimizer import _check_common

__all__ = ["NAdam"]


class NAdam(PlainOptimizer):
    """Adam with Nesterov momentum (Dozat, 2016)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_common(lr, weight_decay, eps, betas)
        if momentum_decay < 0.0:
            raise ValueError(f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(param, group),
            "mu_product": new_step(param, group) + 1.0,
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
        decay = group["momentum_decay"]
        # The momentum of this step and of the next, which rises to beta1.
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * decay))
        state["mu_product"] *= mu
        product = number(state["mu_product"], group)
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        mean_square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        scale = (mean_square / (1 - beta2**step)).sqrt() + group["eps"]
        param.add_(grad / scale * (-lr * (1.0 - mu) / (1.0 - product)))
        param.add_(mean / scale * (-lr * mu_next / (1.0 - product * mu_next)))
