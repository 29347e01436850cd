"""Sparse gradients: of embeddings, in the engine, and what optimizers do with them."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

TABLE = torch.arange(10.0).reshape(5, 2)


def leaf() -> Any:
    return TABLE.clone().requires_grad_()


def test_an_embedding_has_a_sparse_gradient_with_a_row_for_each_index() -> None:
    weight = leaf()
    rows = F.embedding(torch.tensor([[1, 3], [1, 0]]), weight, sparse=True)
    (rows * torch.arange(8.0).reshape(2, 2, 2)).sum().backward()
    grad = weight.grad
    assert grad.is_sparse and not grad.is_coalesced() and grad.shape == (5, 2)
    assert grad._indices().tolist() == [[1, 3, 1, 0]]
    assert grad._values().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert grad.coalesce().values().tolist() == [[6, 7], [4, 6], [2, 3]]


def test_the_padding_row_and_frequencies() -> None:
    weight = leaf()
    F.embedding(torch.tensor([1, 2, 3]), weight, padding_idx=2, sparse=True).sum().backward()
    assert weight.grad._indices().tolist() == [[1, 3]]
    scaled = F.embedding(torch.tensor([1]), leaf(), scale_grad_by_freq=True, sparse=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        scaled.sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_have_the_gradient_of_dense_ones(mode: str) -> None:
    index, offsets = torch.tensor([1, 3, 2, 2, 4]), torch.tensor([0, 3])
    grads = []
    for sparse in (False, True):
        weight = leaf()
        bags = F.embedding_bag(index, weight, offsets, mode=mode, sparse=sparse, padding_idx=4)
        (bags * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        grads.append(weight.grad)
    assert grads[1].is_sparse and grads[1]._indices().tolist() == [[1, 3, 2, 2]]
    torch.testing.assert_close(grads[1].to_dense(), grads[0])
    factors = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    weight = leaf()
    bags = F.embedding_bag(
        index, weight, offsets, mode="sum", sparse=True, per_sample_weights=factors
    )
    bags.sum().backward()
    assert weight.grad._values()[:, 0].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        F.embedding_bag(index, weight, offsets, mode="max", sparse=True)


def test_gradients_of_both_layouts_add_up() -> None:
    weight = leaf()
    first, second = torch.tensor([1, 3]), torch.tensor([3, 4])
    F.embedding(first, weight, sparse=True).sum().backward()
    held = weight.grad
    F.embedding(second, weight, sparse=True).sum().backward()
    assert weight.grad is held and held._nnz() == 4
    F.embedding(first, weight).sum().backward()
    assert weight.grad.layout is torch.strided
    F.embedding(second, weight, sparse=True).sum().backward()
    expected = torch.zeros(5, 2)
    expected[[1, 3]] += 2
    expected[[3, 4]] += 2
    torch.testing.assert_close(weight.grad, expected)
    weight.grad = None
    both = F.embedding(first, weight, sparse=True).sum() + F.embedding(second, weight).sum()
    both.backward()
    assert weight.grad.layout is torch.strided


def test_a_sparse_gradient_flows_on_through_arithmetic() -> None:
    weight = leaf()
    F.embedding(torch.tensor([1, 1]), -(weight * 3) / 2, sparse=True).sum().backward()
    assert weight.grad.is_sparse
    assert weight.grad.to_dense()[1].tolist() == [-3.0, -3.0]
    (grad,) = torch.autograd.grad(F.embedding(torch.tensor([2]), weight, sparse=True).sum(), weight)
    assert grad.is_sparse and grad._indices().tolist() == [[2]]


def test_hooks_and_views_of_a_gradient() -> None:
    weight = leaf()
    weight.register_hook(lambda g: g * 2)
    F.embedding(torch.tensor([1, 2]), weight, sparse=True).sum().backward()
    assert weight.grad._values().tolist() == [[2, 2], [2, 2]]
    weight.grad._values().mul_(5)
    assert weight.grad.to_dense()[1].tolist() == [10, 10]
    weight.grad.zero_()
    assert weight.grad._nnz() == 0
    weight.grad = None
    assert weight.grad is None


def trained(name: str, sparse: bool, **options: Any) -> Any:
    """A table after some steps, each with a gradient for some of its rows."""
    torch.manual_seed(0)
    table = nn.Embedding(6, 3, sparse=sparse)
    optimizer = getattr(torch.optim, name)(table.parameters(), **options)
    for step in range(4):
        optimizer.zero_grad()
        (table(torch.tensor([1, step, 2, 1])) ** 2).sum().backward()
        optimizer.step()
    return table.weight.detach()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("SGD", {"lr": 0.1, "maximize": True}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
        ("Adagrad", {"maximize": True}),
    ],
)
def test_optimizers_do_the_same_with_sparse_and_dense_gradients(name: str, options: Any) -> None:
    torch.testing.assert_close(trained(name, True, **options), trained(name, False, **options))


def test_sparse_adam_is_adam_where_every_row_has_a_gradient() -> None:
    def run(name: str, sparse: bool) -> Any:
        torch.manual_seed(0)
        table = nn.Embedding(4, 3, sparse=sparse)
        optimizer = getattr(torch.optim, name)(table.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (table(torch.tensor([0, 1, 2, 3, 1])) ** 3).sum().backward()
            optimizer.step()
        return table.weight.detach()

    torch.testing.assert_close(run("SparseAdam", True), run("Adam", False))


def test_sparse_adam_leaves_rows_without_gradients_alone() -> None:
    weight = nn.Parameter(TABLE.clone())
    optimizer = torch.optim.SparseAdam([weight], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        F.embedding(torch.tensor([1, 1, 4]), weight, sparse=True).sum().backward()
        optimizer.step()
    moved = (weight != TABLE).any(1)
    assert moved.tolist() == [False, True, False, False, True]
    state = optimizer.state[weight]
    assert state["step"] == 3 and state["exp_avg"][0].tolist() == [0, 0]
    other = torch.optim.SparseAdam([weight])
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.state[weight]["step"] == 3 and other.param_groups[0]["lr"] == 0.5


def test_refusals_of_optimizers() -> None:
    table = nn.Embedding(3, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    for name in ("Adam", "AdamW"):
        with pytest.raises(RuntimeError, match="please consider SparseAdam instead"):
            getattr(torch.optim, name)(table.parameters()).step()
    for name in ("RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD"):
        with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
            getattr(torch.optim, name)(table.parameters()).step()
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible"):
        torch.optim.Adagrad(table.parameters(), weight_decay=0.1).step()
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        torch.optim.SGD(table.parameters(), weight_decay=0.1).step()
    dense = nn.Linear(2, 2)
    dense(torch.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        torch.optim.SparseAdam(dense.parameters()).step()
    with pytest.raises(ValueError, match="Sparse params at indices"):
        torch.optim.SparseAdam([torch.zeros(2, 2).to_sparse().requires_grad_()])
    with pytest.raises(ValueError, match="Invalid learning rate"):
        torch.optim.SparseAdam(dense.parameters(), lr=-1)


def test_clipping_sparse_gradients() -> None:
    table, dense = nn.Embedding(5, 2, sparse=True), nn.Embedding(5, 2)
    for module in (table, dense):
        module(torch.tensor([1, 2, 1])).sum().backward()
    total = nn.utils.clip_grad_norm_(table.parameters(), 1.0)
    torch.testing.assert_close(total, nn.utils.clip_grad_norm_(dense.parameters(), 1.0))
    torch.testing.assert_close(table.weight.grad.to_dense(), dense.weight.grad)
    assert not table.weight.grad.is_coalesced()
    with pytest.raises(NotImplementedError, match="aten::clamp_"):
        nn.utils.clip_grad_value_(table.parameters(), 0.1)


def test_a_sparse_gradient_is_copied_and_saved() -> None:
    table = nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1, 1])).sum().backward()
    copied = copy.deepcopy(table.weight.grad)
    assert copied.is_sparse and copied is not table.weight.grad
    torch.testing.assert_close(copied, table.weight.grad)
    file = io.BytesIO()
    torch.save(
        {"grad": table.weight.grad, "rows": table.weight.grad.to_dense().to_sparse_csr()}, file
    )
    file.seek(0)
    back = torch.load(file)
    torch.testing.assert_close(back["grad"], table.weight.grad)
    assert back["rows"].layout is torch.sparse_csr


def test_gradients_have_the_layout_that_the_op_gives_them() -> None:
    """As in PyTorch: torch.sparse.mm and sparse.sum keep the indices, mm and sum do not."""
    other = torch.arange(6.0).reshape(3, 2)

    def grad_of(function: Any) -> Any:
        x = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 1.0]]).to_sparse().requires_grad_()
        function(x).sum().backward()
        return x.grad

    assert grad_of(lambda x: torch.mm(x, other)).layout is torch.strided
    assert grad_of(lambda x: x @ other).layout is torch.strided
    assert grad_of(lambda x: x.sum()).layout is torch.strided
    for function in (
        lambda x: torch.sparse.mm(x, other),
        lambda x: torch.sparse.sum(x),
        lambda x: (x * 2).to_dense(),
        lambda x: x.to_dense(),
        lambda x: x.sin().to_dense(),
    ):
        grad = grad_of(function)
        assert grad.is_sparse and grad._indices().tolist() == [[0, 1, 1], [1, 0, 2]]
    doubled = torch.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 3.0], (2,)).requires_grad_()
    (doubled.to_dense() ** 2).sum().backward()
    assert doubled.grad.to_dense().tolist() == [6.0, 6.0]
