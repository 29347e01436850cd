"""Derivatives of the Hermitian square root and of the polar decomposition, to second order."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_roots_have_derivatives(dtype: Any) -> None:
    torch.manual_seed(0)
    a = torch.randn(3, 3, dtype=dtype, requires_grad=True)

    def root(x: Any) -> Any:
        return torch.linalg.matrix_sqrth(x @ x.mH + torch.eye(3, dtype=dtype))

    assert torch.autograd.gradcheck(root, (a,))
    assert torch.autograd.gradgradcheck(root, (a,))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_polar_parts_have_derivatives(dtype: Any) -> None:
    torch.manual_seed(0)
    a = torch.randn(4, 3, dtype=dtype, requires_grad=True)
    u, h = torch.linalg.polar(a)
    assert torch.allclose(u @ h, a)
    assert torch.allclose(u.mH @ u, torch.eye(3, dtype=dtype))
    assert torch.autograd.gradcheck(torch.linalg.polar, (a,))
    assert torch.autograd.gradgradcheck(torch.linalg.polar, (a,))


def test_equal_singular_values_do_no_harm() -> None:
    a = torch.eye(3, dtype=torch.float64, requires_grad=True)
    torch.linalg.polar(a)[0].sum().backward()
    assert a.grad is not None and a.grad.isfinite().all()
