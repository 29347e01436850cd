"""Normalizations that return their statistics, norms by older names, and reductions of segments."""

from __future__ import annotations

import math

import pytest

import flambeau as torch


def test_native_layer_norm_returns_mean_and_reciprocal_deviation() -> None:
    x = torch.arange(6.0).view(2, 3)
    out, mean, rstd = torch.native_layer_norm(x, [3], None, None, 1e-5)
    assert torch.allclose(out, torch.layer_norm(x, [3]))
    assert mean.tolist() == [[1.0], [4.0]]
    assert rstd.shape == (2, 1) and math.isclose(rstd[0].item(), 1.2247, rel_tol=1e-3)


def test_native_group_and_batch_norm() -> None:
    x = torch.arange(8.0).view(1, 4, 2)
    _, mean, rstd = torch.native_group_norm(x, None, None, 1, 4, 2, 2, 1e-5)
    assert mean.tolist() == [[1.5, 5.5]] and rstd.shape == (1, 2)
    y = torch.arange(6.0).view(2, 3)
    _, mean, _ = torch.native_batch_norm(y, None, None, None, None, True, 0.1, 1e-5)
    assert mean.tolist() == [1.5, 2.5, 3.5]
    zeros, ones = torch.zeros(3), torch.ones(3)
    _, mean, _ = torch.native_batch_norm(y, None, None, zeros, ones, False, 0.1, 1e-5)
    assert mean.numel() == 0


def test_norms_by_older_names() -> None:
    x = torch.ones(2, 3)
    assert torch.norm_except_dim(x, 2, 0).shape == (2, 1)
    assert torch.norm_except_dim(x, 1, 1).tolist() == [[2.0, 2.0, 2.0]]
    assert math.isclose(torch.norm_except_dim(x, 2, -1).item(), math.sqrt(6), rel_tol=1e-6)


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [("sum", [1.0, 5.0, 0.0]), ("prod", [1.0, 6.0, 1.0]), ("max", [1.0, 3.0, -math.inf]),
     ("min", [1.0, 2.0, math.inf])],
)  # fmt: skip
def test_segments_are_reduced_one_by_one(reduce: str, wanted: list[float]) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.segment_reduce(x, reduce, lengths=torch.tensor([1, 2, 0])).tolist() == wanted
    offsets = torch.tensor([0, 1, 3, 3])
    assert torch.segment_reduce(x, reduce, offsets=offsets).tolist() == wanted


def test_segments_have_means_starts_and_gradients() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    mean = torch.segment_reduce(x, "mean", lengths=torch.tensor([1, 2]))
    assert mean.tolist() == [1.0, 2.5]
    mean.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.5, 0.5]
    assert torch.segment_reduce(x, "min", lengths=torch.tensor([3, 0]), initial=1).tolist() == [
        1,
        1,
    ]
    rows = torch.ones(2, 3)
    lengths = torch.tensor([[1, 2], [3, 0]])
    assert torch.segment_reduce(rows, "sum", lengths=lengths, axis=1).tolist() == [[1, 2], [3, 0]]


def test_segments_that_do_not_fit_are_refused() -> None:
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="Either lengths or offsets"):
        torch.segment_reduce(x, "sum")
    with pytest.raises(RuntimeError, match="sum to"):
        torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 1]))
    with pytest.raises(RuntimeError, match="reduce argument"):
        torch.segment_reduce(x, "median", lengths=torch.tensor([3]))
    with pytest.raises(NotImplementedError, match="Long"):
        torch.segment_reduce(x.long(), "sum", lengths=torch.tensor([3]))


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        ("max", [0.5, 0.5, 1, 0, 0, 1]),
        ("amin", [0.5, 0.5, 1, 0, 1, 0]),
        ("prod", [2, 2, 3, float("nan"), 5, 4]),
    ],
)
def test_elements_that_are_no_number_have_gradients(reduce: str, wanted: list[float]) -> None:
    x = torch.tensor([2, 2, float("nan"), 3, 4, 5], requires_grad=True)
    torch.segment_reduce(x, reduce, lengths=torch.tensor([2, 2, 2])).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor(wanted), equal_nan=True)


def test_rows_of_complex_numbers_are_shortened():
    weight = torch.full((3, 3), 3j, dtype=torch.complex128)
    rows = torch.nn.functional.embedding(torch.tensor([0, 0, 2]), weight, max_norm=1.0)
    torch.testing.assert_close(rows.abs().square().sum(1), torch.ones(3, dtype=torch.float64))
    assert (weight[1] == 3j).all()
