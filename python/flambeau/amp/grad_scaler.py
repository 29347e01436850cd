"""GradScaler: multiplies the loss, so that small gradients do not vanish in half precision, and
divides the gradients before the optimizer sees them.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from enum import Enum

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from flambeau import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done with the gradients of an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf": False}


class GradScaler:
    """Scales losses by a factor that halves when gradients overflow, and grows while they do not.

    Args:
        device: where the model is.
        init_scale: the first factor.
        growth_factor: what it grows by after growth_interval steps without an overflow.
        backoff_factor: what it shrinks by after an overflow, whose step is left out.
        growth_interval: see above.
        enabled: False to do nothing at all.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device == "cuda" and not flambeau.cuda.is_available():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        if enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._scale: float | None = None
        self._growth_tracker = 0
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh_state)

    def _start(self) -> float:
        """The factor, made when it is first needed."""
        if self._scale is None:
            self._scale = float(self._init_scale)
            self._growth_tracker = self._init_growth_tracker
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a nest of them, times the factor."""
        if not self._enabled:
            return outputs
        factor = self._start()
        if isinstance(outputs, flambeau.Tensor):
            return outputs * factor
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(item) for item in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, gradients: Iterable[Tensor], inverse: float) -> bool:
        """Divides gradients in place; whether any of them is not finite."""
        found = False
        for gradient in gradients:
            if gradient.dtype == flambeau.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            values = gradient._values() if gradient.is_sparse else gradient
            if not found and not bool(values.isfinite().all()):
                found = True
            values.mul_(inverse)
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the factor, to look at them or to
        clip them before `step`.
        """
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        gradients = [
            parameter.grad
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        state["seen"] = bool(gradients)
        with flambeau.no_grad():
            state["found_inf"] = self._unscale_grads_(gradients, 1.0 / self._start())
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Lets an optimizer step, unless a gradient overflowed; what its step gave back."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["seen"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if state["found_inf"] else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adapts the factor to what happened since the last update, or sets it."""
        if not self._enabled:
            return
        self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if isinstance(new_scale, flambeau.Tensor):
                if new_scale.numel() != 1 or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element tensor that does not require "
                        "grad"
                    )
                new_scale = new_scale.item()
            self._scale = float(new_scale)
        else:
            states = [s for s in self._per_optimizer_states.values() if "seen" in s]
            if not states:
                raise AssertionError("No inf checks were recorded prior to update.")
            self._adapt(any(state["found_inf"] for state in states))
        self._per_optimizer_states.clear()

    def _adapt(self, overflow: bool) -> None:
        if overflow:
            self._scale = self._start() * self._backoff_factor
            self._growth_tracker = 0
            return
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._start() * self._growth_factor
            # A factor that overflows itself would spoil every gradient.
            if grown <= flambeau.finfo(flambeau.float32).max:
                self._scale = grown
            self._growth_tracker = 0

    def _check_scale_growth_tracker(self, name: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )

    def get_scale(self) -> float:
        """The factor; 1 where scaling is disabled."""
        if not self._enabled:
            return 1.0
        return float(self._init_scale) if self._scale is None else self._scale

    def get_growth_factor(self) -> float:
        """What the factor grows by."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the factor grows by."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor shrinks by."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the factor shrinks by."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps without an overflow the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many steps without an overflow the factor grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        return self._growth_tracker if self._enabled else 0

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; empty where scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what a checkpoint kept."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale = float(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        self._growth_tracker = self._init_growth_tracker
