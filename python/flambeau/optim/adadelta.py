"""Adadelta."""

from __future__ import annotations

from typing import Any

from flambeau import _C, Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, stays, zeros_like
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
        _C._adadelta_step(
            param,
            grad,
            state["square_avg"],
            state["acc_delta"],
            state["step"],
            lr=lr,
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            capturable=stays(state, group),
        )
