"""nn.grad: the gradients of convolutions as functions."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

CASES = [
    (1, (2, 4, 11), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    (2, (3, 4, 9, 8), (6, 4, 3, 2), {"stride": (2, 3), "padding": (1, 0), "dilation": (1, 2)}),
    (2, (2, 4, 6, 6), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    (2, (4, 9, 8), (6, 2, 3, 2), {"groups": 2, "stride": 2}),
    (3, (1, 2, 5, 6, 7), (3, 2, 2, 3, 1), {"stride": 2, "padding": 1}),
]


@pytest.mark.parametrize(("rank", "input_size", "weight_size", "geometry"), CASES)
def test_gradients_of_convolutions_are_those_of_backward(rank, input_size, weight_size, geometry):
    torch.manual_seed(0)
    x = torch.randn(input_size, dtype=torch.float64, requires_grad=True)
    w = torch.randn(weight_size, dtype=torch.float64, requires_grad=True)
    y = getattr(F, f"conv{rank}d")(x, w, **geometry)
    g = torch.randn_like(y)
    expected = torch.autograd.grad(y, (x, w), g)
    by_input = getattr(torch.nn.grad, f"conv{rank}d_input")(x.shape, w, g, **geometry)
    by_weight = getattr(F.grad, f"conv{rank}d_weight")(x, w.shape, g, **geometry)
    torch.testing.assert_close(by_input, expected[0])
    torch.testing.assert_close(by_weight, expected[1])


def test_gradients_of_convolutions_can_be_differentiated():
    x = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    options = {"stride": 2, "padding": 1, "groups": 2}
    by_weight = lambda x, g: torch.nn.grad.conv1d_weight(x, w.shape, g, **options)  # noqa: E731
    by_input = lambda w, g: torch.nn.grad.conv1d_input(x.shape, w, g, **options)  # noqa: E731
    assert torch.autograd.gradcheck(by_weight, (x, g))
    assert torch.autograd.gradcheck(by_input, (w, g))
