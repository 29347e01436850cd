"""LRScheduler: the base of the learning rate schedules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from weakref import ref

from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)


def check_optimizer(optimizer: Any) -> Optimizer:
    """Raises unless ``optimizer`` is one."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option of a group; one that is a tensor keeps its identity."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def copied(value: Any) -> Any:
    """``value``, or a clone of it if it is a tensor."""
    return value.clone() if isinstance(value, Tensor) else value


def option_values(optimizer: Optimizer, key: str) -> list[Any]:
    """The values of one option over all groups."""
    return [copied(group[key]) for group in optimizer.param_groups]


def per_group(name: str, value: Any, optimizer: Optimizer) -> list[Any]:
    """``value`` for each group: a list of as many as there are groups, or one for all.

    Tensors are copied: what the caller writes to his later must not change the schedule.
    """
    if isinstance(value, (list, tuple)):
        if len(value) != len(optimizer.param_groups):
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. {name} has "
                f"{len(value)} values, param_groups has {len(optimizer.param_groups)}."
            )
        return [copied(one) for one in value]
    return [copied(value) for _ in optimizer.param_groups]


class LRScheduler:
    """Sets the learning rate of every group after each epoch: subclasses define ``get_lr``.

    ``get_lr`` computes the next rates from the present ones, so that schedules can be chained.
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(optimizer)
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", copied(group["lr"]))
        else:
            for number, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        "param 'initial_lr' is not specified in "
                        f"param_groups[{number}] when resuming scheduler with last_epoch >= 0.\n"
                        "This typically happens when:\n"
                        "1. You're trying to resume training from a checkpoint but haven't "
                        "properly loaded the optimizer state\n"
                        "2. You're using last_epoch >= 0 for a fresh training run "
                        "(not recommended)"
                    )
        self.base_lrs: list[Any] = option_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _count_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Sets the first learning rates."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates set last, one a group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The next learning rates; only ``step`` calls it."""
        raise NotImplementedError

    def _warn_if_called_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, "
                "please use `get_last_lr()`.",
                stacklevel=3,
            )

    def _current_lrs(self) -> list[Any]:
        return option_values(self.optimizer, "lr")

    def _scaled(self, factor: Any) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch (or to ``epoch``) and sets the learning rates."""
        if self._step_count == 1:
            self._warn_if_before_optimizer()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed_form()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, "lr", lr)
        self._last_lr = self._current_lrs()

    def _warn_if_before_optimizer(self) -> None:
        """Warns at the first step if the optimizer has not stepped before."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: "
                "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will "
                "result in PyTorch skipping the first value of the learning rate schedule. See "
                "more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
                stacklevel=3,
            )


def _count_steps(optimizer: Optimizer) -> None:
    """Has the optimizer note that its ``step`` was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    # Held weakly: the optimizer must not keep itself alive through its own attribute.
    optimizer_ref = ref(optimizer)
    function: Callable[..., Any] = optimizer.step.__func__  # type: ignore[attr-defined]

    def step(*args: Any, **kwargs: Any) -> Any:
        owner: Any = optimizer_ref()
        owner._opt_called = True
        # The class's step is looked up anew, for it may have been given hooks meanwhile.
        current = function if function is not base_step else type(owner).step
        return current(owner, *args, **kwargs)

    base_step = type(optimizer).step
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]


# The old name, which programs still derive their schedules from.
class _LRScheduler(LRScheduler):
    """The old name of LRScheduler."""
