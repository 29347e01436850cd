"""gradcheck of forward mode and of batches: right derivatives pass, wrong ones do not."""

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError

pytestmark = pytest.mark.quick


def model(x, w):
    return torch.tanh(x @ w), x.exp().sum(0)


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return tuple(
        torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4, 2))
    )


def test_right_derivatives_pass(inputs):
    assert gradcheck(
        model,
        inputs,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(model, inputs, check_fwd_over_rev=True, check_batched_grad=True)


def test_forward_mode_alone(inputs):
    assert gradcheck(model, inputs, check_forward_ad=True, check_backward_ad=False)
    with pytest.raises(AssertionError, match="at least one of"):
        gradcheck(model, inputs, check_backward_ad=False)


def test_a_wrong_derivative_is_found(inputs):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    with pytest.raises(GradcheckError, match="forward mode"):
        gradcheck(Wrong.apply, inputs[:1], check_forward_ad=True, check_backward_ad=False)


def test_dual_tensors_inside_vmap_have_the_tangents_of_their_samples():
    forward = torch.autograd.forward_ad
    x, tangents = torch.randn(3), torch.randn(2, 3)

    def along(tangent):
        with forward.dual_level():
            return forward.unpack_dual(forward.make_dual(x, tangent).exp()).tangent

    assert torch.allclose(torch.func.vmap(along)(tangents), tangents * x.exp())
