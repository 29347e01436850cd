"""autograd.functional: products with Jacobians and Hessians, and the matrices themselves."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

x = torch.tensor([1.0, 2.0])
y = torch.tensor([3.0, 4.0])


def square(a):
    return a**2


def product(a, b):
    return (a * b).sum()


def cube(a):
    return (a**3).sum()


def test_vjp_and_jvp() -> None:
    value, result = vjp(square, x, torch.tensor([1.0, 10.0]))
    assert value.tolist() == [1.0, 4.0] and result.tolist() == [2.0, 40.0]
    value, result = jvp(square, x, torch.tensor([1.0, 10.0]))
    assert value.tolist() == [1.0, 4.0] and result.tolist() == [2.0, 40.0]
    _, (one, two) = vjp(product, (x, y))
    assert one.tolist() == y.tolist() and two.tolist() == x.tolist()


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian(vectorize) -> None:
    assert jacobian(square, x, vectorize=vectorize).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    both = jacobian(lambda a, b: (a * b, b.sum()), (x, y), vectorize=vectorize)
    assert both[0][0].tolist() == [[3.0, 0.0], [0.0, 4.0]]
    assert both[1][0].tolist() == [0.0, 0.0] and both[1][1].tolist() == [1.0, 1.0]
    assert jacobian(lambda a: a.sum(0) * a, torch.ones(2, 3), vectorize=vectorize).shape == (
        2,
        3,
        2,
        3,
    )


def test_jacobian_by_columns() -> None:
    result = jacobian(square, x, vectorize=True, strategy="forward-mode")
    assert result.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    with pytest.raises(NotImplementedError, match="vectorize=True"):
        jacobian(square, x, strategy="forward-mode")
    with pytest.raises(AssertionError, match="strategy"):
        jacobian(square, x, strategy="sideways")


@pytest.mark.parametrize("outer", ["reverse-mode", "forward-mode"])
def test_hessian(outer) -> None:
    vectorize = outer == "forward-mode"
    result = hessian(cube, x, vectorize=vectorize, outer_jacobian_strategy=outer)
    assert result.tolist() == [[6.0, 0.0], [0.0, 12.0]]
    both = hessian(product, (x, y), vectorize=vectorize, outer_jacobian_strategy=outer)
    assert both[0][0].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert both[0][1].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_products_with_the_hessian() -> None:
    v = torch.tensor([1.0, 10.0])
    for function in (vhp, hvp):
        value, result = function(cube, x, v)
        assert value.item() == 9.0 and result.tolist() == [6.0, 120.0]


def test_results_can_be_differentiated() -> None:
    a = x.clone().requires_grad_()
    assert not jacobian(square, a).requires_grad
    result = jacobian(square, a, create_graph=True)
    assert torch.autograd.grad(result.sum(), a)[0].tolist() == [2.0, 2.0]
    result = hessian(cube, a, create_graph=True)
    assert torch.autograd.grad(result.sum(), a)[0].tolist() == [6.0, 6.0]
    _, result = jvp(square, a, torch.ones(2), create_graph=True)
    assert torch.autograd.grad(result.sum(), a)[0].tolist() == [2.0, 2.0]


def test_independent_outputs_give_zeros_or_errors() -> None:
    assert jacobian(lambda a: torch.ones(2), x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        jacobian(lambda a: torch.ones(2), x, strict=True)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        jacobian(lambda a, b: a * 2, (x, y), strict=True)
    with pytest.raises(RuntimeError, match="independent of the input"):
        hessian(lambda a: a.sum(), x, strict=True)


def test_errors() -> None:
    with pytest.raises(TypeError, match="inputs given to jacobian"):
        jacobian(square, 3)
    with pytest.raises(TypeError, match="outputs of the user-provided function"):
        vjp(lambda a: 3, x)
    with pytest.raises(RuntimeError, match="v can only be None"):
        vjp(square, x)
    with pytest.raises(RuntimeError, match="invalid size"):
        jvp(square, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="single element"):
        hessian(square, x)
    with pytest.raises(RuntimeError, match="single Tensor"):
        hessian(lambda a: (a, a), x)


def test_it_works_inside_no_grad() -> None:
    with torch.no_grad():
        assert jacobian(square, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.parametrize("product", [vjp, jvp, vhp, hvp])
def test_products_can_be_differentiated_by_their_vector(product: Any) -> None:
    scalar = product in (vhp, hvp)
    at = torch.rand(3, dtype=torch.float64, requires_grad=True)
    v = torch.rand(3, dtype=torch.float64, requires_grad=True)

    def of(a: torch.Tensor, v: torch.Tensor) -> Any:
        return product(lambda b: b.exp().sum() if scalar else b.exp(), a, v, create_graph=True)

    assert torch.autograd.gradcheck(of, (at, v))
    assert torch.autograd.gradgradcheck(of, (at, v))
