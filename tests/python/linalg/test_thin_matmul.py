"""Products that have loops of their own: batches of tiny matrices, long dots, thin factors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

DTYPES = [torch.float32, torch.float64, torch.int64, torch.complex64, torch.complex128]


def whole(rng: np.random.Generator, dtype: torch.dtype, *shape: int) -> np.ndarray:
    """Small whole numbers, whose sums are exact in all dtypes."""
    real = rng.integers(-3, 4, shape)
    return real + 1j * rng.integers(-3, 4, shape) if dtype.is_complex else real


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", [2, 3, 4])
def test_batches_of_tiny_matrices_of_any_strides(dtype: torch.dtype, side: int) -> None:
    rng = np.random.default_rng(0)
    for count in (2, 7, 9000):
        base = whole(rng, dtype, count, 2 * side, 2 * side)
        wide = torch.tensor(base).to(dtype)
        dense, exact = wide[:, :side, :side], base[:, :side, :side]
        pairs = [
            (dense.contiguous(), exact),
            (dense.contiguous().mT, exact.swapaxes(1, 2)),
            (wide[:, ::2, 1::2], base[:, ::2, 1::2]),
            (dense[:1].expand(count, side, side), exact[:1]),
        ]
        for a, x in pairs:
            for b, y in pairs:
                assert ((a @ b).numpy() == x @ y).all()
        out = torch.empty(count, side, side, dtype=dtype).mT
        torch.bmm(dense, dense, out=out)
        assert np.array_equal(out.numpy(), exact @ exact)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_dots_of_any_length(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    for length in (1, 2, 7, 8, 33, 64, 100, 16385, 70001):
        a, b = whole(rng, dtype, length), whole(rng, dtype, length)
        x, y = torch.tensor(a).to(dtype), torch.tensor(b).to(dtype)
        assert torch.einsum("i,i->", x, y).item() == np.dot(a, b)
        assert torch.dot(x.flip(0)[::1], y).item() == np.dot(a[::-1], b)
        spread = torch.stack([x, y], 1)
        assert torch.einsum("i,i->", spread[:, 0], spread[:, 1]).item() == np.dot(a, b)
        assert torch.vdot(x, y).item() == np.vdot(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
def test_products_over_few_elements(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in [(70, 1030, 1), (1030, 70, 3), (301, 301, 2), (257, 3, 300), (3, 300, 129)]:
        a, b, c = whole(rng, dtype, m, k), whole(rng, dtype, k, n), whole(rng, dtype, m, n)
        x, y, z = (torch.tensor(t).to(dtype) for t in (a, b, c))
        exact, sums = torch.tensor(a @ b).to(dtype), torch.tensor(2 * (a @ b) + 3 * c).to(dtype)
        for left in (x, x.T.contiguous().T):
            for right in (y, y.T.contiguous().T):
                assert torch.equal(left @ right, exact)
                assert torch.equal(torch.addmm(z, left, right, alpha=2, beta=3), sums)
                assert torch.equal((right.T @ left.T).T, exact)
