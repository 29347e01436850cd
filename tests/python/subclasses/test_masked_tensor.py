"""MaskedTensor: elements that are not there take part in nothing."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

DATA = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
MASK = [[True, False, True], [False, False, True]]


@pytest.fixture
def masked():
    return masked_tensor(torch.tensor(DATA), torch.tensor(MASK))


def test_it_prints_dashes_for_what_is_not_there(masked):
    wanted = (
        "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n"
        "    [      --,       --,   5.0000]\n  ]\n)"
    )
    assert repr(masked) == wanted
    assert repr(masked.sum()) == "MaskedTensor(  7.0000, True)"


def test_reductions_leave_out_what_is_not_there(masked):
    assert masked.sum(1).get_data().tolist() == [2.0, 5.0]
    assert masked.mean(1).get_data().tolist() == [1.0, 5.0]
    assert masked.amax().item() == 5.0
    product = masked.prod(0)
    assert product.get_mask().tolist() == [True, False, True]
    assert product.to_tensor(-1.0).tolist() == [0.0, -1.0, 10.0]
    assert (masked == 2).all().item() is False


def test_elementwise_operations_keep_the_mask(masked):
    for result in (masked + masked, masked * 2, 2 * masked):
        assert is_masked_tensor(result)
        assert result.to_tensor(-1.0).tolist() == [[0.0, -1.0, 4.0], [-1.0, -1.0, 10.0]]
    other = masked_tensor(torch.tensor(DATA), ~torch.tensor(MASK))
    with pytest.raises(ValueError, match="Input masks must match"):
        masked + other
    chosen = torch.where(torch.tensor(MASK), masked, other)
    assert chosen.get_mask().all()


def test_views_and_joins_take_the_mask_along(masked):
    assert masked.t().get_mask().tolist() == torch.tensor(MASK).t().tolist()
    assert masked[0].get_mask().tolist() == MASK[0]
    assert masked.view(-1).shape == (6,)
    assert torch.cat([masked, masked]).get_mask().tolist() == MASK + MASK
    rows = masked.softmax(1)
    assert rows.sum(1).get_data().tolist() == pytest.approx([1.0, 1.0])


def test_gradients_are_zero_where_nothing_is():
    leaf = masked_tensor(torch.tensor(DATA), torch.tensor(MASK), requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.get_data().tolist() == [[0.0, 0.0, 4.0], [0.0, 0.0, 10.0]]
    (found,) = torch.autograd.grad((leaf * 3).sum(), leaf)
    assert found.to_tensor(-1.0).tolist() == [[3.0, -1.0, 3.0], [-1.0, -1.0, 3.0]]
    data = torch.tensor(DATA, requires_grad=True)
    as_masked_tensor(data, torch.tensor(MASK)).sum().backward()
    assert data.grad.tolist() == torch.tensor(MASK).float().tolist()


def test_what_does_not_fit_is_refused(masked):
    with pytest.raises(TypeError, match="mask must have dtype bool"):
        MaskedTensor(torch.ones(3), torch.ones(3))
    with pytest.raises(ValueError, match="must equal mask"):
        MaskedTensor(torch.ones(2, 3), torch.ones(3, dtype=torch.bool))
    with pytest.raises(TypeError, match="matmul: not implemented for masked tensors"):
        masked @ masked.t()


def test_the_functions_have_a_second_home():
    x, mask = torch.tensor([-100.0, -200.0]), torch.tensor([True, False])
    found = torch.masked._ops.logaddexp(x, x / 100, input_mask=mask, other_mask=mask)
    assert found.tolist() == [-1.0, -float("inf")]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_masked_tensors_hold_what_they_store(layout: torch.layout) -> None:
    data, mask = torch.tensor([[0.0, 1], [2, 3]]), torch.tensor([[True, False], [False, True]])
    positions = mask.to_sparse(layout=layout)
    tensor = torch.masked.masked_tensor(data.sparse_mask(positions), positions)
    assert torch.cos(tensor).get_data().layout is layout
    assert torch.equal(torch.cos(tensor).to_tensor(9.0), torch.cos(data).masked_fill(~mask, 9.0))
    assert (tensor + tensor).to_tensor(9.0).tolist() == [[0, 9], [9, 6]]
    assert tensor.sum().item() == 3 and tensor.amax().item() == 3
    assert tensor.to_dense().get_data().layout is torch.strided
    assert "--" in repr(tensor)
    with pytest.raises(TypeError, match="same layout"):
        torch.masked.masked_tensor(data, positions)


def test_aliases_of_functions_take_masked_tensors() -> None:
    data, mask = torch.tensor([0.5, 1.0]), torch.tensor([True, False])
    tensor = torch.masked.masked_tensor(data, mask)
    for name in ("arcsin", "arctan", "fix", "conj_physical"):
        assert torch.equal(getattr(torch, name)(tensor).get_data(), getattr(torch, name)(data))
    assert torch.greater_equal(tensor, tensor).get_data().all()
    other = torch.masked.masked_tensor(data, ~mask)
    with pytest.raises(ValueError, match="Input masks must match"):
        torch.arctan2(tensor, other)


def test_a_masked_tensor_of_one_with_a_history_warns() -> None:
    with pytest.warns(UserWarning, match="not recommended to create a MaskedTensor"):
        torch.masked.masked_tensor(torch.ones(1, requires_grad=True), torch.tensor([True]))
