"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.optim.optimizer import (
    Optimizer,
    _check_common,
    _check_devices,
    _check_fused,
    _get_value,
)

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with (Nesterov) momentum.

    All parameters of a group are updated by one op: ``foreach`` and ``fused`` make no difference
    but that what PyTorch refuses with them is refused.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_common(lr)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        _check_fused(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True  # GradScaler leaves dividing to the step

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("differentiable", False)
            group.setdefault("fused", None)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once."""
        loss = None if closure is None else self._closure_loss(closure)
        state = self.state
        found_inf = getattr(self, "found_inf", None)
        for group in self.param_groups:
            params: list[Tensor] = []
            grads: list[Tensor] = []
            for param in group["params"]:
                grad = param.grad
                if grad is not None:
                    params.append(param)
                    grads.append(grad)
            if not params:
                continue
            if group["fused"]:
                _check_devices(group)
            buffers: list[Tensor | None] = []
            if group["momentum"] != 0:
                buffers = [state[param].get("momentum_buffer") for param in params]
            sgd(
                params,
                grads,
                buffers,
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=found_inf,
                differentiable=group["differentiable"],
            )
            for param, buffer in zip(params, buffers, strict=False):
                state[param]["momentum_buffer"] = buffer
        return loss


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: Any,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    differentiable: bool = False,
) -> None:
    """One step on lists of tensors; buffers that are None are put into the list."""
    if differentiable or any(map(_C._is_dispatched, params)):
        with flambeau.set_grad_enabled(differentiable):
            numbers = (weight_decay, momentum, lr, dampening, nesterov, maximize)
            _differentiable_sgd(params, d_p_list, momentum_buffer_list, *numbers)
        return
    options = {
        "lr": _get_value(lr),
        "momentum": momentum,
        "dampening": dampening,
        "weight_decay": _get_value(weight_decay),
        "nesterov": nesterov,
        "maximize": maximize,
        "grad_scale": grad_scale,
        "found_inf": found_inf,
    }
    fresh = [i for i, buffer in enumerate(momentum_buffer_list) if buffer is None]
    if fresh and found_inf:
        return  # this is no step, and buffers have not begun
    if not fresh:
        _C._sgd_step(params, d_p_list, momentum_buffer_list, first_step=False, **options)
        return
    # A buffer starts as the gradient itself, which the op is told to write into it.
    for i in fresh:
        momentum_buffer_list[i] = flambeau.empty_like(d_p_list[i])
    known = sorted(set(range(len(params))).difference(fresh))
    for indices, first_step in ((fresh, True), (known, False)):
        if indices:
            _C._sgd_step(
                [params[i] for i in indices],
                [d_p_list[i] for i in indices],
                [momentum_buffer_list[i] for i in indices],
                first_step=first_step,
                **options,
            )


def _differentiable_sgd(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor | None],
    weight_decay: Any,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """The same step in recorded operations, so that it can be differentiated."""
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        grad = -grad if maximize else grad
        if isinstance(weight_decay, flambeau.Tensor) or weight_decay != 0:
            grad = grad + param.clone() * weight_decay  # as it was before this step
        if momentum != 0:
            buffer = buffers[i]
            buffer = grad.clone() if buffer is None else buffer * momentum + grad * (1 - dampening)
            buffers[i] = buffer
            grad = grad + buffer * momentum if nesterov else buffer
        param.add_(grad * -lr)
