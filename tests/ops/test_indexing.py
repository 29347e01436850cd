"""Reading and writing with brackets, in every form that Python allows, against NumPy.

The two libraries part where an integer stands apart from an index array (`x[0, :, [1, 2]]`): NumPy
counts the integer among the arrays. tests/compat compares those forms with PyTorch.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from harness import to_numpy

import flambeau as torch

SHAPE = (3, 4, 5)
INDICES = (
    "0", "-1", "1, 2", "1, 2, 3", "-3, -4, -5", "...", "None", ":", "()", "True", "False", "0, ...",
    "..., 0", "0, ..., 0", "None, 0", "0, None", "..., None", "None, ..., None, 0", "1:", ":2",
    "::2", "1:3:2", "-2:", ":-1", "5:", "-9:9", "2:1", ":, 1", ":, :, 2", ":, 1:3, ::2",
    "..., 1:2", "[0]", "[0, 2]", "[-1, 0]", "[]", ":, [0, 2]", "[0, 1], [2, 3]",
    "[0, 1], :, [2, 3]", ":, [0, 1], [2, 3]", "0, [1, 2]", "[1, 2], 0", "[0, 1], 0, [2, 3]",
    "[1, 2], :, 0", "None, [0, 1]", "[0, 1], None, [2, 3]", "[[0], [1]], [2, 3]",
    "..., [1, 2]", "[0, 1], ..., [2, 3]", "1:, [0, 1]", "[0, 1], 1:3", "T([0, 2])", "T(1)",
    "T([[0, 1], [2, 0]])", ":, T([0, 1]), T([3, 4])", "T([0, 1]), [2, 3]", "T([], int)",
    "T([True, False, True])", ":, T([True, False, True, True])", "[True, False, True]",
    "T([True, False, True]), 0", "T([True, False, True]), :, [0, 1]", "T(M)", "T(M), 0", "T(M3)",
    "T([True, False, True]), T([True, False, True, False])", "0, T([True, False, True, False])",
    "..., T([True, False, True, False, True])", "T([False, False, False])", "T(True)", "T(False)",
    "T(1), T(2)", "0, T(2)", "T([0, 1]), T(1)", "slice(1, None)", "slice(None, None, 2), 1",
    "(0, 1)", "(slice(None), 1)", "np.int64(1)", "np.array([0, 2])", "1:, None, :, T([0, 1])",
)  # fmt: skip
MASK = (np.arange(12).reshape(3, 4) % 3 == 0).tolist()
MASK3 = (np.arange(60).reshape(3, 4, 5) % 7 == 0).tolist()


def evaluate(text: str, target: Any, make: Any) -> Any:
    """target[text], where T(...) in the text makes a tensor or an array."""
    return eval(f"x[{text}]", {"x": target, "T": make, "M": MASK, "M3": MASK3, "np": np})


def assign(text: str, target: Any, value: Any, make: Any) -> None:
    names = {"x": target, "v": value, "T": make, "M": MASK, "M3": MASK3, "np": np}
    exec(f"x[{text}] = v", names)


def tensor(values: Any, kind: Any = None) -> Any:
    return torch.tensor(values, dtype=torch.int64 if kind is int else None)


def sources() -> tuple[np.ndarray, list[Any]]:
    """The same values contiguous, transposed and sliced."""
    values = np.arange(60.0).reshape(SHAPE)
    plain = torch.tensor(values.tolist(), dtype=torch.float64)
    transposed = torch.tensor(values.T.tolist(), dtype=torch.float64).permute(2, 1, 0)
    padded = torch.zeros(6, 8, 10, dtype=torch.float64)
    padded[::2, ::2, ::2] = plain
    return values, [plain, transposed, padded[::2, ::2, ::2]]


@pytest.mark.parametrize("text", INDICES)
def test_read(text: str) -> None:
    values, tensors = sources()
    wanted = evaluate(text, values, np.array)
    for x in tensors:
        result = evaluate(text, x, tensor)
        assert tuple(result.shape) == np.shape(wanted)
        assert np.array_equal(to_numpy(result), wanted)


@pytest.mark.parametrize("text", INDICES)
def test_write(text: str) -> None:
    wanted_shape = np.shape(evaluate(text, sources()[0], np.array))
    for value_shape in {(), wanted_shape, wanted_shape[-1:], (1, *wanted_shape[1:])}:
        values, tensors = sources()
        new = -1.0 - np.arange(float(np.prod(value_shape))).reshape(value_shape)
        try:
            np.broadcast_to(new, wanted_shape)
        except ValueError:
            continue
        assign(text, values, new, np.array)
        for x in tensors:
            assign(text, x, torch.tensor(new.tolist(), dtype=torch.float64).reshape(new.shape),
                   tensor)  # fmt: skip
            assert np.array_equal(to_numpy(x), values)


@pytest.mark.parametrize("text", INDICES)
def test_write_of_a_number(text: str) -> None:
    values, tensors = sources()
    assign(text, values, -7, np.array)
    for x in tensors:
        assign(text, x, -7, tensor)
        assert np.array_equal(to_numpy(x), values)


@pytest.mark.parametrize("text", INDICES)
def test_gradient_of_read_and_write(text: str) -> None:
    """Reading passes each gradient back to where the element came from; writing blocks it."""
    values, _ = sources()
    x = torch.tensor(values.tolist(), dtype=torch.float64, requires_grad=True)
    read = evaluate(text, x, tensor)
    weights = np.arange(1.0, 1.0 + np.prod(tuple(read.shape))).reshape(tuple(read.shape))
    read.backward(torch.tensor(weights.tolist(), dtype=torch.float64).reshape(read.shape))
    wanted = np.zeros(SHAPE)
    positions = evaluate(text, np.arange(60).reshape(SHAPE), np.array)
    np.add.at(wanted.reshape(-1), positions, weights)
    assert np.array_equal(to_numpy(x.grad), wanted)

    x.grad = None
    y = x.clone()
    put = torch.zeros(read.shape, dtype=torch.float64, requires_grad=True)
    assign(text, y, put, tensor)
    (y * torch.arange(60.0, dtype=torch.float64).reshape(SHAPE)).sum().backward()
    kept = np.arange(60.0)
    kept[np.unique(positions)] = 0
    assert np.array_equal(to_numpy(x.grad).reshape(-1), kept)


def test_random_indices() -> None:
    rng = random.Random(0)
    for _ in range(500):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 4)))
        parts = []
        for n in shape[: rng.randint(1, len(shape))]:
            start = rng.randint(-n, n)
            drawn = [rng.randint(-n, n - 1) for _ in range(2)]
            mask = [rng.random() < 0.5 for _ in range(n)]
            parts.append(rng.choice((str(drawn[0]), f"{start}:", "::2", f"T({drawn})", ":",
                                     f"T({mask})", "None")))  # fmt: skip
        if any("T" in part for part in parts):
            parts = [":" if part.lstrip("-").isdigit() else part for part in parts]
        text = ", ".join(parts)
        values = np.arange(float(np.prod(shape))).reshape(shape)
        try:
            wanted = evaluate(text, values, np.array)
        except IndexError:  # too many of the parts are None, or masks do not broadcast
            continue
        x = torch.tensor(values.tolist(), dtype=torch.float64)
        assert np.array_equal(to_numpy(evaluate(text, x, tensor)), wanted), (shape, text)
        assign(text, values, -1, np.array)
        assign(text, x, -1, tensor)
        assert np.array_equal(to_numpy(x), values), (shape, text)


def test_basic_indices_are_views_and_advanced_ones_are_copies() -> None:
    x = torch.zeros(3, 4)
    for view in (x[0], x[1:], x[..., None], x[:, 1], x[0, 1], x[()], x[None]):
        assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    for copied in (x[[0]], x[torch.tensor([0])], x[x == 0], x[0, [1]], x[:, [True] * 4]):
        assert copied.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_accumulating_augmented_assignment_writes_once_an_index() -> None:
    x = torch.zeros(3)
    x[[0, 0, 1]] += 1
    assert x.tolist() == [1.0, 1.0, 0.0]
    x[1:] *= 5
    assert x.tolist() == [1.0, 5.0, 0.0]


def test_iteration_and_membership() -> None:
    x = torch.arange(6).reshape(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert len(x) == 3 and 4 in x and 9 not in x
    first, *rest = x
    assert first.tolist() == [0, 1] and len(rest) == 2


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 1031])
def test_rows_of_many_indices(count: int) -> None:
    generator = np.random.default_rng(count)
    x = generator.standard_normal((300, 37))
    index = generator.integers(0, 300, count)
    source, rows = torch.from_numpy(x), torch.from_numpy(index)
    assert np.array_equal(source.index_select(0, rows).numpy(), x[index])
    assert np.array_equal(source[rows - 300].numpy(), x[index])
    columns = torch.from_numpy(index % 37)
    assert np.array_equal(source[rows, columns].numpy(), x[index, index % 37])
    for bad in (300, -301, 1 << 62, -(1 << 63)):
        rows[count // 2] = bad
        with pytest.raises(IndexError):
            source[rows]
        with pytest.raises(IndexError):
            source.index_select(0, rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_many_halves_go_to_few_positions(dtype: torch.dtype) -> None:
    values = torch.randn(40, 1030).to(dtype)
    index = torch.randint(0, 11, (40, 1030))
    found = torch.ones(40, 11, dtype=dtype).scatter_add_(1, index, values)
    exact = torch.ones(40, 11).double().scatter_add_(1, index, values.double())
    torch.testing.assert_close(found.double(), exact, rtol=0.005, atol=0.005)
    rows = torch.randint(0, 300, (40_000,))
    terms = torch.randn(40_000, 5).to(dtype)
    found = torch.zeros(300, 5, dtype=dtype).index_add_(0, rows, terms)
    exact = torch.zeros(300, 5).double().index_add_(0, rows, terms.double())
    torch.testing.assert_close(found.double(), exact, rtol=0.005, atol=0.005)
