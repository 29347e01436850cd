"""The mode, sorts of close keys, distances within a set and vector products, which have kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor


def mode_of(row: list[float]) -> tuple[float, int]:
    """The least of the most frequent numbers and its last place; a NaN equals nothing, and is the
    most frequent where it comes first and nothing comes twice."""
    nans = [i for i, x in enumerate(row) if x != x]
    counts = {x: row.count(x) for x in row if x == x}
    most = max(counts.values(), default=0)
    if most == 0 or (most == 1 and nans and nans[0] == 0):
        return math.nan, nans[0]
    best = min(x for x, count in counts.items() if count == most)
    return best, max(i for i, x in enumerate(row) if x == best)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8", "bool"])
def test_mode_is_the_least_of_the_most_frequent(dtype: str) -> None:
    torch.manual_seed(0)
    for spread, n in [(2, 5), (3, 40), (200, 30), (250, 600), (2, 1), (60, 200)]:
        x = torch.randint(0, spread, (7, n)).to(getattr(torch, dtype))
        if x.is_floating_point():
            x = x - 1
            x[torch.rand(7, n) < 0.3] = math.nan
        for given, dim in ((x, 1), (x.t().contiguous(), 0), (x.t().contiguous().t(), 1)):
            values, indices = given.mode(dim)
            for row, value, index in zip(
                x.tolist(), values.tolist(), indices.tolist(), strict=True
            ):
                expected = mode_of(row)
                assert index == expected[1]
                assert value == expected[0] or (value != value and expected[0] != expected[0])
    kept = torch.tensor([[1.0, 2, 2]]).mode(1, keepdim=True)
    assert kept.values.tolist() == [[2]] and kept.indices.tolist() == [[2]]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float32"])
@pytest.mark.parametrize("n", [63, 64, 65, 500, 3000])
def test_close_keys_are_sorted_in_a_stable_way(dtype: str, n: int) -> None:
    torch.manual_seed(n)
    for low, high in [(0, 2), (-100, 100), (-128, 128), (0, 256), (5, 6), (-1000, 1000)]:
        x = torch.randint(low, high, (3, n)).to(getattr(torch, dtype))
        for descending in (False, True):
            values, indices = x.sort(1, descending=descending)
            keys = x.numpy().astype(np.float64) * (-1 if descending else 1)
            order = np.argsort(keys, axis=1, kind="stable")
            assert (indices.numpy() == order).all()
            assert torch.equal(values, x.gather(1, indices))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, math.inf])
def test_distances_within_a_set_and_their_gradients(p: float) -> None:
    torch.manual_seed(0)
    for n, width in [(2, 1), (3, 9), (4, 6), (5, 3), (30, 17), (60, 4)]:
        x = torch.randn(n, width, dtype=torch.float64)
        x[-1] = x[0]
        rows = [(x[i] - x[j]).norm(p) for i in range(n) for j in range(i + 1, n)]
        torch.testing.assert_close(torch.pdist(x, p), torch.stack(rows))
        torch.testing.assert_close(torch.pdist(x.t().contiguous().t(), p), torch.stack(rows))
        leaf = x.clone().requires_grad_()
        weights = torch.randn(len(rows), dtype=torch.float64)
        once = torch.autograd.grad(torch.pdist(leaf, p), leaf, weights)[0]
        again = torch.autograd.grad(torch.pdist(leaf, p), leaf, weights, create_graph=True)[0]
        torch.testing.assert_close(once, again)
    assert torch.pdist(torch.zeros(1, 3)).shape == (0,)


def test_gradients_of_few_distances_agree_with_those_that_are_recorded() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    y = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, 6, 9, dtype=torch.float64)
    once = torch.autograd.grad(torch.cdist(x, y), (x, y), g)
    again = torch.autograd.grad(torch.cdist(x, y), (x, y), g, create_graph=True)
    torch.testing.assert_close(once, again)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "int8", "complex64"])
def test_vector_products_of_any_strides(dtype: str) -> None:
    torch.manual_seed(0)

    def made() -> Tensor:
        x = torch.randint(-9, 9, (4, 3, 5))
        return (x + 1j * x.flip(0)).to(torch.complex64) if dtype == "complex64" else x

    a, b = made().to(getattr(torch, dtype)), made().to(getattr(torch, dtype))
    expected = np.cross(a.to(torch.complex128).numpy(), b.to(torch.complex128).numpy(), axis=1)
    for left, right in ((a, b), (a.mT.contiguous().mT, b), (a, b.permute(2, 0, 1).contiguous())):
        if right.shape != left.shape:
            right = right.permute(1, 2, 0)
        found = torch.linalg.cross(left, right, dim=1)
        assert found.is_contiguous()
        assert (found.to(torch.complex128).numpy() == expected).all() or dtype == "bfloat16"
    assert torch.linalg.cross(a[:0], b[:0], dim=1).shape == (0, 3, 5)


def test_gradients_of_vector_products() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float64, torch.complex128):
        a = torch.randn(2, 3, dtype=dtype, requires_grad=True)
        b = torch.randn(2, 3, dtype=dtype, requires_grad=True)
        assert torch.autograd.gradcheck(lambda a, b: torch.linalg.cross(a, b), (a, b))
        assert torch.autograd.gradgradcheck(lambda a, b: torch.linalg.cross(a, b), (a, b))
    one = torch.randn(1, 3, requires_grad=True, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a, b: torch.linalg.cross(a, b), (one, a.detach().real))


def test_gradients_of_what_was_expanded_are_counted() -> None:
    x = torch.randn(1, 4, requires_grad=True)
    (g,) = torch.autograd.grad(x.expand(5, 4).sum(), x)
    assert g.tolist() == [[5.0] * 4]
    (g,) = torch.autograd.grad(x.expand(2, 3, 4).mean(), x)
    torch.testing.assert_close(g, torch.full((1, 4), 0.25))


def test_elements_of_vectors_are_selected() -> None:
    x = torch.arange(20.0)
    assert x[::3].index_select(0, torch.tensor([6, 0, 6])).tolist() == [18, 0, 18]
    assert x[3:4].expand(9).index_select(0, torch.tensor([8])).tolist() == [3]
    assert x.index_select(0, torch.tensor([], dtype=torch.int64)).shape == (0,)
    for wrong in (20, -1):
        with pytest.raises(IndexError):
            x.index_select(0, torch.tensor([wrong]))


def test_a_kaiser_window_is_that_of_numpy() -> None:
    for n, beta in [(2, 12.0), (101, 8.6), (64, 0.0)]:
        found = torch.kaiser_window(n, False, beta, dtype=torch.float64)
        np.testing.assert_allclose(found.numpy(), np.kaiser(n, beta), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
def test_extremes_are_scattered_and_nan_wins(dtype: str) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 200, (5, 30)).to(getattr(torch, dtype))
    y = torch.randint(0, 200, (5, 30)).to(getattr(torch, dtype))
    if x.is_floating_point():
        x[1, 3] = math.nan
        y[2, 5] = math.nan
    index = torch.randint(0, 30, (5, 30))
    for reduce, better in (("amax", np.maximum), ("amin", np.minimum)):
        expected = x.float().numpy().copy()
        for r in range(5):
            better.at(expected[r], index[r].numpy(), y[r].float().numpy())
        found = x.scatter_reduce(1, index, y, reduce)
        np.testing.assert_array_equal(found.float().numpy(), expected)


def test_sums_of_expanded_tensors_and_of_windows() -> None:
    x = torch.arange(60.0).view(3, 20)
    assert x.expand(4, 3, 20).sum().item() == 4 * x.sum().item()
    assert x[:, :1].expand(3, 50).amax().item() == 40
    windows = x.unfold(1, 4, 1)
    assert windows.sum().item() == windows.contiguous().sum().item()
    assert windows.argmax().item() == windows.contiguous().argmax().item()
    assert torch.equal(windows.sum((1, 2)), windows.contiguous().sum((1, 2)))
    assert torch.equal(windows.amax((0, 2)), windows.contiguous().amax((0, 2)))


def test_long_tensors_differ_anywhere() -> None:
    x = torch.randn(5000)
    assert torch.equal(x, x.clone())
    for at in (0, 511, 512, 4999):
        y = x.clone()
        y[at] += 1
        assert not torch.equal(x, y)
    y = torch.full((5000,), math.nan)
    assert not torch.equal(y, y)
    assert torch.equal(torch.zeros(5000), -torch.zeros(5000))
    assert torch.equal(torch.zeros(50, 100), torch.zeros(100, 50).t())
