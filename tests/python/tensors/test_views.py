"""What samples cannot say of views: memory they share, writes through them, overlapping windows."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck


def numbers(*size: int, grad: bool = False) -> torch.Tensor:
    count = 1
    for each in size:
        count *= each
    x = torch.arange(count, dtype=torch.float64).reshape(size) * 0.37 - 1.3
    return x.clone().requires_grad_(grad)


VIEWS = {
    "view": lambda x: x.view(4, 3),
    "t": lambda x: x.t(),
    "select": lambda x: x.select(1, 2),
    "slice": lambda x: x[1:, ::2],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x.unsqueeze(0).expand(2, 3, 4),
    "diagonal": lambda x: x.diagonal(1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 3), (1, 3), 2),
    "flatten": lambda x: x.flatten(),
    "detach": lambda x: x.detach(),
    "bytes": lambda x: x.view(torch.int64),
    "split": lambda x: x.split(2)[1],
    "unbind": lambda x: x.unbind(1)[3],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory_and_version(name) -> None:
    x = numbers(3, 4)
    view = VIEWS[name](x)
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x.fill_(7)
    assert (view.view(torch.float64) == 7).all() if name == "bytes" else (view == 7).all()
    assert view._version == x._version == 1


def test_a_write_through_a_view_reaches_the_base_and_its_other_views() -> None:
    leaf = numbers(2, 3, grad=True)
    base = leaf * 1
    row, column = base[0], base[:, 1]
    row.mul_(leaf[1])
    assert base[0].tolist() == (leaf[0] * leaf[1]).tolist()
    assert column.grad_fn is not None
    (gradient,) = torch.autograd.grad(column.sum(), leaf)
    expected = torch.zeros(2, 3, dtype=torch.float64)
    expected[0, 1] = leaf[1, 1].detach()
    expected[1, 1] = 1 + leaf[0, 1].detach()
    assert torch.allclose(gradient, expected)


def test_one_of_several_outputs_refuses_a_recorded_write() -> None:
    x = numbers(4, grad=True) * 2
    for part in (x.split(2)[0], x.unbind()[1], x.chunk(2)[0]):
        with pytest.raises(RuntimeError, match="output of a function that returns multiple views"):
            part.mul_(2)
    with torch.no_grad():
        x.split(2)[0].mul_(2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.as_strided((3, 3), (1, 2), 1),  # windows that overlap
        lambda x: x.t().as_strided((2, 2), (2, 1)),
        lambda x: x[:, 1:].as_strided((2, 2), (1, 4)),
        lambda x: x.unfold(1, 3, 1).unfold(0, 2, 1),
        lambda x: x.expand(2, 3, 4).as_strided((2, 2), (0, 3)),
        lambda x: x.diagonal(-1).unfold(0, 2, 1),
        lambda x: torch.view_as_real(torch.view_as_complex(x.view(3, 2, 2))).select(2, 1),
    ],
)
def test_windows_have_first_and_second_derivatives(function) -> None:
    x = numbers(3, 4, grad=True)
    assert gradcheck(lambda y: function(y) ** 2, (x,))
    assert gradgradcheck(lambda y: function(y) ** 2, (x,))


def test_geometry_changes_in_place() -> None:
    x = numbers(3, 1, 4)
    assert x.squeeze_(1).shape == (3, 4) and x.t_().shape == (4, 3)
    assert x.unsqueeze_(0).shape == (1, 4, 3) and x.transpose_(0, 2).shape == (3, 4, 1)
    leaf = numbers(3, 4, grad=True)
    y = leaf * 2
    y.t_()
    (gradient,) = torch.autograd.grad((y * numbers(4, 3)).sum(), leaf)
    assert torch.allclose(gradient, 2 * numbers(4, 3).t())
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf.t_()


def test_resize_keeps_what_fits() -> None:
    x = torch.arange(6)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        numbers(2, grad=True).resize_(3)


def test_bytes_are_viewed_as_other_dtypes_without_history() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    assert x.view(torch.int32).tolist() == [[1065353216] * 3] * 2
    assert x.view(torch.uint8).shape == (2, 12) and not x.view(torch.uint8).requires_grad
    with pytest.raises(RuntimeError, match="must be divisible by 2"):
        x.view(torch.float64)


def test_too_many_parts_are_refused_before_memory_is() -> None:
    for call in (
        lambda: torch.zeros(3).tensor_split(2**62),
        lambda: torch.zeros(0).chunk(2**62),
        lambda: torch.zeros(1).expand(2**40).unbind(),
    ):
        with pytest.raises(RuntimeError, match="cannot create"):
            call()


def test_as_strided_scatter_writes_to_the_memory_of_a_copy() -> None:
    """The window is one on the storage, in whatever order the elements lie there."""
    src = torch.ones(2, 2)
    transposed = torch.arange(9.0).reshape(3, 3).t()
    found = torch.as_strided_scatter(transposed, src, (2, 2), (1, 2))
    assert found.stride() == (1, 3)
    assert found.tolist() == [[1, 1, 6], [1, 4, 7], [1, 5, 8]]
    gaps = torch.zeros(3, 6)[:, ::2]
    found = torch.as_strided_scatter(gaps, src, (2, 2), (1, 2))
    assert found.stride() == (6, 2)
    assert found.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
