"""Who gets the gradient of clamp where an element equals a bound: PyTorch's answers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch

X = [0.0, 1.0, 1.5, 2.0, 3.0]


def shares(*values: list[float], numbers: dict[str, float] | None = None) -> list[list[float]]:
    leaves = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    result: Any = torch.clamp(*leaves, **(numbers or {}))
    found = torch.autograd.grad(result.sum(), leaves)
    return [grad.tolist() for grad in found]


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ({"min": 1.0}, [0, 0, 1, 1, 1]),
        ({"max": 2.0}, [1, 1, 1, 0, 0]),
        ({"min": 1.0, "max": 2.0}, [0, 0, 1, 0, 0]),
        ({"min": 2.0, "max": 1.0}, [0, 0, 0, 0, 0]),
    ],
)
def test_an_element_at_a_number_is_held_by_it(numbers: Any, wanted: list[float]) -> None:
    assert shares(X, numbers=numbers) == [wanted]
    assert shares([math.nan], numbers=numbers) == [[0.0]]


def test_an_element_at_a_bound_shares_with_it() -> None:
    low, high = [1.0] * 5, [2.0] * 5
    x, a, b = shares(X, low, high)
    assert x == [0, 0.5, 1, 0.5, 0] and a == [1, 0.5, 0, 0, 0] and b == [0, 0, 0, 0.5, 1]
    x, a, b = shares(X, high, low)
    assert x == a == [0] * 5 and b == [1] * 5
    x, a, b = shares(X, low, low)
    assert x == [0, 1, 0, 0, 0] and a == [1, 0, 0, 0, 0] and b == [0, 0, 1, 1, 1]
