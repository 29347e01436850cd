"""Initial values: their ranges and moments, and where they come from."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import init
from flambeau.utils._python_dispatch import TorchDispatchMode


def spread(tensor: torch.Tensor) -> tuple[float, float, float]:
    values = tensor.double()
    return float(values.mean()), float(values.std()), float(values.abs().max())


def test_layers_start_within_their_bounds() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(400, 300)
    mean, std, largest = spread(layer.weight)
    assert abs(mean) < 1e-3 and largest <= 1 / 20 and abs(std - 0.05 / math.sqrt(3)) < 1e-3
    assert float(layer.bias.abs().max()) <= 1 / 20
    conv = nn.Conv2d(4, 8, 5)
    assert float(conv.weight.abs().max()) <= 1 / 10 and float(conv.bias.abs().max()) <= 1 / 10
    table = nn.Embedding(100, 100)
    assert abs(spread(table.weight)[1] - 1) < 0.02


def test_the_same_seed_gives_the_same_layer() -> None:
    torch.manual_seed(5)
    first = nn.Linear(3, 4)
    torch.manual_seed(5)
    second = nn.Linear(3, 4)
    assert torch.equal(first.weight, second.weight) and torch.equal(first.bias, second.bias)


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda w: init.xavier_uniform_(w, 2.0), 2 * math.sqrt(2 / 700)),
        (lambda w: init.xavier_normal_(w), math.sqrt(2 / 700)),
        (lambda w: init.kaiming_uniform_(w, nonlinearity="relu"), math.sqrt(2 / 400)),
        (
            lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
            math.sqrt(2 / 300),
        ),
        (lambda w: init.kaiming_normal_(w, a=1), math.sqrt(1 / 400)),
        (lambda w: init.normal_(w, 0, 3), 3),
        (lambda w: init.uniform_(w, -1, 1), 1 / math.sqrt(3)),
    ],
)
def test_standard_deviations(fill: Any, std: float) -> None:
    torch.manual_seed(0)
    weight = torch.empty(300, 400)
    assert fill(weight) is weight
    mean, found, _ = spread(weight)
    assert abs(mean) < 0.02 * std and abs(found / std - 1) < 0.02


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"), [(0, 1, -2, 2), (0, 0.02, -2, 2), (0, 1, 1, 2), (3, 2, 9, 11)]
)
def test_truncated_normal_stays_inside(mean: float, std: float, a: float, b: float) -> None:
    torch.manual_seed(0)
    drawn = init.trunc_normal_(torch.empty(2000), mean, std, a, b)
    assert float(drawn.min()) >= a and float(drawn.max()) <= b
    if a < mean < b:
        assert abs(float(drawn.mean()) - mean) < 0.1 * std


def test_fixed_values() -> None:
    assert init.zeros_(torch.ones(2)).tolist() == [0, 0]
    assert init.ones_(torch.zeros(2)).tolist() == [1, 1]
    assert init.constant_(torch.zeros(2), 3).tolist() == [3, 3]
    assert init.eye_(torch.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    delta = init.dirac_(torch.empty(4, 1, 3), groups=2)
    assert delta[:, 0, 1].tolist() == [1, 0, 1, 0] and float(delta.sum()) == 2


def test_sparse_columns() -> None:
    weight = init.sparse_(torch.empty(10, 4), 0.35)
    assert (weight == 0).sum(0).tolist() == [4, 4, 4, 4]


def test_gains() -> None:
    assert init.calculate_gain("linear") == 1
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 1) == 1
    assert init.calculate_gain("selu") == 0.75
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("unknown")


def test_initialization_is_not_recorded_and_takes_a_generator() -> None:
    weight = nn.Parameter(torch.empty(3, 3))
    init.normal_(weight)
    assert weight.grad_fn is None and weight.is_leaf
    first = init.uniform_(torch.empty(4), generator=torch.Generator().manual_seed(1))
    second = init.uniform_(torch.empty(4), generator=torch.Generator().manual_seed(1))
    assert torch.equal(first, second)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(torch.empty(3))
    with pytest.raises(ValueError, match="Mode other not supported"):
        init.kaiming_uniform_(torch.empty(3, 3), mode="other")
    with pytest.raises(ValueError, match="2 dimensions"):
        init.eye_(torch.empty(3))
    with pytest.warns(UserWarning, match="zero-element"):
        nn.Linear(0, 3)
    with pytest.warns(FutureWarning, match="now deprecated in favor of"):
        init.normal(torch.empty(3))


def test_modes_and_vmap_see_the_draw_that_an_initialization_is_made_of() -> None:
    class Names(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    seen: list[str] = []
    with Names():
        init.xavier_uniform_(torch.empty(3, 4))
        init.eye_(torch.empty(2, 2))
    assert "aten.uniform_.default" in seen and "aten.diagonal.default" in seen
    weights = torch.empty(5, 3, 4)
    drawn = torch.vmap(lambda w: init.kaiming_normal_(w.clone()), randomness="different")(weights)
    assert drawn.shape == weights.shape and not torch.equal(drawn[0], drawn[1])


def test_division_by_zero() -> None:
    for fill in (
        lambda: init.trunc_normal_(torch.empty(3), std=0.0),
        lambda: init.xavier_normal_(torch.empty(0, 0)),
        lambda: init.dirac_(torch.empty(2, 2, 2), 0),
    ):
        with pytest.raises(ZeroDivisionError):
            fill()
