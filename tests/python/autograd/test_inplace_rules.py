"""What a write may do and what it must leave alone: overlaps, leaves, stale values, histories."""

from __future__ import annotations

import pytest

import flambeau as torch

OVERLAP = "some elements of the input tensor and the written-to tensor refer to a single memory"
TWICE = "more than one element of the written-to tensor refers to a single memory location"
LEAF = "leaf Variable that requires grad is being used in an in-place operation"
STALE = "modified by an inplace operation"


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("write", [
    lambda t: t.copy_(t), lambda t: t.__setitem__((), t), lambda t: t.__setitem__(..., t),
    lambda t: t.__setitem__((), 2), lambda t: t[:2].mul_(2), lambda t: t.floor_divide_(2),
    lambda t: t.eq_(t), lambda t: t.index_put_((torch.tensor([0]),), t[:1].detach()),
    lambda t: t.fill_(0), lambda t: t.abs_(), lambda t: t.view(3).copy_(t),
])  # fmt: skip
def test_leaves_are_not_written_to(write, x) -> None:
    with pytest.raises(RuntimeError, match=LEAF):
        write(x)
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_what_has_no_derivative_may_overwrite_a_leaf(x) -> None:
    x.logical_and_(torch.zeros(3))
    assert x.tolist() == [0.0] * 3 and x.is_leaf


@pytest.mark.parametrize("write", [
    lambda t: t[1:].copy_(t[:-1]), lambda t: t[None].copy_(t), lambda t: t[1:].eq_(t[:-1]),
    lambda t: t[1:].pow_(t[:-1]), lambda t: t[1:].add_(t[:-1]),
    lambda t: t.__setitem__([0, 1, 2], t), lambda t: t.scatter_(0, torch.tensor([0, 1, 2]), t),
    lambda t: t.scatter_add_(0, torch.tensor([0, 1, 2]), t),
    lambda t: t.__setitem__(torch.tensor([True, True, True]), t),
])  # fmt: skip
def test_values_that_overlap_what_they_are_written_to_are_refused(write) -> None:
    t = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match=OVERLAP):
        write(t)
    assert t.tolist() == [1.0, 2.0, 3.0]


def test_an_expanded_tensor_takes_only_writes_that_agree() -> None:
    mask = torch.tensor([True, False, True])
    for write in (
        lambda t: t.add_(1), lambda t: t.copy_(torch.ones(3)), lambda t: t.fill_(torch.tensor(1.0)),
        lambda t: t.abs_(), lambda t: t.eq_(1), lambda t: t.index_add_(0, torch.tensor([0]), mask),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"{TWICE}|same scalar type"):
            write(torch.zeros(1).expand(3))
    for allowed in (
        lambda t: t.fill_(2), lambda t: t.__setitem__(mask, 2.0), lambda t: t.masked_fill_(mask, 2),
        lambda t: t.__setitem__([0], 2.0), lambda t: t.index_fill_(0, torch.tensor([1]), 2),
    ):  # fmt: skip
        t = torch.zeros(1).expand(3)
        allowed(t)
        assert t.tolist() == [2.0] * 3


def test_a_masked_write_converts_one_value_and_checks_many() -> None:
    t, mask = torch.zeros(3), torch.tensor([True, True, False])
    for value in (torch.tensor(1.5), torch.ones(1) * 1.5, torch.ones(1, 1) * 1.5):
        t[mask] = value.double()
        assert t.tolist() == [1.5, 1.5, 0.0]
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        t[mask] = torch.ones(2).double()
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        t[[0]] = torch.tensor(1.0).double()
    with pytest.raises(IndexError, match="could not be broadcast together"):
        torch.zeros(3, 3)[[0, 1], mask.logical_not().logical_or(mask)] = torch.ones(5).double()
    with pytest.raises(RuntimeError, match="shape mismatch"):
        t[[0, 1]] = torch.ones(3)
    t[[0, 1]] = torch.full((1, 2), 7.0)  # leading ones are dropped
    assert t.tolist() == [7.0, 7.0, 0.0]


@pytest.mark.parametrize("write", [
    lambda t: t.mul_(t), lambda t: t.div_(t), lambda t: t.atan2_(t), lambda t: t.view(3).mul_(t),
])  # fmt: skip
def test_an_operand_that_the_write_overwrote_is_stale(write, x) -> None:
    y = x.clone()
    write(y)
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_the_overwritten_operand_itself_is_kept(x) -> None:
    y = x.clone()
    y.mul_(torch.tensor(3.0, dtype=torch.float64, requires_grad=True)).atan2_(x).abs_().pow_(2)
    y.sum().backward()
    assert torch.isfinite(x.grad).all()


def test_division_keeps_its_operands_not_its_result(x) -> None:
    for make in (lambda: 1 / x, lambda: x / (x + 1), lambda: 2 / x):
        y = make()
        y.add_(1)
        y.sum().backward()
    y = x.clone()
    z = 1 / y
    y.zero_()  # what is kept is the reciprocal
    z.sum().backward()


