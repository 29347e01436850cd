"""Products of matrices of integers, which wrap like NumPy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau as torch

SIZES = [1, 3, 8, 19, 37]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integer_products_of_any_strides_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(0)
    range_of = np.iinfo(dtype)
    two, three = np.array(2, dtype), np.array(3, dtype)
    for m, n, k in itertools.product(SIZES, repeat=3):
        a, b, c = (
            rng.integers(range_of.min, range_of.max, shape, dtype=dtype)
            for shape in ((2, m, k), (2, k, n), (2, m, n))
        )
        x, y, z = (torch.tensor(t) for t in (a, b, c))
        for turn in range(4):
            left = x.mT.contiguous().mT if turn & 1 else x
            right = y.mT.contiguous().mT if turn & 2 else y
            found = torch.baddbmm(z, left, right, alpha=3, beta=2)
            assert (found.numpy() == three * (a @ b) + two * c).all()
            out = torch.empty(2, n, m, dtype=getattr(torch, dtype)).mT
            torch.bmm(left, right, out=out)
            assert (out.numpy() == a @ b).all()
            assert (torch.matmul(left, right).numpy() == a @ b).all()
