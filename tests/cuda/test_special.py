"""Special functions, and samples of distributions that have tensors for parameters, on CUDA."""

from __future__ import annotations

import pytest

import flambeau as torch

ONE = [
    "lgamma", "digamma", "erfinv", "i0", "i0e", "i1", "i1e", "ndtr", "ndtri", "log_ndtr", "erfcx",
    "entr", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_i0",
    "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "spherical_bessel_j0", "airy_ai",
]  # fmt: skip
TWO = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p", "zeta", "xlog1py",
    "gammainc", "gammaincc",
]  # fmt: skip


def function(name: str) -> object:
    return getattr(torch.special, name, None) or getattr(torch, name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number_are_those_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan])
    x = torch.cat([torch.linspace(-30, 30, 601), torch.linspace(0, 1, 99), edges]).to(dtype)
    ours, cpu = function(name)(x.cuda()).cpu(), function(name)(x)
    close = (
        {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 3e-6, "atol": 1e-6}
    )
    torch.testing.assert_close(ours, cpu, equal_nan=True, **close)
    strided = x.repeat_interleave(2).cuda()[::2]
    torch.testing.assert_close(function(name)(strided).cpu(), ours, equal_nan=True)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers_are_those_of_the_cpu(name: str) -> None:
    a, b = torch.linspace(0.1, 6, 60).double()[:, None], torch.arange(1, 9).double()
    ours, cpu = function(name)(a.cuda(), b.cuda()).cpu(), function(name)(a, b)
    torch.testing.assert_close(ours, cpu, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_digamma_can_be_differentiated() -> None:
    x = torch.linspace(0.2, 9, 50, dtype=torch.float64)
    results = []
    for device in ("cpu", "cuda"):
        leaf = x.detach().to(device).requires_grad_()
        torch.digamma(leaf).sum().backward()
        results.append(leaf.grad.cpu())
    torch.testing.assert_close(*results, rtol=1e-9, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.5, 200.0])
def test_gamma_samples_have_their_mean_and_spread(shape: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    n = 400_000
    parameters = torch.full((n,), shape, dtype=dtype, device="cuda").requires_grad_()
    samples = torch._standard_gamma(parameters)
    values = samples.detach().double()
    assert (values > 0).all() and bool(values.isfinite().all())
    assert abs(values.mean() - shape) < 6 * (shape / n) ** 0.5
    assert abs(values.var() / shape - 1) < 0.05 + 0.1 / shape**0.5 * (shape < 1)
    samples.sum().backward()
    assert abs(parameters.grad.double().mean() - 1) < 0.05  # the mean moves as the shape does
    gradients = torch._standard_gamma_grad(parameters.detach().cpu(), samples.detach().cpu())
    torch.testing.assert_close(parameters.grad.cpu(), gradients, rtol=1e-4, atol=1e-5)
    torch.manual_seed(1)
    assert torch.equal(torch._standard_gamma(parameters.detach()), samples.detach())


def test_dirichlet_samples_are_shares() -> None:
    alpha = torch.tensor([0.5, 1.0, 4.0, 10.0], device="cuda").expand(100_000, 4)
    leaf = alpha.clone().requires_grad_()
    samples = torch.distributions.Dirichlet(leaf).rsample()
    torch.testing.assert_close(samples.sum(-1), torch.ones(100_000, device="cuda"))
    torch.testing.assert_close(samples.mean(0), alpha[0] / 15.5, rtol=0.02, atol=2e-3)
    (samples * torch.arange(4.0, device="cuda")).sum().backward()
    assert bool(leaf.grad.isfinite().all()) and leaf.grad.abs().sum() > 0


@pytest.mark.parametrize("count, p", [(7, 0.3), (40, 0.9), (5000, 0.4), (10, 0.0), (10, 1.0)])
def test_binomial_samples_count_successes(count: int, p: float) -> None:
    torch.manual_seed(2)
    n = 300_000
    counts = torch.full((n,), float(count), device="cuda")
    samples = torch.binomial(counts, torch.full((n,), p, device="cuda")).double()
    assert bool(((samples >= 0) & (samples <= count) & (samples == samples.floor())).all())
    assert abs(samples.mean() - count * p) <= 6 * (count * p * (1 - p) / n) ** 0.5
    assert abs(samples.var() - count * p * (1 - p)) <= 0.03 * count * p * (1 - p)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_sobol_points_are_those_of_the_cpu(dtype: torch.dtype) -> None:
    engine = torch.quasirandom.SobolEngine(5, scramble=True, seed=3)
    state, quasi = engine.sobolstate, engine.quasi
    draw = torch._sobol_engine_draw
    on_cpu, after = draw(quasi, 100, state, 5, 13, dtype)
    on_device, then = draw(quasi.cuda(), 100, state.cuda(), 5, 13, dtype)
    assert torch.equal(on_cpu, on_device.cpu()) and torch.equal(after, then.cpu())
