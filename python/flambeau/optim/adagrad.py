"""Adagrad."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, stays
from flambeau.optim.optimizer import _check_common, _check_fused

__all__ = ["Adagrad"]


class Adagrad(PlainOptimizer):
    """Divides the gradient by the root of the sum of its squares (Duchi et al., 2011)."""

    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_common(lr)
        if lr_decay < 0.0:
            raise ValueError(f"Invalid lr_decay value: {lr_decay}")
        _check_common(lr, weight_decay, eps)
        if initial_accumulator_value < 0.0:
            raise ValueError(
                f"Invalid initial_accumulator_value value: {initial_accumulator_value}"
            )
        _check_fused(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True  # GradScaler leaves dividing to the step
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._start(param, group)

    def share_memory(self) -> None:
        """Moves the state to memory that other processes can map."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        value = group["initial_accumulator_value"]
        return {
            "step": new_step(param, group),
            "sum": flambeau.full_like(
                param,
                complex(value, value) if param.is_complex() else value,
                memory_format=flambeau.preserve_format,
            ),
        }

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        _C._adagrad_step(
            param,
            grad,
            state["sum"],
            state["step"],
            lr=lr,
            lr_decay=group["lr_decay"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            capturable=stays(state, group),
        )