@pytest.mark.parametrize(("touch", "make"), [
    (0, lambda a, b, c: torch.where(c, a, b)), (1, lambda a, b, c: torch.lerp(a, a, b)),
    (1, lambda a, b, c: torch.clamp(a, min=b)), (1, lambda a, b, c: torch.clamp(a, max=b)),
])  # fmt: skip
def test_what_a_gradient_keeps_is_checked_for_writes(touch, make, x) -> None:
    a, b, c = x * 1, torch.tensor([0.5, 2.5, 9.0], dtype=torch.float64), x.detach() > 1.5
    y = make(a, b, c)
    (c if touch == 0 else b).zero_()
    with pytest.raises(RuntimeError, match=STALE):
        y.sum().backward()


def test_a_second_pass_needs_only_what_was_saved(x) -> None:
    for y in (x + 1, x.sum(), x.view(3, 1), x[1:], -x, x.clone(), torch.cat([x, x])):
        y.sum().backward()
        y.sum().backward()
    for y in (x.exp(), x * x, x * 2, x.clone().fill_(1.0).mul_(x)):
        y.sum().backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.sum().backward()


def test_a_write_through_a_view_is_spent_by_one_pass(x) -> None:
    y = x.clone()
    y[0] = 0
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_comparisons_in_place_cut_the_history(x) -> None:
    y = x.clone()
    y.eq_(x)
    y.sum().backward()
    assert y.tolist() == [1.0] * 3 and x.grad.tolist() == [0.0] * 3
    w = torch.ones(3)
    assert w.lt_(x).requires_grad


def test_ops_without_a_derivative_say_so(x) -> None:
    for y, name in (
        (x // 2, "floor_divide"), (2 % x, "remainder"), (x.clone().floor_divide_(2), "floor_div"),
    ):  # fmt: skip
        assert y.requires_grad
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name}.* is not implemented"):
            y.sum().backward()


def test_a_stale_view_counts_as_the_leaf_it_was(x) -> None:
    base = torch.zeros(3, dtype=torch.float64)
    view = base[:]
    base.copy_(x)
    with pytest.raises(RuntimeError, match=LEAF):
        view.add_(1)
    assert view.grad_fn is not None  # now it has learnt of the write
    view.add_(1)
    base.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_views_of_a_leaf_learn_of_writes_behind_their_back(x) -> None:
    part = x.unbind()[0]
    whole = x.view(3)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and its base"):
        _ = part.grad_fn
    assert whole.grad_fn.name() == "AsStridedBackward0"


def test_nothing_is_written_when_the_write_is_refused(x) -> None:
    base = torch.zeros(3, dtype=torch.float64)
    part = base.unbind()[0]
    row = base.view(3, 1).unbind()[0]
    for write in (
        lambda: part.copy_(x[0]), lambda: part.masked_fill_(torch.tensor(True), x[0]),
        lambda: part.fill_(x[0]), lambda: part.add_(x[0], alpha=2), lambda: part.mul_(x[0]),
        lambda: row.index_put_((torch.tensor([True]),), x[0]),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="is being modified inplace"):
            write()
        assert base.tolist() == [0.0] * 3


def test_a_leaf_that_wants_no_gradient_any_more_gets_none(x) -> None:
    y = x * 2
    x.detach_()
    y.sum().backward()
    assert x.grad is None


def test_negative_numbers_wrap_once_in_unsigned_dtypes() -> None:
    u = torch.zeros(3, dtype=torch.uint8)
    u[None, ...] = -1
    assert u.tolist() == [255] * 3 and torch.full((1,), -255, dtype=torch.uint8).item() == 1
    for value in (300, -256, -1.5, 1j):
        with pytest.raises(RuntimeError, match="without overflow"):
            u.fill_(value)
    assert u.clamp(-1, 1).tolist() == [1] * 3 and torch.zeros(1).byte().clamp(-1, 1).item() == 0
    with pytest.raises(RuntimeError, match="Clamp max value -1 is outside"):
        u.clamp(max=-1)


def test_a_view_that_is_written_into_its_base_learns_of_the_write(x) -> None:
    for write in (lambda base, view: base.add_(view), lambda base, view: base.sub_(view, alpha=2)):
        base = x.clone()
        view = base.view(3)
        write(base, view)
        got = torch.autograd.grad((view * view).sum(), x, retain_graph=True)
        want = torch.autograd.grad((base * base).sum(), x)
        assert torch.equal(got[0], want[0])


def test_a_copy_onto_its_own_memory_is_no_copy() -> None:
    t = torch.zeros(1).expand(2)
    t[()] = torch.zeros(1).set_(t.untyped_storage(), 0, (1,), (1,))
    t.copy_(t[:])
    assert t.tolist() == [0.0, 0.0]


def test_nodes_print_by_their_names(x) -> None:
    assert repr((x + 1).grad_fn).startswith("<AddBackward0 object at 0x")
    kind = type((x + 1).grad_fn)
    assert (kind.__name__, kind.__module__, repr(kind)) == (
        "AddBackward0",
        "builtins",
        "<class 'AddBackward0'>",
    )


def test_a_view_that_turns_itself_while_nothing_is_recorded_keeps_its_gradient(x) -> None:
    view = x.view(1, 3)
    with torch.no_grad():
        view.t_()
    (view * view).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    c = torch.tensor([[1 + 2j, 3j]]).conj()
    assert c.transpose_(0, 1).shape == (2, 1) and c.is_conj() and c[0, 0].item() == 1 - 2j
