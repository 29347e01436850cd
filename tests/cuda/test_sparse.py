"""Sparse tensors on the device, against the CPU."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


def matrix(rows: int, columns: int, count: int, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(0)
    indices = torch.stack([torch.randint(rows, (count,)), torch.randint(columns, (count,))])
    values = torch.randn(count, dtype=dtype)
    return torch.sparse_coo_tensor(indices, values, (rows, columns))


@pytest.mark.parametrize("count", [0, 1, 50, 20_000])
def test_conversions_and_sums(count: int) -> None:
    x = matrix(300, 200, count)
    y = x.cuda()
    assert y.is_sparse and y.device.type == "cuda" and y._indices().device.type == "cuda"
    torch.testing.assert_close(y.coalesce().cpu(), x.coalesce())
    torch.testing.assert_close(y.to_dense().cpu(), x.to_dense())
    torch.testing.assert_close(y.to_sparse_csr().cpu(), x.to_sparse_csr())
    torch.testing.assert_close(y.to_sparse_csr().to_dense().cpu(), x.to_dense())
    torch.testing.assert_close((y + y * 2).to_dense().cpu(), x.to_dense() * 3)
    torch.testing.assert_close((y.to_dense() + y).cpu(), x.to_dense() * 2)
    torch.testing.assert_close(torch.sparse.sum(y, 0).to_dense().cpu(), x.to_dense().sum(0))
    torch.testing.assert_close(x.to_dense().cuda().to_sparse().cpu(), x.to_dense().to_sparse())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("width", [1, 7, 64, 300])
def test_products(dtype: Any, width: int) -> None:
    x = matrix(150, 90, 1500, dtype)
    other = torch.randn(90, width, dtype=dtype)
    want = (x.to_dense().to(torch.complex128) @ other.to(torch.complex128)).to(dtype)
    tolerance = {"rtol": 2e-2, "atol": 2e-1} if dtype == torch.bfloat16 else {}
    for layout in (torch.sparse_coo, torch.sparse_csr):
        y = x.cuda().to_sparse(layout=layout)
        torch.testing.assert_close(torch.sparse.mm(y, other.cuda()).cpu(), want, **tolerance)


def test_gradients_of_both_factors() -> None:
    grads = []
    for device in ("cpu", "cuda"):
        x = matrix(60, 40, 500, torch.float64)
        values = x._values().to(device).requires_grad_()
        other = torch.linspace(-1, 1, 40 * 9, dtype=torch.float64).reshape(40, 9).to(device)
        other.requires_grad_()
        made = torch.sparse_coo_tensor(x._indices().to(device), values, x.shape)
        torch.sparse.mm(made, other).pow(2).sum().backward()
        grads.append([values.grad.cpu(), other.grad.cpu()])
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "SparseAdam"])
def test_training_a_table(name: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        table = nn.Embedding(50, 8, sparse=True)
        table.to(device)
        optimizer = getattr(torch.optim, name)([table.weight], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            index = (torch.arange(20) * (step + 1)) % 50
            (table(index.to(device)) ** 2).sum().backward()
            assert table.weight.grad.is_sparse
            nn.utils.clip_grad_norm_([table.weight], 1.0)
            optimizer.step()
        results.append(table.weight.detach().cpu())
    torch.testing.assert_close(*results)


def test_an_index_out_of_range_is_reported() -> None:
    starts, columns = torch.tensor([0, 1]).cuda(), torch.tensor([7]).cuda()
    with pytest.raises((RuntimeError, IndexError)):
        torch._C._csr_mm(starts, columns, torch.ones(1).cuda(), torch.ones(1, 1).cuda())
        torch.cuda.synchronize()
    assert F.embedding(torch.tensor([0]).cuda(), torch.ones(1, 1).cuda()).item() == 1
