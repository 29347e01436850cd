"""Learning rate schedules: the rates that their definitions give."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.optim import lr_scheduler as schedules


def sgd(lr: float = 1.0, groups: int = 1) -> optim.SGD:
    return optim.SGD(
        [{"params": [nn.Parameter(torch.ones(1))]} for _ in range(groups)], lr=lr, momentum=0.9
    )


def rates(make: Any, steps: int, **options: Any) -> list[float]:
    """The rates before and after each of some steps."""
    optimizer = sgd(**options)
    scheduler = make(optimizer)
    found = [optimizer.param_groups[0]["lr"]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        assert scheduler.get_last_lr()[0] == optimizer.param_groups[0]["lr"]
        found.append(optimizer.param_groups[0]["lr"])
    return found


def cosine(epoch: float, length: float, low: float = 0.0) -> float:
    return low + (1 - low) * (1 + math.cos(math.pi * epoch / length)) / 2


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda o: schedules.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]),
        (lambda o: schedules.MultiStepLR(o, [1, 3, 3], 0.5), [1, 0.5, 0.5, 0.125, 0.125]),
        (lambda o: schedules.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125]),
        (lambda o: schedules.ConstantLR(o, 0.25, 2), [0.25, 0.25, 1, 1]),
        (lambda o: schedules.LinearLR(o, 0.5, 1.0, 4), [0.5, 0.625, 0.75, 0.875, 1, 1]),
        (lambda o: schedules.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25, 0, 0]),
        (lambda o: schedules.LambdaLR(o, lambda e: 1 / (1 + e)), [1, 1 / 2, 1 / 3, 1 / 4]),
        (lambda o: schedules.MultiplicativeLR(o, lambda e: 0.5), [1, 0.5, 0.25]),
        (lambda o: schedules.CosineAnnealingLR(o, 4, 0.1), [cosine(e, 4, 0.1) for e in range(11)]),
        (
            lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
            [cosine(0, 2), cosine(1, 2), *[cosine(e, 4) for e in range(4)], 1],
        ),
        (lambda o: schedules.CyclicLR(o, 1.0, 3.0, 2), [1, 2, 3, 2, 1, 2]),
        (
            lambda o: schedules.CyclicLR(o, 1.0, 3.0, 1, 1, mode="triangular2"),
            [1, 3, 1, 2, 1, 1.5, 1],
        ),
        (
            lambda o: schedules.SequentialLR(
                o, [schedules.ConstantLR(o, 0.5, 9), schedules.ExponentialLR(o, 0.5)], [2]
            ),
            [0.5, 0.5, 1, 0.5, 0.25],
        ),
        (
            lambda o: schedules.ChainedScheduler(
                [schedules.ConstantLR(o, 0.5, 2), schedules.ExponentialLR(o, 0.5)]
            ),
            [0.5, 0.25, 0.25, 0.125],
        ),
    ],
)
def test_rates(make: Any, want: list[float]) -> None:
    assert rates(make, len(want) - 1) == pytest.approx(want, abs=1e-12)


def test_one_cycle() -> None:
    optimizer = sgd()
    scheduler = schedules.OneCycleLR(optimizer, 1.0, total_steps=11, anneal_strategy="linear")
    group = optimizer.param_groups[0]
    found = [(group["lr"], group["momentum"])]
    for _ in range(10):
        optimizer.step()
        scheduler.step()
        found.append((group["lr"], group["momentum"]))
    assert found[0] == pytest.approx((0.04, 0.95))
    assert found[-1] == pytest.approx((0.04e-4, 0.95))
    assert max(lr for lr, _ in found) == pytest.approx(0.96, abs=0.06)
    with pytest.raises(ValueError, match="Tried to step 12 times"):
        for _ in range(3):
            scheduler.step()
    with pytest.raises(ValueError, match="You must define either total_steps"):
        schedules.OneCycleLR(optimizer, 1.0)


def test_plateau_lowers_the_rate_when_the_metric_stalls() -> None:
    optimizer = sgd()
    scheduler = schedules.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, min_lr=0.2)
    found = []
    for metric in [3, 2, 2, 2, 2, 2, torch.tensor(2.0), 2, 2]:
        scheduler.step(metric)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2]
    upward = schedules.ReduceLROnPlateau(sgd(), mode="max", patience=0)
    upward.step(1.0)
    upward.step(2.0)
    assert upward.get_last_lr() == [1]
    upward.step(2.0)
    assert upward.get_last_lr() == pytest.approx([0.1])


def test_each_group_has_its_rate() -> None:
    optimizer = sgd(groups=2)
    optimizer.param_groups[1]["lr"] = 10.0
    scheduler = schedules.LambdaLR(optimizer, [lambda e: 0.5**e, lambda e: e + 1])
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.5, 20]
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        schedules.LambdaLR(optimizer, [lambda e: 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda o: schedules.StepLR(o, 2),
        lambda o: schedules.CosineAnnealingLR(o, 5),
        lambda o: schedules.LambdaLR(o, lambda e: 0.9**e),
        lambda o: schedules.OneCycleLR(o, 1.0, total_steps=20),
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o), schedules.ExponentialLR(o, 0.9)], [3]
        ),
    ],
)
def test_schedules_survive_a_checkpoint(make: Any) -> None:
    first, second = sgd(), sgd()
    one, other = make(first), make(second)
    for _ in range(4):
        first.step()
        one.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for _ in range(4):
        for optimizer, scheduler in ((first, one), (second, other)):
            optimizer.step()
            scheduler.step()
    assert first.param_groups[0]["lr"] == pytest.approx(second.param_groups[0]["lr"])


def test_a_step_put_in_the_place_of_the_optimizer_s_is_told() -> None:
    optimizer = sgd()
    scheduler = schedules.StepLR(optimizer, 1)
    optimizer.step = lambda: None  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match=r"overridden.*how-to-adjust-learning-rate"):
        scheduler.step()


def test_the_order_of_steps_is_watched() -> None:
    scheduler = schedules.StepLR(sgd(), 1)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    optimizer = sgd()
    scheduler = schedules.StepLR(optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        scheduler.get_lr()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(3)
    assert scheduler.get_last_lr() == pytest.approx([1e-3])


def test_a_tensor_rate_is_changed_in_place() -> None:
    rate = torch.tensor(1.0)
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=rate)
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    scheduler.step()
    assert rate.item() == 0.5 and optimizer.param_groups[0]["lr"] is rate


def test_own_schedules_derive_from_either_name() -> None:
    class Halve(schedules._LRScheduler):
        def get_lr(self) -> list[float]:
            return [base * 0.5**self.last_epoch for base in self.base_lrs]

    assert isinstance(Halve(sgd()), schedules.LRScheduler)
    assert rates(Halve, 2) == [1, 0.5, 0.25]
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        Halve(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="initial_lr"):
        Halve(sgd(), last_epoch=2)


def test_cyclic_lr_keeps_its_momenta_in_the_groups_and_apart_from_the_callers() -> None:
    lr, top = torch.tensor(0.1), torch.tensor(0.9)
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=lr, momentum=0.5)
    scheduler = schedules.CyclicLR(optimizer, lr, torch.tensor(0.2), max_momentum=top)
    lr.mul_(0.5)
    top.mul_(0.5)
    optimizer.step()
    scheduler.step()
    group = optimizer.param_groups[0]
    assert float(group["max_momentum"]) == pytest.approx(0.9)
    assert float(group["base_momentum"]) == pytest.approx(0.8)
    assert [float(rate) for rate in scheduler.base_lrs] == pytest.approx([0.1])


def test_one_cycle_lr_does_not_write_to_its_own_limits() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.5)
    scheduler = schedules.OneCycleLR(
        optimizer, 0.1, total_steps=10, max_momentum=torch.tensor(0.95)
    )
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    assert float(optimizer.param_groups[0]["max_momentum"]) == pytest.approx(0.95)
