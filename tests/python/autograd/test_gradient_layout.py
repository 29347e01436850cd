"""How gradients lie in memory, and which shape they have where a leaf has changed its own."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch


def test_the_gradient_of_a_sum_is_a_view_of_the_sums_gradient() -> None:
    """Also where that does not lie row by row, so that what follows has its layout."""
    x = torch.rand(2, 4, 3, 5, requires_grad=True)
    for of in (lambda x: x.exp().sum(0), lambda x: x.norm(dim=0)):
        y = of(x).swapaxes(0, -1)
        (gradient,) = torch.autograd.grad((y * y * 0.25).sum(), x, create_graph=True)
        assert gradient.stride() == (60, 1, 4, 12)


def test_a_view_taken_anew_gives_a_gradient_in_the_layout_of_its_base() -> None:
    base = torch.rand(2, 4, requires_grad=True)
    with torch.no_grad():
        base.transpose_(0, 1)
    view = base.reshape(4, -1)
    with torch.no_grad():
        base.abs_()  # now the history of the view is that of a window on memory
    (gradient,) = torch.autograd.grad((view * view).sum(), base)
    assert gradient.stride() == (1, 4) and gradient.equal(2 * base)
    again = base.as_strided((4, 2), (1, 4))
    assert torch.autograd.gradcheck(
        lambda x: x.as_strided((3, 2), (2, 1)) * 2, torch.rand(8, requires_grad=True).double()
    )
    assert torch.autograd.grad(again.exp().sum(), base)[0].stride() == (1, 4)


def test_the_second_operands_gradient_is_made_first() -> None:
    """Which decides the order in which second derivatives add up, and the layout of the sum."""
    x = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
    for of in (torch.mul, torch.div, torch.mm):
        order = []
        a, b = x * 1, x.exp()
        y = of(a, b)
        y.grad_fn.register_hook(
            lambda out, _, order=order: order.extend(g.grad_fn._sequence_nr() for g in out)
        )
        torch.autograd.grad((y * y).sum(), x, create_graph=True)
        assert order[1] < order[0]


def test_a_leafs_gradient_has_the_shape_that_was_used() -> None:
    """The shape that it has by now matters only where the gradient must be copied into it."""
    leaf = torch.tensor(2.0, requires_grad=True)
    used = leaf.clone()
    with torch.no_grad():
        leaf.unsqueeze_(0)
    used.sum().backward()
    assert leaf.grad is not None and leaf.grad.shape == ()
    leaf = torch.tensor([1.0], requires_grad=True)
    used = leaf.clone()
    leaf.data = torch.ones(4, 3)
    leaf.mul(2).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [24]
    leaf = torch.ones(3, requires_grad=True)
    used = leaf.clone()
    leaf.data = torch.ones(4, 3)
    leaf.mul(2).sum().backward()
    assert leaf.grad is not None and leaf.grad.equal(torch.full((4, 3), 8.0))


def test_second_derivatives_of_a_write_add_up_as_those_of_a_result() -> None:
    for write in (False, True):
        x = torch.rand(2, 2, dtype=torch.float64, requires_grad=True)
        copy, seen = x.clone(), []
        copy.register_hook(lambda g, seen=seen: seen.append(g.stride()))
        squared = copy.square_() if write else copy.square()
        y = squared * x.T
        (gradient,) = torch.autograd.grad((y * y * 0.25).sum(), x, create_graph=True)
        gradient.abs().sum().backward()
        assert seen == [(2, 1), (1, 2)]


def test_cutting_keeps_the_layout() -> None:
    """Padding by less than nothing, and so the gradient of padding."""
    x = torch.rand(3, 4, 2).permute(2, 1, 0).requires_grad_()
    cut = torch.nn.functional.pad(x, (0, -1, -1, 0))
    assert cut.stride() == (1, 2, 6) and cut.equal(x[:, 1:, :-1])
    padded = torch.nn.functional.pad(x, (1, 2), value=3.0)
    assert padded.stride() == (24, 6, 1) and padded[..., 1:4].equal(x)
    weights = torch.rand(6, 4, 2).permute(2, 1, 0)
    (gradient,) = torch.autograd.grad(padded, x, weights)
    assert gradient.stride() == (1, 2, 8) and gradient.equal(weights[..., 1:4])


def test_the_gradient_of_an_empty_window_has_no_history() -> None:
    x = torch.ones(1, 3, requires_grad=True)
    base = x.clone()
    window = base[1:]
    with torch.no_grad():
        base.mul_(2)  # the window's step is made anew, as one of strides
    (g,) = torch.autograd.grad(window.sum(), base, create_graph=True)
    assert not g.requires_grad and g.tolist() == [[0.0] * 3]


@pytest.mark.parametrize("name", ["cos", "acos", "square", "erfc", "erfinv", "special.ndtr"])
def test_a_slope_lies_as_its_argument_does(name: str) -> None:
    """Where the gradient that comes is one number, expanded."""
    x = torch.full((2, 3, 4), 0.25).permute(2, 0, 1).requires_grad_()
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part)
    (g,) = torch.autograd.grad(function(x).sum(), x)
    assert g.stride() == x.stride()


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_sees_channels_last_through_dimensions_of_one(training: bool) -> None:
    x = torch.rand(2, 3, 4, 1).transpose(1, 2).requires_grad_()  # strides (12, 1, 4, 1)
    layer = torch.nn.BatchNorm2d(4).train(training)
    out = layer(x)
    assert out.stride() == (12, 1, 4, 4)
    assert torch.autograd.grad(out.sum(), x)[0].stride() == (12, 3, 1, 1)
    torch.testing.assert_close(out, layer(x.contiguous()))


@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_keeps_channels_last(affine: bool) -> None:
    x = torch.rand(2, 6, 3, 4).contiguous(memory_format=torch.channels_last).requires_grad_()
    layer = torch.nn.GroupNorm(3, 6, affine=affine)
    out = layer(x)
    weights = torch.rand(2, 6, 3, 4)
    (gradient,) = torch.autograd.grad(out, x, weights)
    assert out.stride() == x.stride() and gradient.stride() == x.stride()
    y = x.detach().contiguous().requires_grad_()
    torch.testing.assert_close(out, layer(y))
    torch.testing.assert_close(gradient, torch.autograd.grad(layer(y), y, weights)[0])
