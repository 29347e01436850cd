"""Powers of doubles with any sign, and of bfloat16 by coarser logarithms, as C's pow has them."""

from __future__ import annotations

import math

import pytest

import flambeau as torch

SOME = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, -2.5, math.inf, -math.inf, math.nan, -1e300]


def python_power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a != 0:
            return math.nan
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf


def test_powers_of_doubles_of_any_sign() -> None:
    pairs = [(a, b) for a in SOME for b in [*SOME, 4.0, -7.0, 1e15 + 1, 2.0**53]]
    a = torch.tensor([a for a, _ in pairs], dtype=torch.float64)
    b = torch.tensor([b for _, b in pairs], dtype=torch.float64)
    exact = torch.tensor([python_power(*pair) for pair in pairs], dtype=torch.float64)
    found = torch.pow(a, b)
    torch.testing.assert_close(found, exact, rtol=4e-16, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(found)[exact == exact], torch.signbit(exact)[exact == exact])


def test_powers_of_bfloat16_are_rounded_ones() -> None:
    torch.manual_seed(0)
    a = torch.cat([torch.rand(20_000) * 4, 1 + torch.randn(20_000) * 0.02]).bfloat16()
    b = torch.cat([torch.randn(20_000) * 8, torch.randn(20_000) * 900]).bfloat16()
    exact = torch.pow(a.double(), b.double())
    fits = (exact < 3e38) & (exact > 1e-37)
    found = torch.pow(a, b).double()[fits]
    assert float(((found - exact[fits]).abs() / exact[fits]).max()) < 0.51 * 2**-7
    beyond = exact > 3.5e38
    assert bool(torch.isinf(torch.pow(a, b)[beyond]).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int32])
def test_small_powers_are_products(dtype: torch.dtype) -> None:
    x = torch.arange(-40, 40).to(dtype)
    assert torch.equal(x**3, x * x * x)
    if dtype.is_floating_point:
        assert torch.equal(x**-2, 1 / (x * x))
