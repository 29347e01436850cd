"""GradScaler: multiplies the loss, so that small gradients do not vanish in half precision, and
divides the gradients before the optimizer sees them. Factor, overflows and steps without one are
counted where the model is, so that only `step` has to wait for a device.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from enum import Enum

import flambeau
from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """What has been done with the gradients of an optimizer since the last update."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _refresh_per_optimizer_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def _amp_update_scale_(
    scale: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """Adapts a scale in place to whether an infinity was found, without asking the device."""
    overflow = found_inf != 0
    steps = growth_tracker + 1
    grows = steps == growth_interval
    grown = scale * growth_factor
    # A scale that overflows itself would spoil every gradient.
    grown = flambeau.where(grows & grown.isfinite(), grown, scale)
    scale.copy_(flambeau.where(overflow, scale * backoff_factor, grown))
    growth_tracker.copy_(steps.masked_fill(overflow | grows, 0))
    return scale


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
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(
            _refresh_per_optimizer_state
        )

    def _lazy_init_scale_growth_tracker(self, device: Any) -> None:
        self._scale = flambeau.full((), self._init_scale, dtype=flambeau.float32, device=device)
        self._growth_tracker = flambeau.full(
            (), self._init_growth_tracker, dtype=flambeau.int32, device=device
        )

    def _check_scale_growth_tracker(self, name: str) -> tuple[Tensor, Tensor]:
        missing = "_scale" if self._scale is None else "_growth_tracker"
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {name} but {missing} is None.  This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    def scale(self, outputs: Any) -> Any:
        """A tensor, or a nest of them, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, flambeau.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            assert self._scale is not None
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(item) for item in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiplies an optimizer's gradients in place; by device, whether any is not finite."""
        by_device: dict[Any, list[Tensor]] = {}
        with flambeau.no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    gradient = parameter.grad
                    if not allow_fp16 and gradient.dtype == flambeau.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if gradient.is_sparse:
                        if gradient.dtype == flambeau.float16:
                            # Sums of half precision may overflow where their parts do not.
                            parameter.grad = gradient = gradient.coalesce()
                        gradient = gradient._values()
                    by_device.setdefault(gradient.device, []).append(gradient)
            found = {device: found_inf.to(device, copy=True) for device in by_device}
            for device, gradients in by_device.items():
                _C._amp_foreach_non_finite_check_and_unscale_(
                    gradients, found[device], inv_scale.to(device)
                )
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the factor, to look at them or to
        clip them before `step`.
        """
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, inverse, flambeau.zeros_like(scale), False
        )
        state["stage"] = OptState.UNSCALED

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        """Looks for infinities in the gradients as they are, without dividing them."""
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(
            optimizer, flambeau.ones_like(scale), flambeau.zeros_like(scale), True
        )
        return state["found_inf_per_device"]

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Tensor]:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """The optimizer's step, unless an infinity was found: here the device is waited for."""
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def _step_of_fused(
        self, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """The step of an optimizer that divides by the factor itself and leaves a step out where
        gradients overflowed, on the device.
        """
        scale, _ = self._check_scale_growth_tracker("step")
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        found = list(state["found_inf_per_device"].values())
        optimizer.found_inf = sum(one.to(scale.device) for one in found) if found else None
        optimizer.grad_scale = scale if state["stage"] is OptState.READY else None
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

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
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_of_fused(optimizer, state, *args, **kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adapts the factor to what happened since the last update, or sets it."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is None:
            found = [
                one.to(scale.device)
                for state in self._per_optimizer_states.values()
                for one in state["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            with flambeau.no_grad():
                _amp_update_scale_(
                    scale,
                    tracker,
                    sum(found[1:], start=found[0]),
                    self._growth_factor,
                    self._backoff_factor,
                    self._growth_interval,
                )
        elif not isinstance(new_scale, flambeau.Tensor):
            scale.fill_(float(new_scale))
        elif new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(
                "new_scale should be a float or a 1-element tensor that does not require grad"
            )
        else:
            scale.copy_(new_scale.reshape(()))
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The factor, for which the device is waited for; 1 where scaling is disabled."""
        if not self._enabled:
            return 1.0
        return float(self._init_scale) if self._scale is None else float(self._scale.item())

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
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker.item())

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
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self) -> dict[str, Any]:
        """Where it is pickled the factor becomes a number, which any device can begin with."""
        state = dict(self.__dict__)
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, "
                    "or at the end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state
