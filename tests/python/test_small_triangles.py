"""Triangular systems of a few rows, which are solved without BLAS."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 47, 48, 49])
def test_triangular_systems_are_solved(dtype: torch.dtype, n: int) -> None:
    torch.manual_seed(n)
    tolerance = {"rtol": 0.0, "atol": 64 * torch.finfo(dtype).eps}
    for columns in (1, 2, 17, 40):
        a = torch.randn(3, n, n, dtype=torch.float64) / n + 2 * torch.eye(n, dtype=torch.float64)
        b = torch.randn(3, n, columns, dtype=torch.float64)
        for case in range(8):
            upper, unit, turned = bool(case & 1), bool(case & 2), bool(case & 4)
            whole = a.mT if turned else a
            triangle = whole.triu() if upper else whole.tril()
            if unit:
                triangle = triangle - torch.diag_embed(triangle.diagonal(dim1=-2, dim2=-1))
                triangle = triangle + torch.eye(n, dtype=torch.float64)
            exact = np.linalg.solve(triangle.numpy(), b.numpy())
            left, right = whole.to(dtype), b.to(dtype)
            found = torch.linalg.solve_triangular(left, right, upper=upper, unitriangular=unit)
            np.testing.assert_allclose(found.numpy(), exact, **tolerance)
            mirrored = torch.linalg.solve_triangular(
                left.mT, right.mT, upper=not upper, left=False, unitriangular=unit
            )
            np.testing.assert_allclose(mirrored.mT.numpy(), exact, **tolerance)


def test_systems_without_columns_or_matrices() -> None:
    assert torch.linalg.solve_triangular(torch.eye(3), torch.ones(3, 0), upper=True).shape == (3, 0)
    none = torch.linalg.solve_triangular(torch.ones(0, 3, 3), torch.ones(0, 3, 2), upper=False)
    assert none.shape == (0, 3, 2)
    zero = torch.linalg.solve_triangular(torch.zeros(2, 2), torch.ones(2, 1), upper=True)
    assert not zero.isfinite().any()
