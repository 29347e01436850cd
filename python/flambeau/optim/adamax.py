"""Adamax."""

from __future__ import annotations

from typing import Any

from flambeau import _C, Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, stays, zeros_like
from flambeau.optim.optimizer import _check_common

__all__ = ["Adamax"]


class Adamax(PlainOptimizer):
    """Adam with the infinity norm (Kingma and Ba, 2014)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_common(lr, weight_decay, eps, betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(param, group),
            "exp_avg": zeros_like(param),
            "exp_inf": zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        _C._adamax_step(
            param,
            grad,
            state["exp_avg"],
            state["exp_inf"],
            state["step"],
            lr=lr,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            capturable=stays(state, group),
        )
