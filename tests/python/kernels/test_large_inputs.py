"""Ops that take another way for large inputs: what they give beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 0.9371, 1.0])
def test_quantile_of_long_rows(q: float, interpolation: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 70_001, dtype=torch.float64).requires_grad_()
    got = x.quantile(q, 1, interpolation=interpolation)
    want = np.quantile(x.detach().numpy(), q, axis=1, method=interpolation)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12)
    (gradient,) = torch.autograd.grad(got.sum(), x)
    np.testing.assert_allclose(gradient.sum(1).numpy(), [1, 1], rtol=1e-12)
    assert (gradient != 0).sum(1).max() <= 2
    x.detach()[1, 5] = torch.nan
    found = x.detach().quantile(q, 1, interpolation=interpolation)
    assert not found[0].isnan() and found[1].isnan()
    assert x.detach().nanquantile(q, 1, interpolation=interpolation).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [1, 7, 100, 40_000])
def test_histc_counts_blocks_of_threads(dtype: torch.dtype, bins: int) -> None:
    torch.manual_seed(0)
    x = torch.rand(150_001, dtype=dtype) * 4 - 2
    x[::5000] = torch.nan
    x[0], x[1], x[2], x[3] = -1, 1, torch.inf, -torch.inf
    got = torch.histc(x, bins, -1, 1)
    values = x.numpy()
    inside = values[(values >= -1) & (values <= 1)]
    scale = x.numpy().dtype.type(bins / 2)
    positions = np.minimum(((inside + 1) * scale).astype(np.int64), bins - 1)
    assert got.dtype == dtype and got.numpy().tolist() == np.bincount(positions).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("step", [1, 3])
def test_dot_of_long_vectors(dtype: torch.dtype, step: int) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(3 * 200_003, dtype=dtype)[::step] for _ in range(2))
    want = np.dot(a.double().numpy(), b.double().numpy())
    assert abs(a.dot(b).item() - want) < (1e-2 if dtype == torch.float32 else 1e-9)
    threads, found = torch.get_num_threads(), []
    for number in (1, 2, threads):
        torch.set_num_threads(number)
        found.append(a.dot(b).item())
    assert found[0] == found[1] == found[2]


def test_glu_and_its_derivatives() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, 6, dtype=torch.float64).requires_grad_()
    for dim in (1, 2):
        values, gate = x.chunk(2, dim)
        assert torch.allclose(F.glu(x, dim), values * gate.sigmoid(), rtol=1e-14)
        assert torch.autograd.gradcheck(lambda x, dim=dim: F.glu(x, dim), x)
        assert torch.autograd.gradgradcheck(lambda x, dim=dim: F.glu(x, dim), x)


@pytest.mark.parametrize("pad", [(1, 1), (0, 2, 1, 0), (-1, 1, 3, -2), (5, 0, 0, 0)])
@pytest.mark.parametrize("shape", [(300, 1000), (2000, 300)])
def test_rims_of_large_tensors(pad: tuple[int, ...], shape: tuple[int, int]) -> None:
    x = torch.arange(shape[0] * shape[1], dtype=torch.float32).view(shape) + 1
    widths = [(0, 0), (0, 0)]
    for i in range(0, len(pad), 2):
        widths[1 - i // 2] = (max(pad[i], 0), max(pad[i + 1], 0))
    inner = x.numpy()
    for i in range(0, len(pad), 2):
        begin, end = max(-pad[i], 0), inner.shape[1 - i // 2] - max(-pad[i + 1], 0)
        inner = inner.take(range(begin, end), axis=1 - i // 2)
    want = np.pad(inner, widths, constant_values=7)
    assert F.pad(x, pad, value=7).numpy().tolist() == want.tolist()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 33])
def test_windows_of_few_bytes(dtype: torch.dtype, size: int) -> None:
    x = torch.arange(5 * 200).remainder(251).to(dtype).view(5, 200)
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy(), size, axis=1)[:, ::3]
    got = x.unfold(1, size, 3)
    assert got.contiguous().numpy().tolist() == windows.tolist()
    assert got.flip(0).contiguous().numpy().tolist() == windows[::-1].tolist()


# By each thread on its own, and by one for all where the bins are many.
@pytest.mark.parametrize("bins", [7, 1000, 40_000])
def test_counts_of_many_positions(bins: int) -> None:
    positions = np.random.default_rng(6).integers(0, bins, 600_001)
    ours = torch.from_numpy(positions).bincount(minlength=bins)
    np.testing.assert_array_equal(ours.numpy(), np.bincount(positions, minlength=bins))
    positions[-1] = -1
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.from_numpy(positions).bincount()
