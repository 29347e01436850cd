"""Triangular systems of a few rows, solved without BLAS, and larger ones, which are cut."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 47, 48, 49, 64, 97])
def test_triangular_systems_are_solved(dtype: torch.dtype, n: int) -> None:
    torch.manual_seed(n)
    tolerance = {"rtol": 0.0, "atol": 64 * torch.finfo(dtype).eps}
    for columns in (1, 2, 4, 17, 40):
        a = torch.randn(3, n, n, dtype=torch.float64) / n + 2 * torch.eye(n, dtype=torch.float64)
        b = torch.randn(3, n, columns, dtype=torch.float64)
        for case in range(8):
            upper, unit, transposed = bool(case & 1), bool(case & 2), bool(case & 4)
            whole = a.mT if transposed else a
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
@pytest.mark.parametrize("n", [33, 49, 64, 131])
def test_systems_are_cut_for_threads_and_products(dtype: torch.dtype, n: int) -> None:
    torch.manual_seed(n)
    exact_dtype = torch.complex128 if dtype.is_complex else torch.float64
    a = torch.randn(3, n, n, dtype=exact_dtype) / n**0.5 + 2 * torch.eye(n, dtype=exact_dtype)
    a[0] = a[0].flip(0)  # rows to exchange
    positive = a @ a.mH + torch.eye(n, dtype=exact_dtype)
    tolerance = {"rtol": 0.0, "atol": 2000 * torch.finfo(dtype).eps}
    inverse = np.linalg.inv(a.numpy())
    np.testing.assert_allclose(torch.linalg.inv(a.to(dtype)).numpy(), inverse, **tolerance)
    for columns in (3, 4, 150):
        b = torch.randn(3, n, columns, dtype=exact_dtype)
        left, right = a.to(dtype), b.to(dtype)
        x = torch.linalg.solve(left, right)
        np.testing.assert_allclose(x.numpy(), inverse @ b.numpy(), **tolerance)
        x = torch.linalg.solve(left.mT, right.mT, left=False)
        np.testing.assert_allclose(x.mT.numpy(), inverse @ b.numpy(), **tolerance)
    whole = np.linalg.inv(positive.numpy())
    factor = torch.linalg.cholesky(positive).to(dtype)
    beside = torch.full_like(factor, torch.nan).triu(1)  # which nobody reads
    for upper in (False, True):
        given = (factor + beside).mH if upper else factor + beside
        found = torch.cholesky_inverse(given, upper=upper)
        np.testing.assert_allclose(found.numpy(), whole, **tolerance)
        assert n <= 48 or torch.equal(found, found.mH)


def test_inverses_of_large_factors_have_derivatives() -> None:
    torch.manual_seed(0)
    a, g = torch.randn(49, 49, dtype=torch.float64), torch.randn(49, 49, dtype=torch.float64)
    factor = (a.tril() / 49 + torch.eye(49, dtype=torch.float64)).requires_grad_()
    for upper in (False, True):
        given = factor.mT if upper else factor
        whole = given.mT @ given if upper else given @ given.mT
        (found,) = torch.autograd.grad(torch.cholesky_inverse(given, upper=upper), factor, g)
        (expected,) = torch.autograd.grad(torch.linalg.inv(whole), factor, g)
        torch.testing.assert_close(found, expected)
    singular = torch.eye(64)
    singular[5, 5] = 0
    assert torch.linalg.inv_ex(torch.stack([singular, torch.eye(64)])).info.tolist() == [6, 0]
