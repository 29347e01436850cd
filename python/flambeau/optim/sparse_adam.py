"""Adam for gradients that are sparse: only rows with a gradient move, and only their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer, _get_value

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam (Kingma and Ba, 2014) that leaves what has no gradient in a step as it is."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not _get_value(lr) > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for place, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {place}: {beta}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        sparse_params = []
        complex_params = []
        for number, group in enumerate(self.param_groups):
            for place, param in enumerate(group["params"]):
                if param.is_sparse:
                    sparse_params.append([number, place])
                if param.is_complex():
                    complex_params.append([number, place])
        if sparse_params:
            raise ValueError(
                f"Sparse params at indices {sparse_params}: SparseAdam requires dense parameter "
                "tensors"
            )
        if complex_params:
            raise ValueError(
                f"Complex params at indices {complex_params}: SparseAdam does not support complex "
                "parameters"
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once."""
        loss = self._closure_loss(closure)
        with flambeau.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._update(param, param.grad, group)
        return loss

    def _update(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        if not grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state = self.state[param]
        if not state:
            state["step"] = 0
            state["exp_avg"] = flambeau.zeros_like(param)
            state["exp_avg_sq"] = flambeau.zeros_like(param)
        state["step"] += 1
        grad = (-grad if group["maximize"] else grad).coalesce()
        if grad._values().numel() == 0:
            return
        at, values = tuple(grad._indices()), grad._values()
        beta1, beta2 = group["betas"]
        mean = state["exp_avg"][at].lerp_(values, 1 - beta1)
        square = state["exp_avg_sq"][at].lerp_(values * values, 1 - beta2)
        state["exp_avg"][at] = mean
        state["exp_avg_sq"][at] = square
        correction = (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        update = mean / (square.sqrt() + group["eps"])
        param[at] -= update * (_get_value(group["lr"]) * correction)
