"""Averages of weights over training: stochastic weight averaging, and exponential averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn import Module
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.optim._lr_base import LRScheduler, per_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """The function that moves an average towards a parameter by 1 - decay."""
    _check_decay(decay)

    def ema_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with flambeau.no_grad():
            return decay * average + (1 - decay) * current

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """The same for lists of averages, in place."""
    _check_decay(decay)

    def ema_update(averages: Any, currents: Any, num_averaged: Any) -> None:
        with flambeau.no_grad():
            for average, current in zip(averages, currents):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current, 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The function that takes a parameter into an average of all so far."""

    def swa_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with flambeau.no_grad():
            return average + (current - average) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The same for lists of averages, in place."""

    def swa_update(averages: Any, currents: Any, num_averaged: Any) -> None:
        with flambeau.no_grad():
            share = 1 / (float(num_averaged) + 1)
            for average, current in zip(averages, currents):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current, share)
                else:
                    average.copy_(average + (current - average) * share)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's over time.

    Args:
        model: the model, which is copied.
        device: where the averages are.
        avg_fn: gives the new average from the old, a parameter, and how many there were.
        multi_avg_fn: does so in place for lists; one of both may be given, the mean is the default.
        use_buffers: whether buffers are averaged too; otherwise they are copied from the model.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        count = flambeau.tensor(0, dtype=flambeau.long, device=device or "cpu")
        self.register_buffer("n_averaged", count)
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Any) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [*model.parameters(), *buffers]

    def update_parameters(self, model: Module) -> None:
        """Takes the parameters of the model into the averages."""
        own = [tensor.detach() for tensor in self._averaged(self.module)]
        theirs = [
            tensor.detach().to(average.device)
            for tensor, average in zip(self._averaged(model), own)
        ]
        if self.n_averaged == 0:
            for average, tensor in zip(own, theirs):
                average.copy_(tensor)
        elif self.avg_fn is not None:
            for average, tensor in zip(own, theirs):
                count = self.n_averaged.to(average.device)
                average.copy_(self.avg_fn(average, tensor, count))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update(own, theirs, self.n_averaged)
        if not self.use_buffers:
            for average, tensor in zip(self.module.buffers(), model.buffers()):
                average.detach().copy_(tensor.detach().to(average.device))
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch normalization anew, by one pass over data."""
    momenta = {}
    for part in model.modules():
        if isinstance(part, _BatchNorm):
            part.reset_running_stats()
            momenta[part] = part.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for part in momenta:
        # Without a momentum, statistics are means over all batches.
        part.momentum = None
    with flambeau.no_grad():
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    for part, momentum in momenta.items():
        part.momentum = momentum
    model.train(was_training)


def _cosine(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2


def _straight(t: float) -> float:
    return t


class SWALR(LRScheduler):
    """Leads the learning rate to `swa_lr` within anneal_epochs, where it stays.

    Args:
        optimizer: the optimizer.
        swa_lr: the learning rate at the end, for all groups or for each.
        anneal_epochs: how many steps it takes.
        anneal_strategy: "cos" or "linear".
        last_epoch: the number of the last step.
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", swa_lr, optimizer)
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the way is done after a step."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (_cosine if self._anneal_strategy == "cos" else _straight)(done)

    def get_lr(self) -> list[Any]:
        """The rates of the next step, from the current ones, which another schedule may set."""
        # Counted from where this object began: one made to go on starts from the rates it finds.
        step = self._step_count - 1
        step = max(1, step) if self.anneal_epochs == 0 else step
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
