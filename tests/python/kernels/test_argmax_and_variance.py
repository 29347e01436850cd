"""Indices of extremes, variances and means by blocks, registers and columns, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch

SHORT = {torch.bfloat16: 0x7FC0, torch.float16: 0x7E00}  # NaN
FLOATING = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
# A row shorter than a register, some that blocks do not divide, columns that registers do not.
SHAPES = [(7,), (33,), (4097,), (131073,), (40, 7), (65, 130), (1030, 9), (2500, 40), (4, 33, 17)]


def layouts(x: torch.Tensor) -> list[torch.Tensor]:
    return [x, x[::2]] if x.dim() == 1 else [x, x.transpose(0, -1), x[:, ::2]]


def exact(x: torch.Tensor) -> np.ndarray:
    return x.to(torch.float64 if x.dtype.is_floating_point else torch.int64).numpy()


KINDS = [
    *((dtype, kind) for dtype in FLOATING for kind in ("ties", "far", "nan", "infinite")),
    *(
        (dtype, kind)
        for dtype in (torch.int64, torch.int16, torch.uint8)
        for kind in ("ties", "far")
    ),
]


@pytest.mark.parametrize(("dtype", "kind"), KINDS)
def test_first_index_of_extreme(dtype: torch.dtype, kind: str) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        values = rng.standard_normal(shape) * 40 + 60
        if kind == "ties":  # among them zeros of both signs
            values = np.copysign(rng.integers(0, 2, shape), rng.standard_normal(shape))
            values = np.abs(values) if dtype == torch.uint8 else np.minimum(values, 0)
        if kind == "nan":
            values[rng.random(shape) < 0.01] = math.nan
        if kind == "infinite":
            values[...] = rng.choice([math.inf, -math.inf])
        for x in layouts(torch.tensor(values).clamp(0 if dtype == torch.uint8 else -300).to(dtype)):
            numbers = exact(x)
            for dim in range(x.dim()):
                for along, flat, of_numpy in (
                    (torch.max, torch.argmax, np.argmax),
                    (torch.min, torch.argmin, np.argmin),
                ):
                    extreme, index = along(x, dim=dim)
                    expected = of_numpy(numbers, axis=dim)
                    np.testing.assert_array_equal(index.numpy(), expected)
                    at = np.take_along_axis(numbers, np.expand_dims(expected, dim), dim)
                    np.testing.assert_array_equal(exact(extreme), at.squeeze(dim))
                    assert flat(x).item() == of_numpy(numbers)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("shape", [(100,), (100, 40), (100, 3)])
def test_first_nan_of_either_sign(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    for signs in ([0, 1, 0], [1, 0, 1]):
        x = torch.randn(shape).to(dtype)
        bits = x.view(torch.int16)
        for row, sign, payload in zip((37, 57, 77), signs, (0, 3, 1), strict=True):
            bits[row] = (SHORT[dtype] | payload) - sign * 0x8000
        assert (torch.argmax(x, dim=0) == 37).all()
        assert (torch.argmin(x, dim=0) == 37).all()


def moments_of(
    values: np.ndarray, dtype: torch.dtype, root: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """What is found of all, along both dimensions and across, beside what is right."""
    x = torch.tensor(values).to(dtype)
    numbers = exact(x).astype(np.longdouble)
    found = []
    for y, of in ((x, numbers), (x.t(), numbers.T), (x[:, ::2], numbers[:, ::2])):
        for dim in (None, 0, 1):
            ours = (torch.std if root else torch.var)(y, dim=dim)
            right = (np.std if root else np.var)(of, axis=dim, ddof=1)
            found.append((exact(ours), np.asarray(right)))
    return found


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    "kind", ["normal", "tall", "far", "farther", "first rows", "first columns", "equal"]
)
def test_variances_are_rounded_once(dtype: torch.dtype, kind: str) -> None:
    shape = (20000, 37) if kind == "tall" else (900, 333)
    values = np.random.default_rng(0).standard_normal(shape)
    if kind == "far":
        values += 256
    elif kind == "farther":  # in some columns, by more than a thousand deviations
        values[:, 40:60] = values[:, 40:60] / 4 + 1000
    elif kind == "first rows":
        values[:10] = -100
    elif kind == "first columns":
        values[:, :10] = 100
    elif kind == "equal":
        values[...] = 0.1
    limit = {torch.float64: 1e-12}.get(dtype, 0.5 * torch.finfo(dtype).eps * 1.02)
    for ours, right in moments_of(values, dtype):
        np.testing.assert_allclose(ours, right.astype("float64"), limit, atol=1e-38)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_deviations_whose_squares_are_no_floats(dtype: torch.dtype, scale: float) -> None:
    values = np.random.default_rng(0).standard_normal((300, 70)) * scale
    limit = 0.5 * torch.finfo(dtype).eps * 1.02
    for ours, right in moments_of(values, dtype, root=True):
        np.testing.assert_allclose(ours, right.astype("float64"), limit, atol=0)


@pytest.mark.parametrize("dtype", FLOATING)
def test_variances_of_columns_with_nan(dtype: torch.dtype) -> None:
    for n in (37, 333):
        x = torch.randn(900, n).to(dtype)
        expected = torch.var(x, dim=0)
        for column in (0, 18, n - 1):
            x[700, column] = math.nan
            expected[column] = math.nan
        np.testing.assert_array_equal(exact(torch.var(x, dim=0).isnan()), exact(expected.isnan()))
        limit = torch.finfo(dtype).eps
        np.testing.assert_allclose(exact(torch.var(x, dim=0)), exact(expected), limit)


def test_means_beside_infinite_elements() -> None:
    for dtype in FLOATING:
        x = torch.ones(5000, 40, dtype=dtype)
        x[7] = torch.inf
        for y, dim in ((x, 0), (x.t(), 1)):
            variance, mean = torch.var_mean(y, dim=dim)
            assert variance.isnan().all() and (mean == torch.inf).all()
