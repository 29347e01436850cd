"""Products of complex matrices; small ones are computed as products of real ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as torch

SIZES = [1, 2, 5, 17]


def made(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_products_of_any_strides_are_right(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    bound = 4 * torch.finfo(dtype).eps
    for m, n, k in itertools.product(SIZES, repeat=3):
        a, b, c = made(rng, 2, m, k), made(rng, 2, k, n), made(rng, 2, m, n)
        exact = (2 - 1j) * (a @ b) + 0.5j * c
        size = (np.abs(a) @ np.abs(b) + np.abs(c)) * 4 + 1
        x, y, z = (torch.tensor(t).to(dtype) for t in (a, b, c))
        for turn in range(4):
            left = x.mT.contiguous().mT if turn & 1 else x
            right = y.mT.contiguous().mT if turn & 2 else y
            found = torch.baddbmm(z, left, right, alpha=2 - 1j, beta=0.5j)
            assert (np.abs(found.numpy() - exact) <= bound * np.sqrt(k) * size).all()
            out = torch.empty(2, n, m, dtype=dtype).mT
            torch.bmm(left, right, out=out)
            assert (np.abs(out.numpy() - a @ b) <= bound * np.sqrt(k) * size).all()
