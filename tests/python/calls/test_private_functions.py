"""PyTorch's inner functions that programs call by name."""

from __future__ import annotations

import pytest

import flambeau as torch

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def test_safe_softmax_is_zero_where_nothing_is_finite() -> None:
    x = X.clone()
    x[0] = -torch.inf
    found = torch._safe_softmax(x, 1)
    assert found[0].tolist() == [0, 0, 0]
    assert torch.equal(found[1], x[1].softmax(0))
    assert torch.equal(torch.ops.aten._safe_softmax(x, 1), found)


def test_legit_batch_norm_takes_running_statistics_or_none() -> None:
    mean, var = torch.zeros(3), torch.ones(3)
    want = torch.native_batch_norm(X, None, None, None, None, True, 0.1, 1e-5)
    found = torch._native_batch_norm_legit(X, None, None, True, 0.1, 1e-5)
    assert all(torch.equal(one, other) for one, other in zip(found, want))
    torch.ops.aten._native_batch_norm_legit(X, None, None, mean, var, True, 0.1, 1e-5)
    assert torch.allclose(mean, X.mean(0) * 0.1)


def test_masked_indices_may_be_anywhere() -> None:
    x, mask = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False])
    indices = [torch.tensor([2, 70])]
    assert torch._unsafe_masked_index(x, mask, indices, 9.0).tolist() == [3, 9]
    put = torch.ops.aten._unsafe_masked_index_put_accumulate(x, mask, indices, torch.ones(2))
    assert put.tolist() == [1, 2, 4]


def test_interpolate_counts_sizes_before_it_looks_at_the_mode() -> None:
    with pytest.raises(ValueError, match="same number of spatial dimensions"):
        torch.nn.functional.interpolate(torch.ones(()), size=(6, 6), mode="bilinear")
