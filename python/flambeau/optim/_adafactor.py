"""Adafactor."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim._plain import PlainOptimizer, new_step, zeros_like

__all__ = ["Adafactor"]


class Adafactor(PlainOptimizer):
    """Adam with the squares kept as a row times a column (Shazeer and Stern, 2018)."""

    _options = ("foreach", "maximize")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if lr < 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if beta2_decay > 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if eps[1] < 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if weight_decay < 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state = {"step": new_step(param, group)}
        if param.dim() > 1:
            rows, columns = list(param.shape), list(param.shape)
            rows[-1] = columns[-2] = 1
            state["row_var"] = param.new_zeros(rows)
            state["col_var"] = param.new_zeros(columns)
        else:
            state["variance"] = zeros_like(param)
        return state

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state["step"] += 1
        step = float(state["step"])
        eps1, eps2 = group["eps"]
        if eps1 is None:
            eps1 = flambeau.finfo(param.dtype).eps
        new_weight = step ** group["beta2_decay"]
        rate = max(eps2, _root_mean_square(param)) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        square = grad * grad
        if param.dim() > 1:
            rows = state["row_var"].lerp_(square.mean(dim=-1, keepdim=True), new_weight)
            columns = state["col_var"].lerp_(square.mean(dim=-2, keepdim=True), new_weight)
            variance = rows @ columns / rows.mean(dim=-2, keepdim=True).clamp_min(eps1)
        else:
            variance = state["variance"].lerp_(square, new_weight)
        update = grad * variance.clamp_min(eps1 * eps1).rsqrt()
        clip = max(1.0, _root_mean_square(update) / group["d"])
        param.add_(update * (-rate / clip))


def _root_mean_square(tensor: Tensor) -> float:
    return float(tensor.norm(2)) / tensor.numel() ** 0.5
