"""Gradients of activations where a formula can go wrong: at NaN, under infinite gradients, and in
second order, where a function that is linear piecewise has zeros and not nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import flambeau as torch
import flambeau.nn.functional as F

Activation = Callable[[torch.Tensor], torch.Tensor]

STRAIGHT: dict[str, Activation] = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "threshold": lambda x: F.threshold(x, 0.5, 2.0),
}


@pytest.mark.parametrize("name", STRAIGHT)
def test_linear_intervals_have_zero_second_derivatives(name: str) -> None:
    x = torch.linspace(-8, 8, 33, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(STRAIGHT[name](x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, torch.zeros_like(x))


@pytest.mark.parametrize("name", [n for n in STRAIGHT if n != "leaky_relu"])
@pytest.mark.parametrize("gradient", [math.inf, math.nan])
def test_what_is_cut_off_gets_no_gradient_even_of_infinity(name: str, gradient: float) -> None:
    x = torch.linspace(-8, 8, 33, requires_grad=True)
    y = STRAIGHT[name](x)
    (ones,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    y.backward(torch.full_like(y, gradient))
    assert x.grad is not None
    assert torch.equal(x.grad == 0, ones == 0)


def test_relu_lets_the_gradient_of_nan_through() -> None:
    x = torch.tensor([math.nan, -1.0, 0.0, 1.0], requires_grad=True)
    torch.relu(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.0, 0.0, 1.0]


def test_elu_is_flat_in_second_order_where_it_is_straight() -> None:
    for activation in (F.elu, F.celu):
        x = torch.tensor([1.0, 50.0, math.inf], dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(activation(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert second.tolist() == [0.0, 0.0, 0.0]


def test_smooth_activations_agree_with_finite_differences_twice() -> None:
    x = torch.linspace(-4, 4, 9, dtype=torch.float64, requires_grad=True)
    z = torch.complex(x.detach(), x.detach().flip(0) / 3).requires_grad_()
    for function in (torch.tanh, torch.sigmoid, F.silu):
        assert torch.autograd.gradcheck(function, (x,))
        assert torch.autograd.gradgradcheck(function, (x,))
        assert torch.autograd.gradgradcheck(function, (z,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        torch.nn.functional.mish,
        torch.nn.functional.hardswish,
        torch.sinc,
        lambda x: torch.lerp(x, torch.ones_like(x), 0.3),
    ],
)
def test_half_precision_is_rounded_at_the_end_only(dtype, function) -> None:
    x = torch.linspace(-4, 4, 999).to(dtype)
    leaf, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    result, expected = function(leaf), function(exact)
    weights = torch.linspace(0.5, 1.5, 999).to(dtype)
    result.backward(weights)
    expected.backward(weights.double())
    eps = torch.finfo(dtype).eps
    for got, want in ((result, expected), (leaf.grad, exact.grad)):
        assert got is not None and want is not None and got.dtype == dtype
        error = (got.double() - want).abs() / want.abs().clamp_min(0.05)
        assert error.max().item() < 2 * eps


def test_the_slope_of_logit_at_its_bounds_and_beyond() -> None:
    x = torch.tensor([0.0, 1.0, -0.5, 1.5, 0.25, math.nan], requires_grad=True)
    (slope,) = torch.autograd.grad(x.logit().sum(), x)
    assert slope[:2].tolist() == [math.inf] * 2 and slope[2:4].isnan().all()
    assert abs(slope[4] - 16 / 3) < 1e-5 and slope[5].isnan()
    (slope,) = torch.autograd.grad(x.logit(0.1).sum(), x)
    assert slope[:4].tolist() == [0, 0, 0, 0] and slope[5] == 0


@pytest.mark.parametrize("of", [torch.logit, torch.sinc, torch.nn.functional.glu])
def test_a_pass_through_gradients_leaves_the_step_itself(of) -> None:
    """Second derivatives are those of what was kept; the graph of the result stays whole."""
    x = torch.linspace(0.1, 0.9, 8, dtype=torch.float64, requires_grad=True)
    y = of(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True, retain_graph=True)
    slope.square().sum().backward()
    (again,) = torch.autograd.grad(y.sum(), x)
    assert again.equal(slope)
    assert torch.autograd.gradgradcheck(of, x)
    assert y.grad_fn.name() == f"{of.__name__.title()}Backward0"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_compared_with_bounds_that_are_not_rounded(dtype: torch.dtype) -> None:
    """0.1 is above the nearest float16 and below the nearest bfloat16."""
    x = torch.tensor([0.1], dtype=dtype, requires_grad=True)
    above = dtype is torch.bfloat16
    (gradient,) = torch.autograd.grad(torch.nn.functional.threshold(x, 0.1, 20.0), x)
    assert gradient.tolist() == [above]
    (gradient,) = torch.autograd.grad(torch.nn.functional.hardtanh(x, -0.1, 0.1), x)
    assert gradient.tolist() == [not above]


def slopes(function: Activation, *at: float) -> list[float]:
    x = torch.tensor(at, requires_grad=True)
    function(x).sum().backward()
    assert x.grad is not None
    return x.grad.tolist()


def test_slopes_where_the_function_is_nan_are_pytorchs() -> None:
    nan = float("nan")
    assert slopes(F.elu, nan) == slopes(F.celu, nan) == slopes(F.hardswish, nan) == [1]
    assert slopes(F.selu, nan) == pytest.approx([1.0507], rel=1e-4)
    assert slopes(torch.acosh, -3, -1e30, 3) == pytest.approx([8**-0.5, 0, 8**-0.5])
    assert math.isinf(slopes(torch.acosh, -1.0)[0]) and math.isnan(slopes(torch.acosh, 0.5)[0])


def test_the_slope_of_sinc_is_small_close_to_zero() -> None:
    assert slopes(torch.sinc, 1e-40, 0, -1e-30) == [0, 0, 0]
    assert slopes(torch.sinc, 0.5) == pytest.approx([-4 / math.pi])
