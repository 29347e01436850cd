"""Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.optim.optimizer import (
    Optimizer,
    _check_common,
    _check_fused,
    _check_step,
    _get_value,
)

__all__ = ["Adam", "adam"]


def _check_number(name: str, value: Any, plain: bool) -> None:
    if plain and isinstance(value, Tensor):
        raise ValueError(
            f"{name} as a Tensor is not supported for capturable=False and foreach=True"
        )


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2014): steps scaled by running moments of the gradient.

    All parameters of a group are updated by one op: ``foreach`` and ``fused`` make no difference
    but that what PyTorch refuses with them is refused.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        plain = bool(foreach and not capturable)
        _check_number("lr", lr, plain)
        _check_common(lr, weight_decay, eps, betas)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        _check_number("betas[0]", betas[0], plain)
        _check_fused(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True  # GradScaler leaves dividing to the step

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("capturable", False)
            group.setdefault("differentiable", False)
            group.setdefault("fused", None)
            group.setdefault("decoupled_weight_decay", False)
            for param in group["params"]:
                own = self.state.get(param, {})
                # Older checkpoints count steps in a plain number.
                if "step" in own and not isinstance(own["step"], Tensor):
                    own["step"] = flambeau.tensor(float(own["step"]), dtype=flambeau.float32)

    def _init_state(self, own: dict[str, Any], param: Tensor, group: dict[str, Any]) -> None:
        on_device = group["capturable"] or group["fused"]
        own["step"] = flambeau.zeros(
            (), dtype=flambeau.float32, device=param.device if on_device else None
        )
        own["exp_avg"] = flambeau.zeros_like(param, memory_format=flambeau.preserve_format)
        own["exp_avg_sq"] = flambeau.zeros_like(param, memory_format=flambeau.preserve_format)
        if group["amsgrad"]:
            own["max_exp_avg_sq"] = flambeau.zeros_like(
                param, memory_format=flambeau.preserve_format
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once."""
        loss = None if closure is None else self._closure_loss(closure)
        _check_step(self)
        state = self.state
        for group in self.param_groups:
            params: list[Tensor] = []
            grads: list[Tensor] = []
            exp_avgs: list[Tensor] = []
            exp_avg_sqs: list[Tensor] = []
            max_exp_avg_sqs: list[Tensor] = []
            steps: list[Tensor] = []
            amsgrad = group["amsgrad"]
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                own = state[param]
                if not own:
                    self._init_state(own, param, group)
                params.append(param)
                grads.append(grad)
                exp_avgs.append(own["exp_avg"])
                exp_avg_sqs.append(own["exp_avg_sq"])
                steps.append(own["step"])
                if amsgrad:
                    max_exp_avg_sqs.append(own["max_exp_avg_sq"])
            if params:
                beta1, beta2 = group["betas"]
                adam(
                    params,
                    grads,
                    exp_avgs,
                    exp_avg_sqs,
                    max_exp_avg_sqs,
                    steps,
                    amsgrad=amsgrad,
                    beta1=beta1,
                    beta2=beta2,
                    lr=group["lr"],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    maximize=group["maximize"],
                    capturable=group["capturable"],
                    differentiable=group["differentiable"],
                    grad_scale=getattr(self, "grad_scale", None),
                    found_inf=getattr(self, "found_inf", None),
                    decoupled_weight_decay=group["decoupled_weight_decay"],
                )
        return loss


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step on lists of tensors."""
    if not differentiable and not any(map(_C._is_dispatched, params)):
        # A rate that lies on the device is read there, so that it can change between replays.
        lr_stays = capturable and isinstance(lr, Tensor) and not lr.is_cpu
        _C._adam_step(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            max_exp_avg_sqs,
            state_steps,
            lr=0.0 if lr_stays else _get_value(lr),
            beta1=_get_value(beta1),
            beta2=_get_value(beta2),
            weight_decay=weight_decay,
            eps=eps,
            amsgrad=amsgrad,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
            grad_scale=grad_scale,
            found_inf=found_inf,
            lr_tensor=lr if lr_stays else None,
        )
        return
    with flambeau.set_grad_enabled(differentiable):
        _differentiable_adam(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            max_exp_avg_sqs if amsgrad else None,
            state_steps,
            (lr, beta1, beta2, weight_decay, eps),
            maximize,
            decoupled_weight_decay,
        )


def _differentiable_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor] | None,
    state_steps: list[Tensor],
    options: tuple[Any, ...],
    maximize: bool,
    decoupled_weight_decay: bool,
) -> None:
    """The same step in recorded operations, so that it can be differentiated."""
    lr, beta1, beta2, weight_decay, eps = options
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        grad = -grad if maximize else grad
        step = state_steps[i]
        step.add_(1)
        if not flambeau.is_grad_enabled():
            step = step.item()  # with all the digits of a number
        if weight_decay != 0:
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = grad + param.clone() * weight_decay  # as it was before this step
        if isinstance(beta1, Tensor):
            # Copies, because the rates' gradients want what was there before.
            exp_avgs[i].copy_(flambeau.lerp(exp_avgs[i].clone(), grad, 1 - beta1))
            exp_avg_sqs[i].copy_(exp_avg_sqs[i].clone() * beta2 + grad * grad.conj() * (1 - beta2))
        else:
            exp_avgs[i].lerp_(grad, 1 - beta1)
            exp_avg_sqs[i].mul_(beta2).addcmul_(grad, grad.conj(), value=1 - beta2)
        second = exp_avg_sqs[i]
        if max_exp_avg_sqs is not None:
            # Copies, because backward wants what is written to here and in the next step.
            second = flambeau.maximum(max_exp_avg_sqs[i].clone(), second.clone())
            max_exp_avg_sqs[i].copy_(second)
        denominator = (second.clone() / (1 - beta2**step)).sqrt() + eps
        param.add_(exp_avgs[i].clone() / denominator * (-lr / (1 - beta1**step)))
