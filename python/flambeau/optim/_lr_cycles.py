"""Schedules that rise and fall: CyclicLR, OneCycleLR, CosineAnnealingWarmRestarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.optim._lr_base import (
    LRScheduler,
    check_optimizer,
    copied,
    option_values,
    per_group,
    set_option,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flambeau.optim.optimizer import Optimizer


def _uses_beta1(optimizer: Optimizer) -> bool:
    """Whether the optimizer's momentum is the first of its betas; raises if it has none."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], use_beta1: bool, momentum: Any) -> None:
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Goes back and forth between two rates, momentum the other way (Smith, 2015)."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = check_optimizer(optimizer)
        if last_epoch == -1:
            for group, lr in zip(
                optimizer.param_groups, per_group("base_lr", base_lr, optimizer), strict=True
            ):
                set_option(group, "lr", lr)
        self.max_lrs = per_group("max_lr", max_lr, optimizer)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALE_MODES[mode]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            self.base_momentums = per_group("base_momentum", base_momentum, optimizer)
            self.max_momentums = per_group("max_momentum", max_momentum, optimizer)
            if last_epoch == -1:
                for base, top, group in zip(
                    self.base_momentums, self.max_momentums, optimizer.param_groups, strict=True
                ):
                    _set_momentum(group, self.use_beta1, copied(top))
                    group["max_momentum"] = top
                    group["base_momentum"] = base
        super().__init__(optimizer, last_epoch)
        self.base_lrs = per_group("base_lr", base_lr, optimizer)

    def scale_fn(self, x: float) -> float:
        """By how much the amplitude is scaled in cycle (or iteration) ``x``."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x

    def get_lr(self) -> list[Any]:
        self._warn_if_called_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        position = 1.0 + self.last_epoch / self.total_size - cycle
        if position <= self.step_ratio:
            height = position / self.step_ratio
        else:
            height = (position - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for base, top, group in zip(
                self.base_momentums,
                self.max_momentums,
                self.optimizer.param_groups,
                strict=True,
            ):
                _set_momentum(group, self.use_beta1, top - (top - base) * height * scale)
        return [
            base + (top - base) * height * scale
            for base, top in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """The state; of a scale function only its attributes, if it is an object with some."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None
        if function is not None and not hasattr(function, "__code__"):
            state["_scale_fn_custom"] = function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict returned."""
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if attributes is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(attributes)


_SCALE_MODES = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class OneCycleLR(LRScheduler):
    """One rise and one long fall, momentum the other way (Smith and Topin, 2017)."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = check_optimizer(optimizer)
        self.total_steps = _one_cycle_length(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _one_cycle_phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _uses_beta1(optimizer)
            max_momentums = per_group("max_momentum", max_momentum, optimizer)
            base_momentums = per_group("base_momentum", base_momentum, optimizer)
            if last_epoch == -1:
                for top, base, group in zip(
                    max_momentums, base_momentums, optimizer.param_groups, strict=True
                ):
                    _set_momentum(group, self.use_beta1, copied(top))
                    group["max_momentum"] = top
                    group["base_momentum"] = base
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: float, end: float, fraction: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * fraction) + 1)
        return (end - start) * fraction + start

    def get_lr(self) -> list[Any]:
        self._warn_if_called_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start_step = 0.0
        for phase in self._schedule_phases:
            end_step = phase["end_step"]
            if step <= end_step or phase is self._schedule_phases[-1]:
                fraction = (step - start_step) / (end_step - start_step)
                break
            start_step = end_step
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(
                self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], fraction)
            )
            if self.cycle_momentum:
                momentum = self._anneal_func(
                    group[phase["start_momentum"]], group[phase["end_momentum"]], fraction
                )
                _set_momentum(group, self.use_beta1, momentum)
        return lrs


def _one_cycle_length(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if not isinstance(epochs, int) or epochs <= 0:
        raise ValueError(f"Expected positive integer epochs, but got {epochs}")
    if not isinstance(steps_per_epoch, int) or steps_per_epoch <= 0:
        raise ValueError(f"Expected positive integer steps_per_epoch, but got {steps_per_epoch}")
    return epochs * steps_per_epoch


def _one_cycle_phases(total_steps: int, pct_start: float, three_phase: bool) -> list[Any]:
    """Where each phase ends, and between which of the groups' values it goes."""

    def phase(end_step: float, start: str, end: str, rising: bool) -> dict[str, Any]:
        momenta = ["max_momentum", "base_momentum"]
        if not rising:
            momenta.reverse()
        return {
            "end_step": end_step,
            "start_lr": start,
            "end_lr": end,
            "start_momentum": momenta[0],
            "end_momentum": momenta[1],
        }

    rise = phase(float(pct_start * total_steps) - 1, "initial_lr", "max_lr", True)
    if not three_phase:
        return [rise, phase(total_steps - 1, "max_lr", "min_lr", False)]
    last = phase(total_steps - 1, "initial_lr", "min_lr", False)
    last["start_momentum"] = last["end_momentum"] = "max_momentum"
    return [
        rise,
        phase(float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", False),
        last,
    ]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Falls along a cosine and starts again, each time T_mult times longer (SGDR, 2016)."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_if_called_outside_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Goes to the next epoch, or to ``epoch``, which may be a fraction of one."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            lrs = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, lrs, strict=True):
            set_option(group, "lr", lr)
        self._last_lr = option_values(self.optimizer, "lr")

    def _go_to(self, epoch: float) -> None:
        """Finds the cycle that an epoch lies in, and the place in it."""
        if epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_i = self.T_0
            self.T_cur = epoch % self.T_0
        else:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            length_before = self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
            self.T_cur = epoch - length_before
            self.T_i = self.T_0 * self.T_mult**cycle
