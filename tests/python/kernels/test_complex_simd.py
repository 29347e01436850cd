"""Arithmetic of complex numbers in SIMD registers, with numbers and in any layout; shifts and
logic of small integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor

Formula = Callable[[Tensor, Tensor, Tensor], Tensor]

FORMULAS: dict[str, Formula] = {
    "sum": lambda x, y, z: x + y,
    "sum with a number": lambda x, y, z: x + (3 - 2j),
    "number less": lambda x, y, z: 3 - x,
    "scaled sum": lambda x, y, z: torch.add(x, y, alpha=2 - 1j),
    "product with a number": lambda x, y, z: x * (1 - 2j),
    "product with a row": lambda x, y, z: x * y[:1],
    "quotient": lambda x, y, z: x / y,
    "quotient by a number": lambda x, y, z: x / (3 + 1j),
    "number over": lambda x, y, z: 3 / x,
    "square": lambda x, y, z: x**2,
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=2 + 1j),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
    "lerp": lambda x, y, z: torch.lerp(x, y, z),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("shape", [(1, 3), (9, 31), (40, 1), (0, 4)])
def test_complex_numbers_in_any_layout(name: str, shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x, y, z = (torch.randn(*shape, dtype=torch.complex64) for _ in range(3))
    across = torch.randn(shape[1], shape[0], dtype=torch.complex64).t()
    for a, b, c in ((x, y, z), (across, y, z), (x, across, z)):
        exact = FORMULAS[name](*(v.to(torch.complex128) for v in (a, b, c)))
        found = FORMULAS[name](a, b, c).to(torch.complex128)
        size = (a.abs() + b.abs() + exact.abs() + 1).double()
        assert bool(((found - exact).abs() <= 1e-6 * size).all())


def test_complex_quotients_at_the_ends() -> None:
    x = torch.tensor([1 + 1j] * 5 + [complex(0, 0), complex(torch.inf, 0), complex(3e38, 3e38)])
    quotient = (1 + 0j) / x
    assert quotient[6] == 0 and bool(quotient[:5].isclose(torch.tensor(0.5 - 0.5j)).all())
    assert bool(torch.isfinite(quotient[7].abs())) and not torch.isfinite(quotient[5].abs())


def complex_array(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (9, 31), (0, 4), (130, 257)])
def test_signs_and_products(dtype: str, shape: tuple[int, int]) -> None:
    whole = complex_array(dtype, shape[0], 2 * shape[1])
    for a in (whole[:, : shape[1]].copy(), whole[:, ::2], whole.T.copy().T[:, 1::2]):
        z = torch.from_numpy(a)
        assert np.array_equal((-z).numpy(), -a)
        assert np.array_equal(z.conj().resolve_conj().numpy(), a.conj())
        assert np.allclose(z.square().numpy(), a * a, 1e-5)
        assert np.allclose((z.conj() * z).numpy(), a.conj() * a, 1e-5)
        assert np.allclose((z * (2 - 1j)).numpy(), a * (2 - 1j), 1e-5)
        filled = torch.zeros(2, *shape, dtype=z.dtype)
        assert np.array_equal(filled.copy_(z.conj()).numpy(), np.stack([a.conj()] * 2))
        assert np.array_equal(filled.conj().copy_(z).resolve_conj().numpy(), np.stack([a] * 2))
    z = torch.from_numpy(whole.copy())
    assert np.array_equal(z.copy_(z.conj()).numpy(), whole.conj())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("shape", [(5, 3), (33, 70), (7, 1200), (2600, 9)])
def test_products_and_sums_of_all(dtype: str, step: int, shape: tuple[int, int]) -> None:
    a = complex_array(dtype, *shape)
    a /= np.abs(a)  # so that nothing overflows
    x, a = torch.from_numpy(a)[:, ::step], a[:, ::step]
    within = 1e-3 if dtype == "complex64" else 1e-9
    for dim in (None, 0, 1):
        dims = () if dim is None else (dim,)
        assert np.allclose(x.prod(*dims).numpy(), a.prod(dim), within, within)
        assert np.allclose(x.sum(*dims).numpy(), a.sum(dim), within, within)


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 31, 64, 1025, 40001])
def test_real_parts_and_every_second_element(dtype: str, n: int) -> None:
    a = complex_array("complex64", n) * 10
    z = torch.from_numpy(a)
    kind = getattr(torch, dtype)
    assert np.array_equal(z.to(kind).numpy(), a.real.astype(dtype))
    assert np.array_equal(z.imag.to(kind).numpy(), a.imag.astype(dtype))
    real = a.real.astype(dtype)
    x = torch.from_numpy(real)[::2]
    assert np.array_equal(x.clone().numpy(), real[::2])
    assert np.array_equal((x + x).numpy(), real[::2] + real[::2])
    assert np.array_equal(x.to(torch.float16).numpy(), real[::2].astype("float16"))
    total = real[::2].sum(dtype="float64")
    assert np.isclose(float(x.to(torch.float64).sum()), total)
    assert np.isclose(float(x.sum()), total, 2e-3, 2e-3 * abs(real).sum(dtype="float64"))
    assert float(x.amax()) == real[::2].max()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_shifts_beyond_the_width(dtype: torch.dtype) -> None:
    least = 0 if dtype == torch.uint8 else -100
    a = torch.arange(least, 120).to(dtype)
    width = torch.iinfo(dtype).bits
    for positions in (0, 1, 7, 8, 31, 32, 63, 64, 100):
        left = [v << positions if positions < width else 0 for v in a.tolist()]
        wrapped = torch.tensor([v & (2**width - 1) for v in left], dtype=torch.uint64)
        b = torch.full_like(a, positions)
        assert torch.equal((a << b).to(torch.int64), wrapped.to(dtype).to(torch.int64))
        right = torch.tensor([v >> positions for v in a.tolist()], dtype=dtype)
        assert torch.equal(a >> b, right)
    if dtype != torch.uint8:
        assert torch.equal(a << -1, torch.zeros_like(a))
        assert torch.equal(a >> -1, torch.where(a < 0, -1, 0).to(dtype))


def test_logic_of_bools_and_small_powers_of_integers() -> None:
    a, b = torch.arange(100) % 2 == 0, torch.arange(100) % 3 == 0
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert torch.logical_and(a, b).tolist() == [p and q for p, q in pairs]
    assert torch.logical_or(a, b).tolist() == [p or q for p, q in pairs]
    for dtype in (torch.uint8, torch.int64):
        x = torch.arange(20, dtype=dtype)
        assert torch.equal(x**2, x * x) and torch.equal(x**3, x * x * x)
        assert (x**2).dtype == dtype
