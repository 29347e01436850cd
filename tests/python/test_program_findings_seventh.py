"""What random programs compared with PyTorch have found, seventh part."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch


def test_tangents_lie_as_their_primals() -> None:
    x = torch.ones(3, 2).t()
    assert torch.func.hessian(lambda t: (t**2).sum())(x).stride() == (1, 2, 18, 6)
    assert torch.func.jvp(torch.sin, (x,), (torch.ones(2, 3),))[1].stride() == (1, 2)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.func.jvp(torch.sin, (torch.ones(3).expand(2, 3),), (torch.ones(2, 3),))


def test_products_of_what_wants_a_gradient_have_a_history() -> None:
    x = torch.ones(2, requires_grad=True)
    second = torch.func.hessian(lambda t: (t**2).sum())(x)
    assert second.requires_grad
    assert torch.autograd.grad(second.sum(), x)[0].tolist() == [0, 0]
    assert not torch.func.hessian(lambda t: (t**2).sum())(x.detach()).requires_grad
    assert torch.func.hessian(lambda t: (t**2).sum())(torch.ones(0, 3)).shape == (0, 3, 0, 3)


def test_rows_of_jacobians_are_views_of_one_of_several() -> None:
    rows = torch.func.jacrev(torch.sin)(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="multiple views"):
        rows.add_(1)
    assert torch.func.jacrev(torch.sin)(torch.ones(0, 3).T).stride() == (3, 3, 1, 1)
    with pytest.raises(RuntimeError, match="non-empty"):
        torch.autograd.functional.jacobian(lambda t: t * 2, torch.ones(0, 3))


def test_a_choice_of_numbers_takes_no_out() -> None:
    x = torch.ones(2)
    with pytest.raises(TypeError):
        torch.where(x > 0, x, 2, out=torch.ones(2))
    assert torch.where(x > 0, x, x, out=torch.ones(2)).tolist() == [1, 1]


def test_writes_to_nothing() -> None:
    with pytest.raises(RuntimeError):
        torch.empty(0, 3)[[0]] = 5
    with pytest.raises(IndexError):
        torch.empty(0, 3)[[0]] = torch.ones(3)
    nothing = torch.empty(0, 0)
    nothing[[7]] = 5
    assert nothing._version == 1


def test_strides_of_what_no_index_names() -> None:
    none = torch.tensor([], dtype=torch.long)
    assert torch.ones(2, 1, 3)[none].stride() == (3, 0, 1)
    assert torch.ones(2, 2, 2).transpose(0, 2)[none].stride() == (4, 1, 2)
    assert torch.ones(4)[none.reshape(0, 1)].stride() == (1, 1)


def test_masked_scatter_reads_what_it_has_written() -> None:
    x = torch.tensor([[1.5, -2.0], [0.25, 3.0]])
    x.t().masked_scatter_(x.t() > 0, x)
    assert x.tolist() == [[1.5, -2.0], [-2.0, -2.0]]


def test_leaves_refuse_writes_before_dtypes() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x &= 1
    with pytest.raises(IndexError):
        torch.ones(2, 1).scatter_add(1, torch.zeros(2, 1, dtype=torch.long), torch.ones(4))


def test_gradients_of_single_elements_have_strides() -> None:
    x = torch.ones(1, requires_grad=True)
    x.sum().backward()
    assert x.grad is not None and x.grad.stride() == (1,)
    y = torch.ones(1, requires_grad=True)
    assert torch.autograd.grad(y.sum(0).sum(), y)[0].stride() == (1,)


def test_what_out_is_left_with() -> None:
    with pytest.raises(RuntimeError):
        torch.max(torch.ones(2, 3), 0, out=(torch.ones(3).double(), torch.zeros(3).long()))
    out = torch.zeros(2, dtype=torch.int8)
    with pytest.raises(RuntimeError):
        torch.mean(torch.ones(2, 3), 0, out=out)
    assert out.shape == (3,)
    history = torch.ones(4, requires_grad=True) * 1
    assert torch.linspace(0, 1, 4, out=history)._version == 1


def test_layouts_of_single_columns() -> None:
    column = torch.ones(1, 3).T
    assert torch.frexp(column)[0].stride() == column.nan_to_num().stride() == (1, 3)
    assert column.clamp(min=column).stride() == (1, 1)


def test_derivatives_that_do_not_exist() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as failure:
        (x // 2).sum().backward()
    assert failure.type is RuntimeError


def test_views_of_inference_tensors_want_no_gradient() -> None:
    with torch.inference_mode():
        x = torch.nn.Parameter(torch.ones(2, 2))
    assert not x[0].requires_grad


def test_pending_bits_are_part_of_a_view() -> None:
    x = torch.ones(2)
    assert not x._neg_view().is_set_to(x)
    with pytest.raises(RuntimeError):
        x._neg_view().view(x.dtype)


def test_topk_takes_the_equal_elements_that_pytorch_takes() -> None:
    x = torch.tensor([[0.0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]])
    assert x.topk(1).indices.tolist() == [[2], [1], [3]]
    assert x.topk(3, largest=False).indices.tolist() == [[0, 3, 1], [2, 3, 0], [1, 2, 0]]
    assert torch.ones(9).topk(2).indices.tolist() == [7, 5]


def test_transforms_of_nothing_and_of_inference_tensors() -> None:
    assert torch.func.hessian(lambda t: (t**2).sum())(torch.ones(0, 3)[:, 1:]).numel() == 0
    with torch.inference_mode():
        x = torch.tensor(0.5, requires_grad=True)
    assert torch.func.jvp(torch.sin, (x,), (torch.ones(()),))[1] == torch.tensor(0.5).cos()


def test_complex_extremes_are_refused_after_the_clearing() -> None:
    x = torch.ones(2).cfloat()
    with pytest.raises(NotImplementedError):
        x.scatter_reduce_(
            0, torch.zeros(2, dtype=torch.long), x.clone(), "amax", include_self=False
        )
    assert x.tolist() == [-float("inf"), 1]


STRIDES = [  # a function, size and strides of what it is given, strides of what it gives
    (torch.neg, (2, 1, 3), (1, 9, 2), (1, 9, 2)),  # dense: as they are, also where they are free
    (lambda x: x + x, (2, 1, 2), (1, 7, 2), (1, 7, 2)),
    (lambda x: x * 2, (2, 1, 3), (1, 9, 2), (1, 6, 2)),  # a number lies otherwise
    (torch.deg2rad, (2, 1), (1, 3), (1, 3)),
    (torch.neg, (2, 1), (1, 3), (1, 1)),
    (torch.nn.functional.hardtanh, (1, 1, 2), (7, 9, 1), (7, 9, 1)),
    (torch.nn.functional.relu6, (0, 3), (1, 1), (1, 1)),
    (
        lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
        (2, 0),
        (1, 2),
        (1, 2),
    ),
]


@pytest.mark.parametrize(("function", "size", "strides", "expected"), STRIDES)
def test_strides_that_say_nothing_are_pytorchs(
    function: Any, size: Any, strides: Any, expected: Any
) -> None:
    assert function(torch.ones(60).as_strided(size, strides)).stride() == expected


def test_gradient_of_a_sum_is_spread_from_one_element() -> None:
    x = torch.ones(1, requires_grad=True)
    assert torch.autograd.grad(x.sum(), x)[0].stride() == (0,)
    assert torch.autograd.grad(x.sum(0), x)[0].stride() == (1,)
