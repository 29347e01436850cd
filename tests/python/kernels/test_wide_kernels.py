"""Kernels that take many elements at once, against NumPy and double precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional

SPECIAL = [0.0, 1e-45, 1e-40, 1.2e-38, 1e-3, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0, 1e10, 3e38, math.inf]
SIGNED = torch.tensor([*SPECIAL, *(-x for x in SPECIAL), math.nan])


def units_wrong(found: Tensor, exact: Tensor) -> float:
    """By how many units in the last place of a float the worst number differs from an exact one."""
    least = torch.finfo(torch.float32).smallest_normal
    _, exponent = torch.frexp(exact.abs().clamp(min=least))
    return ((found.double() - exact).abs() * torch.pow(2.0, 24.0 - exponent.double())).max().item()


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_functions_are_right_to_some_units(name: str) -> None:
    f = getattr(torch, name)
    x = torch.cat([torch.linspace(0.01, 9, 300_001), torch.logspace(-37, 30, 50_001)])
    assert units_wrong(f(x), f(x.double())) < 2.5
    below = -torch.linspace(0.01, 9, 30_001)
    near = (below - below.round()).abs() > 0.01
    torch.testing.assert_close(
        f(below)[near], f(below.double())[near].float(), rtol=2e-6, atol=2e-6
    )
    exact = f(SIGNED.double()).float()
    found = f(SIGNED)
    torch.testing.assert_close(found, exact, equal_nan=True, rtol=1e-6, atol=0)
    assert torch.equal(found.signbit()[exact == 0], exact.signbit()[exact == 0])


BESSEL = {
    "i0": torch.i0,
    "i0e": torch.special.i0e,
    "i1": torch.special.i1,
    "i1e": torch.special.i1e,
    "trigamma": lambda x: torch.polygamma(1, x),
}


@pytest.mark.parametrize("name", BESSEL)
def test_functions_of_vector_code_are_those_of_double_precision(name: str) -> None:
    f = BESSEL[name]
    sizes = torch.logspace(-18, 1.9, 5001)
    x = torch.cat([torch.linspace(-30, 30, 50_001), sizes, -sizes])
    exact = f(x.double())
    if name == "trigamma":  # near its poles a float below zero is too far from a double
        x, exact = x[(x > 0) | (x % 1 > 0.01)], exact[(x > 0) | (x % 1 > 0.01)]
    assert units_wrong(f(x), exact) < 1
    torch.testing.assert_close(f(SIGNED), f(SIGNED.double()).float(), equal_nan=True)
    assert torch.equal(f(x[::3]), f(x)[::3])


def test_trigamma_is_the_slope_of_digamma() -> None:
    x = torch.tensor([0.5, 1.0, 2.0, 0.25, -0.5, 1e8], dtype=torch.float64)
    known = [4.93480220054468, 1.64493406684823, 0.644934066848226]
    known += [17.1973291545071, 8.93480220054468, 1.000000005e-8]
    torch.testing.assert_close(
        torch.polygamma(1, x), torch.tensor(known, dtype=torch.float64), rtol=1e-13, atol=0
    )


def test_gamma_functions_do_not_look_at_neighbours() -> None:
    x = torch.randn(4001) * 5
    for f in (torch.lgamma, torch.digamma):
        alone = torch.cat([f(x[i : i + 1]) for i in range(400)])
        assert torch.equal(f(x)[:400].nan_to_num(7), alone.nan_to_num(7))
        assert torch.equal(f(x[::3]).nan_to_num(7), f(x)[::3].nan_to_num(7))


def test_angles_are_right_to_some_units() -> None:
    generator = torch.Generator().manual_seed(3)
    sizes = torch.pow(10.0, torch.rand(400_003, generator=generator) * 60 - 30)
    y = torch.randn(400_003, generator=generator) * sizes
    x = torch.randn(400_003, generator=generator) * sizes.flip(0).sqrt() * sizes.sqrt()
    assert units_wrong(torch.atan2(y, x), torch.atan2(y.double(), x.double())) < 2.5
    a, b = SIGNED[:, None].expand(29, 29).flatten(), SIGNED.repeat(29)
    found, exact = torch.atan2(a, b), torch.from_numpy(np.arctan2(a.numpy(), b.numpy()))
    torch.testing.assert_close(found, exact, equal_nan=True, rtol=3e-7, atol=2e-45)
    known = ~exact.isnan()
    assert torch.equal(found.signbit()[known], exact.signbit()[known])


@pytest.mark.parametrize("op", ["atan2", "hypot", "logaddexp2"])
def test_equal_elements_have_equal_results_wherever_they_stand(op: str) -> None:
    f = getattr(torch, op)
    a, b = torch.randn(1007), torch.randn(1007)
    whole = f(a, b)
    assert torch.equal(torch.cat([f(a[i:][:1], b[i:][:1]) for i in range(1007)]), whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_next_numbers(dtype: str) -> None:
    a = np.concatenate([SIGNED.numpy(), np.random.default_rng(1).normal(size=30)]).astype(dtype)
    least, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    a = np.concatenate([a, np.array([least, -least, most, -most], dtype)])
    x, y = np.meshgrid(a, a)
    found = torch.nextafter(torch.from_numpy(x.copy()), torch.from_numpy(y.copy())).numpy()
    expected = np.nextafter(x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found), np.signbit(expected) | np.isnan(expected) & np.signbit(found)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_next_numbers_of_half_precision(dtype: torch.dtype) -> None:
    x = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(dtype)

    def place(values: Tensor) -> Tensor:  # among all numbers, zeros being one of them
        bits = values.view(torch.int16).long()
        return torch.where(bits < 0, -(bits & 0x7FFF), bits)

    for end, step in ((math.inf, 1), (-math.inf, -1)):
        y = torch.full_like(x, end)
        moves = ~x.isnan() & (x != end)
        assert torch.equal(place(torch.nextafter(x, y))[moves], place(x)[moves] + step)
    assert torch.equal(torch.nextafter(x, x).isnan(), x.isnan())
    assert torch.nextafter(x, torch.full_like(x, math.nan)).isnan().all()
    zeros = torch.tensor([0.0, -0.0], dtype=dtype)
    assert torch.nextafter(zeros, zeros.flip(0)).signbit().tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float32", "int64", "complex128"])
@pytest.mark.parametrize("shape", [(0,), (1,), (255,), (257,), (16385,), (70, 1001), (3, 5, 7)])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_masks(dtype: str, shape: tuple[int, ...], share: float) -> None:
    generator = np.random.default_rng(7)
    x = (generator.normal(size=shape) * 9).astype(dtype)
    mask = generator.random(shape) < share
    t, m = torch.from_numpy(x), torch.from_numpy(mask)
    np.testing.assert_array_equal(t[m].numpy(), x[mask])
    np.testing.assert_array_equal(torch.masked_select(t, m).numpy(), x[mask])
    np.testing.assert_array_equal(m.nonzero().numpy(), np.argwhere(mask))
    kept = torch.where(m, t, torch.zeros_like(t))
    np.testing.assert_array_equal(kept.nonzero().numpy(), np.argwhere(np.where(mask, x, 0)))


def test_masks_of_views_and_their_gradients() -> None:
    x = torch.randn(6, 8).t()
    mask = x > 0
    np.testing.assert_array_equal(x[mask].numpy(), x.numpy()[mask.numpy()])
    plain = torch.randn(5, 7, requires_grad=True)
    chosen = plain.detach() > 0
    plain[chosen].sum().backward()
    assert plain.grad is not None
    assert torch.equal(plain.grad, chosen.float())
    with pytest.raises(IndexError):
        plain[chosen[:4]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_losses_with_a_limit(dtype: torch.dtype) -> None:
    x = (torch.randn(37, 41) * 3).to(dtype).requires_grad_()
    y = (torch.randn(41) * 3).to(dtype)
    d = (x.detach().double() - y.double()).abs()
    for limit in (0.5, 1.0, 2.5):
        expected = torch.where(d < limit, d * d / 2, limit * (d - limit / 2))
        found = functional.huber_loss(x, y.expand(37, 41), reduction="none", delta=limit)
        torch.testing.assert_close(found, expected.to(dtype))
        smooth = functional.smooth_l1_loss(x, y.expand(37, 41), reduction="none", beta=limit)
        torch.testing.assert_close(smooth, (expected / limit).to(dtype), rtol=1.6e-2, atol=1e-5)
        (slope,) = torch.autograd.grad(found.sum(), x)
        clamped = (x.detach() - y).clamp(-limit, limit)
        torch.testing.assert_close(slope, clamped)
    assert functional.huber_loss(torch.tensor([math.nan]), torch.tensor([0.0])).isnan()


@pytest.mark.parametrize("beta", [1, 0, 0.5])
def test_addr(beta: float) -> None:
    x, a, b = torch.randn(5, 7, requires_grad=True), torch.randn(5), torch.randn(7)
    found = torch.addr(x, a, b, beta=beta, alpha=-2.5)
    torch.testing.assert_close(found, beta * x - 2.5 * a[:, None] * b)
    (slope,) = torch.autograd.grad(found.sum() + 0 * x.sum(), x)
    torch.testing.assert_close(slope, torch.full((5, 7), float(beta)))
    with pytest.raises(RuntimeError):
        torch.addr(torch.randn(4, 7), a, b)
    assert torch.addr(torch.ones(7), a, b).shape == (5, 7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [2051, 70000])
def test_large_columns(dtype: torch.dtype, rows: int) -> None:
    x = torch.randn(rows, 8_400_000 // rows).to(dtype)
    found = x.softmax(0)
    torch.testing.assert_close(found, x.double().softmax(0).to(dtype), rtol=2e-2, atol=1e-6)
    torch.testing.assert_close(
        found.double().sum(0), torch.ones(x.shape[1]).double(), rtol=1e-2, atol=0
    )
    # Floats are added in double precision, bfloat16 in single precision, as PyTorch does.
    wider = np.float64 if dtype == torch.float32 else np.float32
    down = np.cumsum(x.float().numpy(), 0, dtype=wider)
    assert torch.equal(x.cumsum(0), torch.from_numpy(down).to(dtype))
    across = x.double().cumsum(1).to(dtype)
    for found in (x.cumsum(1), x.clone().cumsum_(1)):
        torch.testing.assert_close(found, across, rtol=1e-2, atol=1e-4)


def test_quotients_of_complex_numbers() -> None:
    generator = torch.Generator().manual_seed(5)
    parts = torch.randn(4, 10_007, generator=generator)
    parts = parts * torch.pow(10.0, torch.rand(4, 10_007, generator=generator) * 60 - 30)
    a, b = torch.complex(parts[0], parts[1]), torch.complex(parts[2], parts[3])
    found, exact = a / b, a.to(torch.complex128) / b.to(torch.complex128)
    fits = (exact.abs() < 1e38) & (exact.abs() > 1e-30)
    assert ((found.to(torch.complex128) - exact).abs() / exact.abs())[fits].max() < 2**-23.5
    assert torch.equal(found[::3], a[::3] / b[::3])
    assert torch.equal(found[:5], torch.cat([a[i : i + 1] / b[i : i + 1] for i in range(5)]))
    # Infinities and zeros beside ordinary numbers, as the C library has them.
    values = torch.tensor([1.0, 0.0, -2.0, math.inf, -math.inf])
    c = torch.complex(values[:, None].expand(5, 5).flatten(), values.repeat(5))
    p, q = c[:, None].expand(25, 25).flatten(), c.repeat(25)
    whole = torch.view_as_real(p / q)
    strided = torch.view_as_real(torch.stack([p, p], 1)[:, 0] / torch.stack([q, q], 1)[:, 0])
    torch.testing.assert_close(whole, strided, equal_nan=True, rtol=0, atol=0)
    assert torch.view_as_real(torch.complex(values[:1], values[1:2]) / 0j).isinf().any()
    x = a.clone()
    x /= b
    assert torch.equal(x, found)


REDUCED = {torch.float32: 3e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}


def sums_of_powers(x: Tensor, dim: int) -> list[Tensor]:
    return [x.softmax(dim), x.log_softmax(dim), x.logsumexp(dim)]


@pytest.mark.parametrize("dtype", REDUCED)
@pytest.mark.parametrize("shape", [(3, 257), (17, 1031), (600, 256), (4100, 37), (130, 2090)])
def test_sums_of_powers_along_both_dimensions(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    torch.manual_seed(3)
    for factor, level in (1, 0), (9, 3), (1, -900):
        x = (torch.randn(shape) * factor + level).to(dtype)
        for of in x, x[None].expand(2, *shape):
            for dim in -2, -1:
                wanted = sums_of_powers(of.double(), dim)
                for found, exact in zip(sums_of_powers(of, dim), wanted, strict=True):
                    assert found.dtype == dtype
                    torch.testing.assert_close(
                        found.double(), exact, rtol=REDUCED[dtype] * (1 + 9 * factor), atol=1e-6
                    )
                assert of.log_softmax(dim).max() <= 0


@pytest.mark.parametrize("dtype", REDUCED)
@pytest.mark.parametrize("shape", [(700, 300), (300, 700)])
def test_sums_of_powers_with_large_and_infinite_elements_anywhere(
    dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    torch.manual_seed(4)
    plain = torch.randn(shape).to(dtype)
    infinity, most = math.inf, 6e4
    for value in 40.0, 200.0, most, infinity, math.nan, -infinity, -most:
        for row, column in (0, 0), (shape[0] - 1, shape[1] - 1), (150, 290):
            x = plain.clone()
            x[row, column] = value
            x[17, : shape[1] // 2] = -infinity
            x[: shape[0] // 2, 33] = -infinity
            for dim in 0, 1:
                wanted = sums_of_powers(x.double(), dim)
                for found, exact in zip(sums_of_powers(x, dim), wanted, strict=True):
                    torch.testing.assert_close(
                        found.double(), exact, rtol=10 * REDUCED[dtype], atol=1e-6, equal_nan=True
                    )
    for dim in 0, 1:
        nothing = torch.full(shape, -infinity, dtype=dtype)
        assert nothing.softmax(dim).isnan().all() and nothing.log_softmax(dim).isnan().all()
        assert torch.equal(nothing.logsumexp(dim), nothing.amax(dim))
        huge = torch.full(shape, torch.finfo(dtype).max, dtype=dtype)
        torch.testing.assert_close(
            huge.softmax(dim).sum(dim).float(), torch.ones(shape[1 - dim]), rtol=1e-2, atol=0
        )
        assert torch.equal(huge.logsumexp(dim), huge.amax(dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("columns", [1, 3, 31, 32, 64, 77, 1030, 9000])
def test_layer_norm_of_any_width_is_that_of_double_precision(
    dtype: torch.dtype, columns: int
) -> None:
    torch.manual_seed(5)
    x = torch.randn(9, columns).to(dtype)
    x[3:5] += 30
    x[5] = 2
    if columns > 2:
        x[6, columns - 2], x[7, 0] = math.nan, math.inf
    weight, bias = torch.randn(columns).to(dtype), torch.randn(columns).to(dtype)
    for parameters in (None, None), (weight, bias), (weight, None), (None, bias):
        found = functional.layer_norm(x, (columns,), *parameters)
        wide = [None if each is None else each.double() for each in parameters]
        exact = functional.layer_norm(x.double(), (columns,), *wide)
        limit = {torch.float32: 4e-6, torch.float64: 1e-12, torch.bfloat16: 5e-3}.get(dtype, 1e-3)
        torch.testing.assert_close(
            found.double(), exact, rtol=limit, atol=4 * limit, equal_nan=True
        )


def test_layer_norm_past_the_cache() -> None:
    x = torch.randn(8200, 1024).bfloat16()
    for of in x, x.float(), x[:, :1023].contiguous():
        found = functional.layer_norm(of, of.shape[1:])
        rows = torch.tensor([0, 1, 4099, 8199])
        assert torch.equal(found[rows], functional.layer_norm(of[rows], of.shape[1:]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("n", [65536, 65537, 8192 * 9 + 63, 8192 * 9 - 1])
def test_mean_squared_error_of_any_length(dtype: torch.dtype, n: int) -> None:
    torch.manual_seed(6)
    a, b = torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    limit = {torch.float32: 2e-7, torch.float64: 1e-13, torch.bfloat16: 4e-3}.get(dtype, 5e-4)
    for reduction in "mean", "sum":
        found = functional.mse_loss(a, b, reduction=reduction)
        assert found.dtype == dtype
        exact = functional.mse_loss(a.double(), b.double(), reduction=reduction)
        if dtype != torch.float16 or reduction == "mean":
            torch.testing.assert_close(found.double(), exact, rtol=limit, atol=0)
    a[n - 1] = math.nan
    assert functional.mse_loss(a, b).isnan()
