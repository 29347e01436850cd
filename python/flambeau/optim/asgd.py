"""ASGD."""

from __future__ import annotations

from typing import Any

from flambeau import _C, Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, stays, zeros_like
from flambeau.optim.optimizer import _check_common, _get_value

__all__ = ["ASGD"]


class ASGD(PlainOptimizer):
    """Gradient descent that also averages the parameters (Polyak and Juditsky, 1992)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_common(lr, weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
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
            "eta": new_step(param, group) + _get_value(group["lr"]),
            "mu": new_step(param, group) + 1.0,
            "ax": zeros_like(param),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        _C._asgd_step(
            param,
            grad,
            state["ax"],
            state["eta"],
            state["mu"],
            state["step"],
            lr=lr,
            lambd=group["lambd"],
            alpha=group["alpha"],
            t0=group["t0"],
            weight_decay=group["weight_decay"],
            capturable=stays(state, group),
        )
