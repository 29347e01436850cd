"""Results too large for the caches are written past them: at any offset, whole to the last element.
And the functions computed by registers and tables are right to a few units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional

LARGE = (1 << 22) + 37  # floats: a little more than 16 MB


@pytest.mark.parametrize("offset", [0, 1, 5, 16])
@pytest.mark.parametrize(
    "formula",
    [torch.relu, functional.silu, functional.gelu, lambda x: x + x, lambda x: x > 0],
    ids=["relu", "silu", "gelu", "add", "greater"],
)
def test_a_large_result_equals_that_of_its_parts(
    formula: Callable[[Tensor], Tensor], offset: int
) -> None:
    x = torch.randn(LARGE)
    parts = torch.cat([formula(part) for part in x[offset:].split(1 << 20)])
    assert torch.equal(formula(x[offset:]), parts)


def test_a_large_result_may_start_anywhere_and_replace_its_input() -> None:
    x = torch.randn(LARGE)
    out = torch.zeros(LARGE + 8)
    torch.add(x, 1, out=out[3 : LARGE + 3])
    assert torch.equal(out[3 : LARGE + 3], torch.cat([part + 1 for part in x.split(1 << 20)]))
    assert out[:3].sum() == 0 and out[LARGE + 3 :].sum() == 0
    expected = functional.silu(x)
    assert torch.equal(functional.silu(x, inplace=True), expected) and x is not expected


@pytest.mark.parametrize("width", [1000, 1024, 5001])
def test_rows_of_large_results(width: int) -> None:
    x = torch.randn((1 << 22) // width + 1, width).requires_grad_()
    target = torch.randint(0, width, (len(x),))
    for op in (torch.softmax, torch.log_softmax):
        whole = op(x, 1)
        assert torch.equal(whole[-7:], op(x[-7:], 1))
        assert torch.equal(whole[:7], op(x[:7], 1))
    functional.cross_entropy(x, target, reduction="sum").backward()
    assert x.grad is not None
    last = x.detach()[-7:].double().requires_grad_()
    functional.cross_entropy(last, target[-7:], reduction="sum").backward()
    torch.testing.assert_close(x.grad[-7:].double(), last.grad, rtol=2e-6, atol=1e-9)


def tanh_gelu(x: Tensor) -> Tensor:
    return functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize("function", [functional.gelu, tanh_gelu, functional.silu, torch.sigmoid])
def test_functions_in_simd_are_exact_to_some_units(
    function: Callable[[Tensor], Tensor],
) -> None:
    x = torch.linspace(-100, 100, 400_001)
    x = torch.cat([x, torch.linspace(-7, 7, 400_001)]).requires_grad_()
    exact = x.detach().double().requires_grad_()
    function(x).sum().backward()
    function(exact).sum().backward()
    size = exact.detach().abs().clamp(min=1)
    wrong = (function(x) - function(exact)).detach().abs() / size
    assert wrong.max() < 2e-7
    assert x.grad is not None and exact.grad is not None
    assert ((x.grad - exact.grad).abs() / size).max() < 2e-7


@pytest.mark.parametrize("function", [functional.gelu, tanh_gelu, functional.silu, torch.sigmoid])
def test_functions_in_simd_at_their_ends(function: Callable[[Tensor], Tensor]) -> None:
    inf = math.inf
    ends = torch.tensor([inf, -inf, math.nan, 1e12, -1e12, 88.71, -88.71, 0.0], requires_grad=True)
    exact = ends.detach().double().requires_grad_()
    results = function(ends), function(exact)
    gradients = torch.autograd.grad((results[0].sum(), results[1].sum()), (ends, exact))
    for found, expected in (results, gradients):
        torch.testing.assert_close(found, expected.float(), equal_nan=True, rtol=1e-6, atol=1e-30)
