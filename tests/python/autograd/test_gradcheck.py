"""gradcheck finds wrong derivatives, of every kind it looks for, and passes right ones."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import Function, gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError

both_modes = pytest.mark.parametrize("fast_mode", [False, True])


def custom(backward, forward=lambda x: x * 2):
    class Custom(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return forward(x)

    Custom.backward = staticmethod(lambda ctx, g: backward(g))
    return Custom.apply


def materialized(backward):
    return custom(lambda g: None if g is None else backward(g))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


@pytest.fixture
def z() -> torch.Tensor:
    return torch.tensor([1 + 2j, 2 - 1j], dtype=torch.complex128, requires_grad=True)


@both_modes
def test_right_derivatives_pass(x, z, fast_mode) -> None:
    y = x.detach().clone().requires_grad_()
    assert gradcheck(torch.sin, x, fast_mode=fast_mode)
    assert gradcheck(lambda a, b: (a * b, a.sum()), (x, y), fast_mode=fast_mode)
    assert gradcheck(lambda a, n: a**n, (x, 3), fast_mode=fast_mode)
    assert gradcheck(lambda a: a.reshape(3, 1) * a, x, fast_mode=fast_mode)
    assert gradcheck(lambda c: c * c, z, fast_mode=fast_mode)
    assert gradcheck(lambda c: c.abs(), z, fast_mode=fast_mode)
    assert gradcheck(lambda c, a: c.conj() * a[:2], (z, x), fast_mode=fast_mode)
    assert gradcheck(torch.sin, torch.empty(0, dtype=torch.float64, requires_grad=True))


@both_modes
def test_second_derivatives(x, z, fast_mode) -> None:
    assert gradgradcheck(lambda a: a**3, x, fast_mode=fast_mode)
    assert gradgradcheck(lambda c: c**3, z, fast_mode=fast_mode)
    assert gradgradcheck(
        lambda a: a.exp(), x, gen_non_contig_grad_outputs=True, fast_mode=fast_mode
    )


@both_modes
def test_wrong_derivatives_are_reported(x, z, fast_mode) -> None:
    wrong = materialized(lambda g: g * 3)
    with pytest.raises(
        GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"
    ):
        gradcheck(wrong, x, fast_mode=fast_mode)
    assert gradcheck(wrong, x, fast_mode=fast_mode, raise_exception=False) is False
    with pytest.raises(GradcheckError, match="imaginary part of complex outputs only"):
        gradcheck(wrong, z, fast_mode=fast_mode)


def test_the_message_shows_both_jacobians(x) -> None:
    with pytest.raises(GradcheckError) as error:
        gradcheck(materialized(lambda g: g * 3), x)
    assert "numerical:tensor([[2.0000, 0.0000, 0.0000]" in str(error.value)
    assert "analytical:tensor([[3., 0., 0.]" in str(error.value)


@both_modes
def test_functions_without_derivative(x, fast_mode) -> None:
    assert gradcheck(lambda a: a.argmax(), x, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda a: a.detach() * 2, x, fast_mode=fast_mode)


@both_modes
def test_backward_that_is_not_deterministic(x, fast_mode) -> None:
    calls = []

    def drifting(g):
        calls.append(1)
        return g * (2 + 1e-7 * len(calls))

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(materialized(drifting), x, fast_mode=fast_mode)
    assert gradcheck(materialized(drifting), x, nondet_tol=1e-3, fast_mode=fast_mode)


@both_modes
def test_backward_that_does_not_multiply_by_the_gradient(x, fast_mode) -> None:
    linear_plus = materialized(lambda g: g * 2 + 1e-7)
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(linear_plus, x, fast_mode=fast_mode)


def test_undefined_gradients(x) -> None:
    not_zero = custom(lambda g: torch.ones(3, dtype=torch.float64) if g is None else g * 2)
    with pytest.raises(GradcheckError, match="undefined or zero"):
        gradcheck(not_zero, x)
    assert gradcheck(not_zero, x, check_undefined_grad=False)


def test_unfit_inputs(x) -> None:
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(torch.sin, x.detach())
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        gradcheck(torch.sin, x.detach()[0].expand(3).requires_grad_())
    single = x.detach().float().requires_grad_()
    with pytest.warns(UserWarning, match="not a double precision"):
        assert gradcheck(torch.sin, single, eps=1e-2, atol=1e-2)


def test_inputs_are_left_as_they_were(x) -> None:
    before = x.tolist()
    gradcheck(torch.sin, x)
    gradcheck(torch.sin, x, fast_mode=True)
    assert x.tolist() == before and x.grad is None
