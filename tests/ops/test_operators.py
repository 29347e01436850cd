"""Python's operators and conversions mean the ops of the same name."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from harness import to_numpy

import flambeau as torch

ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv,
              operator.mod, operator.pow)  # fmt: skip
COMPARISON = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
BITWISE = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
LEFT, RIGHT = [[1.5, 2.0, 3.0], [4.0, 5.5, 6.0]], [2.0, 3.0, 0.5]


def tensor(values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("function", ARITHMETIC + COMPARISON, ids=lambda f: f.__name__)
def test_binary_operators(function: Any) -> None:
    wanted = function(np.array(LEFT), np.array(RIGHT))
    assert np.allclose(to_numpy(function(tensor(LEFT), tensor(RIGHT))), wanted)
    for number in (2, 0.5):
        assert np.allclose(
            to_numpy(function(tensor(LEFT), number)), function(np.array(LEFT), number)
        )
        assert np.allclose(
            to_numpy(function(number, tensor(LEFT))), function(number, np.array(LEFT))
        )


@pytest.mark.parametrize("function", BITWISE, ids=lambda f: f.__name__)
def test_bitwise_operators(function: Any) -> None:
    left, right = [5, 12, 7], [1, 2, 3]
    wanted = function(np.array(left), np.array(right)).tolist()
    assert function(torch.tensor(left), torch.tensor(right)).tolist() == wanted
    assert function(torch.tensor(left), 2).tolist() == function(np.array(left), 2).tolist()
    assert function(2, torch.tensor(right)).tolist() == function(2, np.array(right)).tolist()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
def test_augmented_operators_write_in_place(name: str) -> None:
    x = tensor(LEFT)
    alias = x
    wanted = getattr(operator, name)(np.array(LEFT), np.array(RIGHT))
    x = getattr(operator, f"i{name}")(x, tensor(RIGHT))
    assert x is alias and np.allclose(to_numpy(x), wanted)


@pytest.mark.parametrize("name", ["and", "or", "xor", "lshift", "rshift"])
def test_augmented_bitwise_operators_write_in_place(name: str) -> None:
    x = torch.tensor([5, 12, 7])
    alias = x
    plain = getattr(operator, name + "_" if name in ("and", "or") else name)
    wanted = plain(np.array([5, 12, 7]), 2).tolist()
    x = getattr(operator, f"i{name}")(x, 2)
    assert x is alias and x.tolist() == wanted


def test_unary_operators() -> None:
    x = tensor([-1.5, 2.0])
    assert (-x).tolist() == [1.5, -2.0] and (+x).tolist() == [-1.5, 2.0]
    assert abs(x).tolist() == [1.5, 2.0]
    assert (~torch.tensor([True, False])).tolist() == [False, True]
    assert (~torch.tensor([0, 5])).tolist() == [-1, -6]


def test_matrix_product_operator() -> None:
    x = tensor(LEFT)
    assert np.allclose(to_numpy(x @ x.t()), np.array(LEFT) @ np.array(LEFT).T)
    assert np.allclose(to_numpy(x @ tensor(RIGHT)), np.array(LEFT) @ np.array(RIGHT))


def test_conversions_to_python_numbers() -> None:
    assert int(torch.tensor(3.7)) == 3 and float(torch.tensor([2])) == 2.0
    assert complex(torch.tensor(1 + 2j)) == 1 + 2j
    assert bool(torch.tensor([1])) and not bool(torch.tensor(0.0))
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert list(range(torch.tensor(3))) == [0, 1, 2]
    assert isinstance(torch.tensor(1).item(), int) and isinstance(torch.tensor(1.0).item(), float)
    assert isinstance(torch.tensor(True).item(), bool)
    assert torch.tensor([[1, 2]]).tolist() == [[1, 2]] and torch.tensor(5).tolist() == 5


def test_operators_of_other_types_get_their_turn() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "radd"

        def __rmatmul__(self, left: Any) -> str:
            return "rmatmul"

        def __eq__(self, left: object) -> Any:
            return "eq"

    assert torch.zeros(2) + Other() == "radd"
    assert torch.zeros(2) @ Other() == "rmatmul"


def test_numpy_numbers_and_arrays_mix() -> None:
    x = torch.ones(2)
    for number in (np.float32(2), np.float64(2), np.int64(2), np.bool_(True)):
        assert (x * number).tolist() == [float(number)] * 2
        assert (x * number).dtype == torch.float32
    assert np.asarray(x).tolist() == [1.0, 1.0]
    assert np.add(x.numpy(), 1).tolist() == [2.0, 2.0]
