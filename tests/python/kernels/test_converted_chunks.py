"""Large operands of other dtypes than an op computes in, which are converted a chunk at a time, and
results too large for the caches, against NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

PAIRS = [
    ("int64", "float32"),
    ("bool", "float32"),
    ("uint8", "int16"),
    ("int32", "float64"),
    ("float32", "float64"),
    ("float16", "float32"),
    ("int32", "int64"),
]


def numbers(rng: np.random.Generator, dtype: str, shape: tuple) -> np.ndarray:
    """Numbers of the whole range, so that rounding and wrapping show."""
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 50).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def promoted(a: np.ndarray, b: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """In the dtype of the result, which is PyTorch's, not NumPy's."""
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize(("narrow", "wide"), PAIRS)
@pytest.mark.parametrize("shape", [(260, 131), (3, 20011), (17000, 2)])
def test_operands_of_two_dtypes(narrow: str, wide: str, shape: tuple) -> None:
    rng = np.random.default_rng(0)
    a, transposed = numbers(rng, narrow, shape), numbers(rng, narrow, shape[::-1])
    x, t = torch.from_numpy(a), torch.from_numpy(transposed).t()
    for size in (shape, (1, shape[1]), (shape[0], 1)):
        b = numbers(rng, wide, size)
        y = torch.from_numpy(b)
        for left, first in ((x, a), (t, transposed.T)):
            p, q = promoted(first, b, wide)
            np.testing.assert_array_equal((left + y).numpy(), p + q)
            np.testing.assert_array_equal((y * left).numpy(), p * q)
            np.testing.assert_array_equal((left < y).numpy(), p < q)
            np.testing.assert_array_equal(torch.maximum(y, left).numpy(), np.maximum(p, q))
    assert (t + torch.from_numpy(numbers(rng, wide, shape[::-1])).t()).stride() == t.stride()


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "int16"])
def test_integers_become_floats(dtype: str) -> None:
    a = numbers(np.random.default_rng(1), dtype, (300, 77))
    x, p = torch.from_numpy(a), a.astype("float32")
    np.testing.assert_array_equal((x * 2.5).numpy(), p * np.float32(2.5))
    np.testing.assert_array_equal((1.5 + x).numpy(), np.float32(1.5) + p)
    np.testing.assert_array_equal((x / 255).numpy(), p / np.float32(255))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(torch.reciprocal(x.t()).numpy(), 1 / p.T)
    np.testing.assert_allclose(torch.tanh(x).numpy(), np.tanh(p), rtol=1e-6)
    out = torch.empty(300, 77)
    assert torch.mul(x, 2.5, out=out) is out
    np.testing.assert_array_equal(out.numpy(), p * np.float32(2.5))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_of_any_layout_beside_numbers(dtype: str) -> None:
    a = numbers(np.random.default_rng(2), dtype, (40, 31, 37))
    x, p = torch.from_numpy(a).permute(2, 0, 1), a.astype("float32").transpose(2, 0, 1)
    two = np.float32(2.5)
    for ours, theirs in (
        (x * 2.5, p * two),
        (2.5 - x, two - p),
        (x < 2.5, p < two),
        (torch.maximum(x, torch.tensor(2.5)), np.maximum(p, two)),
        (torch.mul(x, 2.5, out=torch.empty(37, 40, 31)), p * two),
        (torch.sqrt(x.abs()), np.sqrt(np.abs(a).astype("float32")).transpose(2, 0, 1)),
    ):
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_large_integers_become_floats() -> None:
    a = numbers(np.random.default_rng(3), "int64", (2053, 2049))
    x, p = torch.from_numpy(a), a.astype("float32")
    np.testing.assert_array_equal((x * 2.5).numpy(), p * np.float32(2.5))
    np.testing.assert_array_equal((0.5 + x.t()).numpy(), np.float32(0.5) + p.T)


def test_results_that_share_memory_with_a_converted_operand() -> None:
    x = torch.arange(40000, dtype=torch.float32)
    expected = x.numpy() + x.numpy().view(np.int32).astype(np.float32)
    x.add_(x.view(torch.int32))
    np.testing.assert_array_equal(x.numpy(), expected)
    y = torch.ones(40000)
    assert y.mul_(torch.arange(40000)).sum().item() == y.numpy().sum()


def test_gradients_reach_converted_operands() -> None:
    x = torch.ones(200, 100, requires_grad=True)
    y = torch.full((200, 100), 3.0, dtype=torch.float64)
    (x * y).sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32 and (x.grad == 3).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16])
@pytest.mark.parametrize("columns", [64, 1000, 1024])
def test_large_results_beside_rows_and_columns(dtype: type, columns: int) -> None:
    rng = np.random.default_rng(2)
    rows = 17_000_000 // np.dtype(dtype).itemsize // columns + 3
    a = rng.integers(-99, 99, (rows, columns)).astype(dtype)
    row, column = a[5:6], a[:, 7:8]
    x = torch.from_numpy(a)
    np.testing.assert_array_equal((x + torch.from_numpy(row)).numpy(), a + row)
    np.testing.assert_array_equal((x * torch.from_numpy(column.copy())).numpy(), a * column)
    np.testing.assert_array_equal(x.masked_fill(x > 3, 5).numpy(), np.where(a > 3, dtype(5), a))
    window = torch.empty(rows * columns + 3, dtype=x.dtype)[3:].view(rows, columns)
    torch.sub(x, torch.from_numpy(row), out=window)
    np.testing.assert_array_equal(window.numpy(), a - row)
    np.testing.assert_array_equal((x * 1.5).numpy(), a * np.float32(1.5))
    np.testing.assert_array_equal(x.to(torch.float64).numpy(), a.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.int16, np.float16, np.int32])
@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (65, 33), (31, 200)])
def test_columns_become_rows(dtype: type, shape: tuple) -> None:
    a = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    x = torch.from_numpy(a).t()
    np.testing.assert_array_equal(x.contiguous().numpy(), a.T)
    np.testing.assert_array_equal((x + x.contiguous()).numpy(), a.T + a.T)
