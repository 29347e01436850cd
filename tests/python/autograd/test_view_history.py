"""What random programs found about histories: stale views, writes through them, what is retained.

Each expectation is what PyTorch does.
"""

from __future__ import annotations

import pytest

import flambeau as torch


def _values(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


def test_a_copy_from_the_same_memory_that_is_not_recorded_leaves_a_view_stale() -> None:
    part = _values(2.0).unbind(0)[0]
    again = part.expand([])
    with torch.no_grad():
        again.copy_(part)
    with pytest.raises(RuntimeError, match="multiple views"):
        _ = again.grad_fn


def test_what_a_write_into_a_view_has_kept_belongs_to_the_written_base() -> None:
    seen = []
    for written in ("base", "view"):
        x = _values(0.4, -0.4)
        base = x.clone()
        base.retain_grad()
        view = base.permute(0)
        (base if written == "base" else view).tanh_()
        (gradient,) = torch.autograd.grad((base * base).sum(), x, create_graph=True)
        base.grad = None
        gradient.sum().backward()
        seen.append((base.grad.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]


def test_a_retained_gradient_lies_row_by_row() -> None:
    inner = torch.ones(4, 2, requires_grad=True).clone()
    inner.retain_grad()
    (inner.t() * torch.ones(2, 4)).sum().backward()
    assert inner.grad.stride() == (2, 1)


def _stale_view() -> torch.Tensor:
    base = torch.ones(3, 1)
    view = base.diagonal(0)
    base.mul_(torch.ones(1, requires_grad=True))
    return view


def test_a_view_that_was_not_read_since_counts_as_the_leaf_that_it_was() -> None:
    view = _stale_view()
    view.requires_grad_(False)
    assert view.requires_grad and not view.is_leaf
    view = _stale_view()
    view.retain_grad()
    assert not view.retains_grad
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        (view := _stale_view()).div_(view)
    _stale_view().unsqueeze(0).fill_diagonal_(1)


def test_asking_a_stale_view_for_its_gradient_asks_for_no_history() -> None:
    base = _values(1.0, 2.0).clone()
    part = base.unbind(0)[0]
    base.mul_(2)
    assert part.grad is None


def test_an_operand_without_a_part_in_the_gradient_may_be_stale() -> None:
    base = _values(1.0, 2.0).clone()
    part = base.unbind(0)[0]
    base.mul_(2)
    assert (base * 1).logical_or_(part).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="multiple views"):
        (base * 1).mul_(part)


def test_a_slice_of_everything_is_written_without_a_view() -> None:
    x = _values(1.0, 2.0).clone()
    x[0:] = 2
    assert type(x.grad_fn).__name__ == "FillBackward2"
    x.sum().backward()
    x.sum().backward()
    assert type(x[0:].grad_fn).__name__ == "SliceBackward0"


def test_hooks_hear_of_the_tensor_that_a_pass_begins_with() -> None:
    x, other = _values(1.0), _values(1.0)
    inner = x.clone()
    seen: list[float] = []
    inner.register_hook(lambda g: seen.append(g.item()))
    inner.backward(torch.ones_like(inner), inputs=[other])
    assert seen == [1.0] and other.grad is None and x.grad is None


def test_the_angle_of_the_origin_has_a_gradient_of_zero() -> None:
    x, y = _values(0.0, 1.0), _values(0.0, 1.0)
    torch.atan2(x, y).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5] and y.grad.tolist() == [0.0, -0.5]


def test_large_exponents_stay_odd_or_even() -> None:
    assert (torch.tensor([-2.0]) ** 16777217).item() == float("-inf")
    x = torch.tensor([-1.0], requires_grad=True)
    (x ** (2**40)).sum().backward()
    assert x.grad.item() == -float(2**40)


def test_windows_of_conjugates_are_conjugates() -> None:
    window = torch.tensor([1 + 1j, 2 + 2j, 3 - 1j]).conj().as_strided((2,), (2,))
    assert window.tolist() == [1 - 1j, 3 + 1j]


def test_strides_along_dimensions_of_one_element_follow_a_view() -> None:
    column = torch.tensor([[1.0, 2.0]]).t()
    assert column.view(2, 1).stride() == (1, 2) and column.view(1, 2, 1).stride() == (2, 1, 2)
    column[None] = column
    pairs = torch.empty_strided((1, 2), (3, 1)).zero_()
    assert torch.view_as_complex(pairs).shape == (1,)


def test_indices_into_nothing() -> None:
    nothing = torch.zeros(0, 3, dtype=torch.int64)
    assert nothing.index_add_(0, torch.tensor([5]), torch.zeros(1, 3, dtype=torch.int64)) is nothing
    with pytest.raises(IndexError, match="out of bounds"):
        nothing.index_put((torch.tensor([0]),), torch.tensor(1.0))
    with pytest.raises(IndexError, match="out of range"):
        torch.zeros(0).index_select(0, torch.tensor([0]))
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.zeros(2, 0).index_select(0, torch.tensor([5]))
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.nn.functional.unfold(torch.zeros(0, 2), 1)


def test_a_leaf_is_refused_before_its_indices_are_read_unless_they_are_masks() -> None:
    leaf = torch.ones(2, 2, requires_grad=True)
    mask = torch.tensor([True, True, True])
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        leaf[[0, 1], mask] = 1
    with pytest.raises(IndexError, match="mask"):
        leaf[mask] = 1


def test_numbers_that_do_not_fit() -> None:
    half = torch.zeros(2, dtype=torch.float16)
    half[0] = 2**40
    assert half[0].item() == float("inf")
    for key in (slice(None), [0], half == 0):
        with pytest.raises(RuntimeError, match="overflow"):
            half[key] = 2**40
    with pytest.raises(RuntimeError):
        torch.zeros(1)[0] = 1j


def test_heaviside_takes_operands_of_one_dtype() -> None:
    with pytest.raises(RuntimeError, match="different dtypes"):
        torch.ones(2).heaviside(torch.tensor(1))
    assert torch.zeros(1).heaviside(torch.tensor(0.5)).item() == 0.5


@pytest.mark.parametrize("write", [lambda x: x.pow_(1.5), lambda x: x.sinc_(), lambda x: x.exp_()])
def test_a_write_through_a_view_goes_round_the_step_that_made_the_view(write) -> None:
    """Until second derivatives ask for what the write has kept of the view."""
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    base, seen = x * 1, []
    view = base[1]
    view.register_hook(lambda g: seen.append("view"))
    write(view)
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    assert len(base.grad_fn.next_functions) == 1
    torch.autograd.grad(base.sum(), x, create_graph=True)
    assert seen == []
    result = x * 1
    step = write(result).grad_fn
    assert "Copy" not in step.name() and step.next_functions[0][0].name() == "MulBackward0"

    def program(x):
        base = x * 1
        write(base[1])
        return base * base

    assert torch.autograd.gradcheck(program, x) and torch.autograd.gradgradcheck(program, x)
