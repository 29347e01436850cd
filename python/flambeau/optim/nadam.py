"""NAdam."""

from __future__ import annotations

from typing import Any

from flambeau import _C, Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, stays, zeros_like
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
        _C._nadam_step(
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["mu_product"],
            state["step"],
            lr=lr,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            capturable=stays(state, group),
        )
