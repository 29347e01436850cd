"""Conjugation and negation as views: memory is shared, values are as if computed at once."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau as torch


@pytest.fixture
def z() -> torch.Tensor:
    return torch.tensor([[1 + 2j, 3 - 1j], [0 + 1j, 2 + 0j]], dtype=torch.complex128)


def test_conj_shares_memory_both_ways(z: torch.Tensor) -> None:
    c = z.conj()
    assert c.is_conj() and not z.is_conj() and c.data_ptr() == z.data_ptr()
    z[0, 0] = 5 + 5j
    assert c[0, 0].item() == 5 - 5j
    c[0, 1] = 1j
    assert z[0, 1].item() == -1j
    c.mul_(1j)
    assert z[0, 0].item() == -1j * (5 + 5j)
    c += z
    assert c.is_conj()
    c.fill_(2 + 1j)
    assert (z == 2 - 1j).all() and (c == 2 + 1j).all()


def test_views_keep_the_mark_and_everything_else_resolves_it(z: torch.Tensor) -> None:
    c = z.conj()
    for view in (c[0], c.t(), c.view(4), c.unsqueeze(0), c.detach(), c.mT, z.mH, z.H, z.adjoint()):
        assert view.is_conj()
    assert not c.conj().is_conj() and not c.resolve_conj().is_conj()
    for result in (c.clone(), c + 1, -c, c * c, c @ c, c.to(torch.complex64), torch.cat([c, c])):
        assert not result.is_conj()
    assert (c.resolve_conj() == z.conj_physical()).all()
    assert not torch.ones(2).conj().is_conj()


def test_values_are_read_as_if_computed(z: torch.Tensor) -> None:
    c, want = z.conj(), z.conj_physical()
    assert c.tolist() == want.tolist() and repr(c) == repr(want)
    assert c[0, 0].item() == 1 - 2j and complex(c[0, 0]) == 1 - 2j
    assert (c == want).all() and torch.equal(c @ c, want @ want)
    assert torch.equal(c[[1, 0]], want[[1, 0]]) and torch.equal(c[c.abs() > 1], want[z.abs() > 1])
    assert torch.equal(torch.stack([c, z]), torch.stack([want, z]))
    assert torch.equal(2 / c, 2 / want) and torch.equal(1 - c, 1 - want)
    assert torch.add(z, z, out=c) is c and c.is_conj() and torch.equal(c.resolve_conj(), z.conj())
    out = torch.empty_like(z)
    torch.mul(z.conj(), 2, out=out)
    assert torch.equal(out, z.conj_physical() * 2)


def test_parts_of_a_conjugate_are_views(z: torch.Tensor) -> None:
    c = z.conj()
    assert not c.real.is_neg() and c.imag.is_neg() and torch.equal(c.imag, -z.imag)
    c.imag.zero_()
    assert (z.imag == 0).all()
    c.imag.add_(3.0)
    assert (z.imag == -3).all() and (c.imag == 3).all()
    assert not c.imag.resolve_neg().is_neg()
    x = torch.ones(2)
    n = torch._C._neg_view(x)  # type: ignore[attr-defined]
    x[0] = 4
    assert n.is_neg() and n.tolist() == [-4.0, -1.0]


def test_what_cannot_see_the_mark_refuses(z: torch.Tensor) -> None:
    c = z.conj()
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved"):
        torch.view_as_real(c)
    with pytest.raises(RuntimeError, match="conjugate bit set"):
        c.numpy()
    with pytest.raises(RuntimeError, match="conjugate view tensors"):
        c.view(torch.float64)
    with pytest.raises(RuntimeError, match="negative bit set"):
        c.imag.numpy()
    assert (c.numpy(force=True) == z.numpy().conj()).all()


def test_copies_and_pickles_hold_the_values(z: torch.Tensor) -> None:
    c = z.conj()
    for other in (copy.deepcopy(c), pickle.loads(pickle.dumps(c)), copy.copy(c)):
        assert torch.equal(other, z.conj_physical())
    x = torch.zeros(2, 2, dtype=torch.complex128)
    x.conj().copy_(z)
    assert torch.equal(x, z.conj_physical())
    x.copy_(z.conj())
    assert torch.equal(x, z.conj_physical())
    x[:, 0] = z.conj()[:, 1]
    assert x[0, 0].item() == 3 + 1j


def test_gradients_flow_through_pending_views(z: torch.Tensor) -> None:
    x = z.clone().requires_grad_()
    y = x.clone()
    c = y.conj()
    c.mul_(2j)  # a write through the view enters the history of its base
    assert c.grad_fn is not None and y.grad_fn.name() == "torch::autograd::CopySlices"
    weight = torch.tensor([[1 + 1j, 2.0], [0.5j, 1.0]], dtype=torch.complex128)
    (y * weight).abs().sum().backward()
    other = z.clone().requires_grad_()
    ((other * -2j) * weight).abs().sum().backward()
    assert torch.allclose(x.grad, other.grad)
    assert torch.autograd.gradcheck(lambda t: (t.conj() * t).imag + t.conj().imag, (x,))
    x.grad = None
    x.backward(torch.ones_like(x).conj())
    assert (x.grad == 1).all()


def test_each_mark_is_resolved_by_its_own_name():
    z = torch.tensor([1 + 2j, 3 - 1j])
    negative, conjugate = z.conj().imag, z.conj()
    assert negative.resolve_conj() is negative and conjugate.resolve_neg() is conjugate
    assert negative.resolve_neg().stride() == (1,) and not conjugate.resolve_conj().is_conj()
    assert negative.resolve_neg().tolist() == [-2, 1]


def test_every_marked_tensor_that_an_op_writes_gets_its_result():
    base = torch.zeros(2)
    values, indices = torch._C._neg_view(base), torch.zeros(2, dtype=torch.int64)
    found = torch.max(torch.tensor([[3.0, 1.0], [2.0, 5.0]]), 1, out=(values, indices))
    assert found[0] is values
    assert found[1] is indices
    assert values.tolist() == [3, 5]
    assert base.tolist() == [-3, -5]
    z = torch.tensor([1 + 2j, 3 - 1j])
    torch._foreach_add_([z.conj()], 1j)
    assert z.tolist() == [1 + 1j, 3 - 2j]
    p = torch.tensor([2.0, 4.0])
    p_negative = torch._C._neg_view(p)
    p_negative.grad = torch.ones(2)
    torch.optim.SGD([p_negative], lr=0.5).step()
    assert p.tolist() == [2.5, 4.5]


def test_tensors_like_a_marked_one_need_none_of_its_values(z: torch.Tensor) -> None:
    for marked in (z.t().conj(), torch._neg_view(torch.ones(3, 2).to(torch.float8_e4m3fn).t())):
        makers = (torch.empty_like, torch.zeros_like, torch.ones_like, torch.Tensor.new_empty)
        for maker in makers[:3]:
            made = maker(marked)
            assert made.stride() == marked.stride() and not made.is_conj() and not made.is_neg()
        assert makers[3](marked, (2, 2)).dtype is marked.dtype
    assert (torch.full_like(z.conj(), z.conj()[0, 0]) == 1 - 2j).all()
    assert not torch.rand_like(z.conj()).is_conj() and not torch.randn_like(z.conj()).is_conj()
