"""Rprop."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, stays, zeros_like
from flambeau.optim.optimizer import _check_common, _get_value

__all__ = ["Rprop"]


class Rprop(PlainOptimizer):
    """Steps of a size that grows while the gradient keeps its sign (Riedmiller and Braun, 1993)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_common(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = _get_value(group["lr"])
        return {
            "step": new_step(param, group),
            "prev": zeros_like(param),
            "step_size": flambeau.full_like(
                param,
                complex(lr, lr) if param.is_complex() else lr,
                memory_format=flambeau.preserve_format,
            ),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        _C._rprop_step(
            param,
            grad,
            state["prev"],
            state["step_size"],
            state["step"],
            shrink=group["etas"][0],
            grow=group["etas"][1],
            smallest=group["step_sizes"][0],
            largest=group["step_sizes"][1],
            capturable=stays(state, group),
        )
