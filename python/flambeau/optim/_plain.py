"""The base of optimizers whose step is a formula in tensor operations, a parameter at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer, _check_step, _get_value


class PlainOptimizer(Optimizer):
    """Subclasses say how the state of a parameter starts and how it and the parameter change.

    Both must be changed in place.
    """

    _takes_sparse = False  # whether gradients may be sparse
    _options: tuple[str, ...] = ("foreach", "maximize", "differentiable", "capturable")

    def _start(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _update(
        self, param: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        """Changes a parameter and its state, given its gradient."""
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name in self._options:
                if name in self.defaults:
                    group.setdefault(name, None if name == "foreach" else False)
            for param in group["params"]:
                own = self.state.get(param, {})
                # Older checkpoints count steps in a plain number.
                if "step" in own and not isinstance(own["step"], Tensor):
                    own["step"] = flambeau.tensor(float(own["step"]), dtype=flambeau.float32)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once."""
        loss = self._closure_loss(closure)
        _check_step(self)
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and found_inf:
            return loss
        scale = getattr(self, "grad_scale", None)
        for group in self.param_groups:
            differentiable = group.get("differentiable", False)
            keep = differentiable or group.get("capturable", False)
            lr = group["lr"] if keep else _get_value(group["lr"])
            with flambeau.set_grad_enabled(differentiable and flambeau.is_grad_enabled()):
                for param in group["params"]:
                    grad = param.grad
                    if grad is None:
                        continue
                    if grad.is_sparse and not self._takes_sparse:
                        raise RuntimeError(
                            f"{type(self).__name__} does not support sparse gradients"
                        )
                    state = self.state[param]
                    if not state:
                        state.update(self._start(param, group))
                    grad = -grad if group.get("maximize") else grad
                    grad = grad if scale is None else grad / scale
                    self._update(param, grad, state, group, lr)
        return loss


def new_step(param: Tensor, group: dict[str, Any]) -> Tensor:
    """A count of steps, kept where the parameter is if its updates are to be captured."""
    device = param.device if group.get("capturable") else None
    return flambeau.zeros((), dtype=flambeau.float32, device=device)


def zeros_like(param: Tensor) -> Tensor:
    """Zeros with a parameter's shape, dtype, device and strides."""
    return flambeau.zeros_like(param, memory_format=flambeau.preserve_format)


def stays(state: dict[str, Any], group: dict[str, Any]) -> bool:
    """Whether numbers of the state stay in tensors: to be captured, or differentiated by."""
    if group.get("capturable"):
        return True
    numbers = (state.get(name) for name in ("step", "eta", "mu", "mu_product"))
    return bool(group.get("differentiable")) and any(
        number is not None and number.requires_grad for number in numbers
    )
