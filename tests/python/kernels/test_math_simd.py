"""Functions computed a register of floats at a time: right to a few units in the last place, tiny
results included, and at the ends of their range as in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "expm1": torch.expm1,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "atan": torch.atan,
    "log": torch.log,
    "log1p": torch.log1p,
    "exp2": torch.exp2,
    "log2": torch.log2,
    "log10": torch.log10,
    "xlogy": lambda x: torch.xlogy(x, x.abs().clamp(min=4)),
    "mish": functional.mish,
    "softplus": functional.softplus,
    "steep softplus": lambda x: functional.softplus(x, beta=2.0, threshold=1e9),
    "logsigmoid": functional.logsigmoid,
    "elu": lambda x: functional.elu(x, alpha=0.7),
    "selu": functional.selu,
    "celu": functional.celu,
    "soft celu": lambda x: functional.celu(x, alpha=0.5),
    "logaddexp": lambda x: torch.logaddexp(x, -2 * x),
    "power": lambda x: torch.pow(x.abs(), 2.75),
    "exponent": lambda x: torch.pow(1.25, x),
    "both": lambda x: torch.pow(x.abs(), x),
}


def units_wrong(found: Tensor, exact: Tensor) -> Tensor:
    """By how many units in the last place of a float each number differs from an exact one."""
    least = torch.finfo(torch.float32).smallest_normal
    _, exponent = torch.frexp(exact.abs().clamp(min=least))
    return (found.double() - exact).abs() * torch.pow(2.0, 24.0 - exponent.double())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_to_some_units(name: str) -> None:
    sizes = torch.logspace(-44, 2, 20_001)
    x = torch.cat(
        [torch.linspace(-100, 86, 200_001), torch.linspace(-9, 9, 200_001), sizes, -sizes]
    )
    found, exact = FUNCTIONS[name](x), FUNCTIONS[name](x.double())
    fits = exact.abs() < torch.finfo(torch.float32).max
    if name == "mish":  # below it multiplies a subnormal number by the argument
        fits &= x > -87
    assert units_wrong(found, exact)[fits].max() < (4 if name == "mish" else 3)
    beyond = exact.abs() > torch.finfo(torch.float32).max
    assert torch.equal(found[beyond], exact[beyond].float())


# About how far from right PyTorch's are, at most, but for roundings of subnormal results.
CLOSE = {
    "exp": 0.6, "exp2": 0.85, "expm1": 1.01, "log": 0.56, "log2": 0.56, "log10": 0.56, "log1p": 1.0,
    "sin": 0.7, "cos": 0.7, "softplus": 1.7, "sinh": 1.85, "cosh": 1.1,
    "power": 0.6, "exponent": 0.6, "both": 0.6,
}  # fmt: skip


needs_avx512 = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="which has instructions for it"
)


@needs_avx512
@pytest.mark.parametrize("name", CLOSE)
def test_functions_are_as_exact_as_those_of_others(name: str) -> None:
    numbers = torch.logspace(-38, 38, 100_001)
    x = torch.cat([torch.linspace(-87, 88, 200_001), torch.linspace(0, 2, 200_001), numbers])
    found, exact = FUNCTIONS[name](x), FUNCTIONS[name](x.double())
    limits = torch.finfo(torch.float32)
    fits = (exact.abs() < limits.max) & (exact.abs() > limits.smallest_normal)
    assert units_wrong(found, exact)[fits].max() < CLOSE[name]


@needs_avx512
def test_powers_keep_their_digits_with_large_exponents() -> None:
    x = torch.linspace(0.95, 1.05, 200_001)
    found, exact = torch.pow(x, -1000.25), torch.pow(x.double(), -1000.25)
    fits = (exact < 3e38) & (exact > 1.2e-38)
    assert units_wrong(found, exact)[fits].max() < 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_at_their_ends(name: str) -> None:
    large = [math.inf, 3e38, 1e12, 103.0, 89.5, 88.5, 21.0, 9.5, 4.5, 1.0, 1e-30, 1e-40, 1e-45, 0.0]
    x = torch.tensor([*large, *(-value for value in large), math.nan])
    found, exact = FUNCTIONS[name](x), FUNCTIONS[name](x.double()).float()
    torch.testing.assert_close(found, exact, equal_nan=True, rtol=2e-6, atol=1e-43)
    known = ~exact.isnan()
    assert torch.equal(found.signbit()[known], exact.signbit()[known])


def test_powers_of_special_numbers_are_those_of_double_precision() -> None:
    sizes = [0.0, 1.0, math.inf, 0.5, 2.0, 3.0, 2.5, 1e-40, 1e38, 0.99999994, 8388609.0, 16777216.0]
    values = torch.tensor([*sizes, *(-size for size in sizes), math.nan])
    a, b = values[:, None].expand(25, 25).flatten(), values.repeat(25)
    found, exact = torch.pow(a, b), torch.pow(a.double(), b.double()).float()
    torch.testing.assert_close(found, exact, equal_nan=True, rtol=1e-6, atol=2e-45)
    known = ~exact.isnan()
    assert torch.equal(found.signbit()[known], exact.signbit()[known])
    for exponent in (-3.0, -1.5, 0.25, 3.0, 7.0):
        by_number = torch.pow(values, exponent)
        expected = torch.pow(values.double(), exponent).float()
        torch.testing.assert_close(by_number, expected, equal_nan=True, rtol=1e-6, atol=2e-45)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos"])
def test_angles_are_right_to_one_unit(name: str) -> None:
    function = FUNCTIONS[name]
    steps = torch.arange(-2600, 2601).double() * (math.pi / 2)  # where digits cancel
    near = torch.cat([steps.float(), torch.nextafter(steps.float(), torch.tensor(math.inf))])
    x = torch.cat([near, torch.linspace(-4090, 4090, 300_001), torch.linspace(-1, 1, 300_001)])
    exact = function(x.double())
    known = ~exact.isnan()
    assert units_wrong(function(x), exact)[known].max() < 1.25
    far = torch.logspace(3.6, 38, 100_001)
    far = torch.cat([far, -far, (torch.arange(2600, 200_000).double() * (math.pi / 2)).float()])
    exact = function(far.double())
    known = ~exact.isnan()
    assert not known.any() or units_wrong(function(far), exact)[known].max() < 1.25


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rare_numbers_do_not_touch_their_neighbours(name: str) -> None:
    usual = torch.linspace(0.1, 0.9, 64)
    mixed = usual.clone()
    rare = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 5e3, -1e30, 1e-40])
    mixed[3 : 7 * len(rare) : 7] = rare
    alone = torch.cat([FUNCTIONS[name](x.reshape(1)) for x in mixed])
    torch.testing.assert_close(FUNCTIONS[name](mixed), alone, rtol=0, atol=0, equal_nan=True)


def test_gamma_functions_and_erfinv_on_all_octaves() -> None:
    x = torch.cat([torch.logspace(-3, 3.2, 400_001), torch.linspace(0.4, 4.2, 400_001)])
    assert units_wrong(torch.lgamma(x), torch.lgamma(x.double())).max() < 3
    assert units_wrong(torch.digamma(x), torch.digamma(x.double())).max() < 3
    ones = torch.tensor([1.0, 2.0] * 8)
    assert not torch.lgamma(ones).signbit().any() and not torch.lgamma(ones).any()
    v = torch.logspace(-7.3, 0, 200_001)
    p = torch.cat([1 - v, v - 1, v, -v])
    assert units_wrong(torch.erfinv(p), torch.erfinv(p.double()))[p.abs() < 1].max() < 3


def test_roots_are_rounded_as_ieee_asks() -> None:
    bits = torch.arange(0x3F800000, 0x40800000, 7, dtype=torch.int32)  # from 1 to 4
    x = bits.view(torch.float32)
    assert torch.equal(torch.sqrt(x), torch.sqrt(x.double()).float())
    sizes = torch.logspace(-45, 38.5, 50_001)
    assert torch.equal(torch.sqrt(sizes), torch.sqrt(sizes.double()).float())


def test_logit_and_erfinv_of_large_tensors() -> None:
    p = torch.linspace(0, 1, 100_003)
    exact = torch.log(p.double() / (1 - p.double()))
    torch.testing.assert_close(torch.logit(p).double(), exact, rtol=1e-6, atol=1e-7)
    bounded = p.double().clamp(0.25, 0.75)
    exact = torch.log(bounded / (1 - bounded))
    torch.testing.assert_close(torch.logit(p, 0.25).double(), exact, rtol=1e-6, atol=1e-7)
    above_half = torch.where(p < 0.75, math.log(3), -math.log(3))  # the lower bound comes first
    torch.testing.assert_close(torch.logit(p, 0.75), above_half)
    odd = torch.tensor([-0.5, 1.5, math.nan, -0.0, math.inf, -math.inf])
    assert torch.logit(odd).isnan().tolist() == [True, True, True, False, True, True]
    for dtype in (torch.bfloat16, torch.float16):  # bounds are rounded to the dtype
        high = (1 - torch.tensor(0.001, dtype=dtype).double()).to(dtype).double()
        last = torch.logit(torch.ones(40, dtype=dtype), 0.001)[-1].double()
        torch.testing.assert_close(last, torch.log(high / (1 - high)), rtol=0.01, atol=0)
    x = torch.linspace(-1, 1, 100_003)
    torch.testing.assert_close(
        torch.erfinv(x).double(), torch.erfinv(x.double()), rtol=1e-6, atol=0
    )
    assert torch.erfinv(torch.tensor([1.5, -2.0, math.nan, 1.0])).isnan().tolist() == [True] * 3 + [
        False
    ]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_rounded_once(name: str, dtype: torch.dtype) -> None:
    x = torch.linspace(-8, 8, 1009).to(dtype)
    found, wanted = FUNCTIONS[name](x), FUNCTIONS[name](x.float()).to(dtype)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
