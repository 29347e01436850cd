"""Special functions computed a register of doubles at a time: right over the whole range, whatever
the other lanes hold, with rare arguments among the usual ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

import flambeau as torch

special = torch.special
One = tuple[Callable[[Any], Any], Callable[[Any], Any], float]  # ours, SciPy's, from where on

UNARY: dict[str, One] = {
    "j0": (special.bessel_j0, sp.j0, -60),
    "j1": (special.bessel_j1, sp.j1, -60),
    "y0": (special.bessel_y0, sp.y0, 1e-3),
    "y1": (special.bessel_y1, sp.y1, 1e-3),
    "i0e": (special.i0e, sp.i0e, -60),
    "i1e": (special.i1e, sp.i1e, -60),
    "i0": (special.i0, sp.i0, -60),
    "i1": (special.i1, sp.i1, -60),
    "k0": (special.modified_bessel_k0, sp.k0, 1e-3),
    "k1": (special.modified_bessel_k1, sp.k1, 1e-3),
    "k0e": (special.scaled_modified_bessel_k0, sp.k0e, 1e-3),
    "k1e": (special.scaled_modified_bessel_k1, sp.k1e, 1e-3),
    "airy": (special.airy_ai, lambda x: sp.airy(x)[0], -60),
    "lgamma": (torch.lgamma, sp.gammaln, -9.9),
    "digamma": (torch.digamma, sp.digamma, -9.9),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: sp.polygamma(1, x), 1e-3),
    "polygamma": (lambda x: torch.polygamma(4, x), lambda x: sp.polygamma(4, x), 1e-3),
    "ndtr": (special.ndtr, sp.ndtr, -12),
    "log_ndtr": (special.log_ndtr, sp.log_ndtr, -60),
    "erfcx": (special.erfcx, sp.erfcx, -6),
    "entr": (special.entr, sp.entr, -60),
    "zeta": (lambda x: special.zeta(2.5, x), lambda x: sp.zeta(2.5, x), 1e-3),
}


def assert_right(found: torch.Tensor, exact: np.ndarray, precision: float) -> None:
    # Near a zero to an absolute precision, as SciPy itself.
    difference = np.abs(found.double().numpy() - exact)
    allowed = precision * np.maximum(np.abs(exact), 0.05)
    wrong = ~(difference <= allowed) & ~np.isnan(exact) & ~np.isinf(exact)
    assert not wrong.any(), (exact[wrong][:5], found.double().numpy()[wrong][:5])


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_one_number_are_right_over_their_range(name: str, dtype: torch.dtype) -> None:
    ours, exact, begin = UNARY[name]
    x = torch.cat([torch.linspace(begin, 60, 20_003), torch.linspace(max(begin, -8), 13, 9_001)])
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(0))].to(dtype)
    assert_right(ours(x), exact(x.double().numpy()), 3e-7 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rare_numbers_do_not_touch_their_neighbours(name: str, dtype: torch.dtype) -> None:
    ours = UNARY[name][0]
    usual = torch.linspace(0.5, 3.5, 64).to(dtype)
    mixed = usual.clone()
    rare = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, -3, 1e30, -1e30, 1e-38])
    mixed[3 : 7 * len(rare) : 7] = rare.to(dtype)
    alone = torch.cat([ours(x.reshape(1)) for x in mixed])
    torch.testing.assert_close(ours(mixed), alone, rtol=0, atol=0, equal_nan=True)
    kept = torch.ones(64, dtype=torch.bool)
    kept[3 : 7 * len(rare) : 7] = False
    torch.testing.assert_close(ours(mixed)[kept], ours(usual)[kept], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma_functions_are_right_in_mixed_registers(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    small, middle, wide = (
        rng.uniform(0, 2, (2, 4000)),
        rng.uniform(0, 50, (2, 4000)),
        10 ** rng.uniform(-3, 4, 99),
    )
    a = np.concatenate([small[0], middle[0], wide])
    x = np.concatenate([small[1], middle[1], wide * 1.01])
    p, q = torch.from_numpy(a).to(dtype), torch.from_numpy(x).to(dtype)
    precision = 3e-7 if dtype == torch.float32 else 1e-12
    for ours, exact in ((special.gammainc, sp.gammainc), (special.gammaincc, sp.gammaincc)):
        assert_right(ours(p, q), exact(p.double().numpy(), q.double().numpy()), precision)
    ends = torch.tensor([0.0, 1, torch.inf, 1, torch.nan, -1, 0], dtype=dtype)
    others = torch.tensor([1.0, 0, 1, torch.inf, 1, 1, 0], dtype=dtype)
    expected = torch.tensor([1.0, 0, 0, 1, torch.nan, torch.nan, torch.nan], dtype=dtype)
    found = special.gammainc(ends, others)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_polynomials_of_many_degrees_in_one_register() -> None:
    rng = np.random.default_rng(0)
    x, n = rng.uniform(-1.2, 1.2, 4001), rng.integers(0, 60, 4001).astype(float)
    pairs = {
        "chebyshev_polynomial_t": sp.eval_chebyt,
        "chebyshev_polynomial_u": sp.eval_chebyu,
        "legendre_polynomial_p": sp.eval_legendre,
        "hermite_polynomial_he": sp.eval_hermitenorm,
        "laguerre_polynomial_l": sp.eval_laguerre,
        "shifted_chebyshev_polynomial_t": sp.eval_sh_chebyt,
    }
    for name, exact in pairs.items():
        expected = exact(n.astype(int), x)
        found = getattr(special, name)(torch.from_numpy(x), torch.from_numpy(n)).numpy()
        scale = np.maximum(np.abs(expected), 1)
        assert (np.abs(found - expected) / scale).max() < 1e-9, name
    degrees = torch.tensor([-1.0, 0.0, 2.9, torch.nan, 1e30, torch.inf, 3, 1], dtype=torch.float64)
    found = special.hermite_polynomial_h(torch.full((8,), 0.5, dtype=torch.float64), degrees)
    expected = torch.tensor([0, 1, -1, 0, torch.nan, torch.nan, -5, 1], dtype=torch.float64)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_logarithms_of_every_number_in_one_register() -> None:
    x = torch.tensor([1.0, -1.0, 0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-42, 2.0, 1e38])
    x = torch.cat([x, x, x, torch.tensor([-0.5, -0.25])])
    for f in (torch.log, torch.log1p):
        torch.testing.assert_close(f(x), f(x.double()).float(), rtol=2e-7, atol=0, equal_nan=True)


def test_roots_of_doubles_are_rounded_once() -> None:
    size = torch.logspace(-320, 308, 100_001, dtype=torch.float64)
    near = 1 + torch.arange(100_001).double() * 2.0**-52
    ends = torch.tensor([0.0, -0.0, math.inf, -1.0, math.nan, 5e-324, 1.7e308]).double()
    for x in (size, near, near * 2, ends, torch.cat([ends, size])):
        with np.errstate(invalid="ignore"):
            expected = torch.from_numpy(np.sqrt(x.numpy()))
        known, found = ~expected.isnan(), x.sqrt()
        assert torch.equal(found.isnan(), ~known)
        assert torch.equal(found.view(torch.int64)[known], expected.view(torch.int64)[known])
