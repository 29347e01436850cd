"""Running sums, products and extremes and gathered rows in SIMD registers: four rows
or sixteen columns at a time, with tails, numbers that overflow, NaN, and streamed results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch

SHAPES = [(4, 64), (7, 33), (9, 16), (5, 1000), (3, 100), (130, 37), (64, 48), (13, 530), (33, 5)]
SHAPES += [(48, 20)]
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def wide(x: torch.Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(x.double().numpy())


def serial(x: torch.Tensor, dim: int, product: bool) -> torch.Tensor:
    """One element after the other: bfloat16 in float, all others in double."""
    carry = np.float32 if x.dtype == torch.bfloat16 else np.float64
    values = np.moveaxis(wide(x), dim, 0).astype(carry)
    out = np.empty_like(values)
    running = np.full_like(values[0], 1 if product else 0)
    with np.errstate(all="ignore"):
        for i, row in enumerate(values):
            running = running * row if product else running + row
            out[i] = running
        result = torch.from_numpy(np.ascontiguousarray(np.moveaxis(out, 0, dim).astype(np.float32)))
    return result.to(x.dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_and_products(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    x = torch.randint(-8, 9, shape).to(dtype)  # of which sums are exact
    factors = (2.0 ** torch.randint(-1, 2, shape)) * torch.where(torch.rand(shape) < 0.3, -1.0, 1.0)
    for dim in (0, 1):
        assert torch.equal(x.cumsum(dim), serial(x, dim, False))
        p = factors.to(dtype)
        assert torch.equal(p.cumprod(dim), serial(p, dim, True))
        # From the end on, as the gradient is made.
        leaf = x.clone().requires_grad_()
        leaf.cumsum(dim).backward(x)
        assert torch.equal(leaf.grad, serial(x.flip(dim), dim, False).flip(dim))


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_that_leave_the_normal_numbers(dtype: torch.dtype) -> None:
    big = 1e30 if dtype != torch.float16 else 6e4
    rows = torch.ones(8, 700)
    rows[0, 5], rows[0, 600] = 0.0, torch.inf  # nothing brings it back but NaN
    rows[1, 3] = torch.nan
    rows[2, 100:120], rows[2, 120:140] = 1 / big, big  # beyond double precision, and never back
    rows[3, 100:120], rows[3, 120:140] = big, 1 / big
    rows[4, 100:108], rows[4, 110:118] = 1 / big, big  # and within it
    rows[5, 17] = -torch.inf
    rows[5, 400] = 0.0
    rows[6, 200:] = -1.5
    rows[7, ::7] = -0.0
    if dtype == torch.float32:  # through what a double holds with fewer digits
        rows[6, 200:], rows[6, 300:308], rows[6, 310:313] = 1.0, 1e-38, 1e-3
        rows[6, 400:408], rows[6, 500:503] = 1e38, 1e3
    x = rows.to(dtype)
    for dim, y in ((1, x), (0, x.t().contiguous()), (0, x.t().repeat(1, 5))):
        ours, wanted = y.cumprod(dim), serial(y, dim, True)
        np.testing.assert_allclose(wide(ours), wide(wanted), rtol=1e-6 if dtype == FLOATS[0] else 0)
        assert (
            np.array_equal(np.signbit(wide(ours)), np.signbit(wide(wanted))) or dtype != FLOATS[0]
        )


def test_sums_of_bfloat16_that_overflow() -> None:
    most = torch.finfo(torch.bfloat16).max
    x = torch.zeros(8, 300)
    x[0, 10:14] = torch.tensor([-most, most, most, -most])  # in another order they overflow
    x[1, 100], x[1, 101] = most, most
    x[2, 5], x[3, 6], x[4, 7] = torch.nan, torch.inf, -torch.inf
    x[4, 200] = torch.inf
    x[5, 10:43] = torch.tensor([-most, *([most, -most] * 16)])
    x[6] = 1.0
    y = x.to(torch.bfloat16)
    for dim, z in ((1, y), (0, y.t().contiguous())):
        ours, wanted = z.cumsum(dim), serial(z, dim, False)
        np.testing.assert_array_equal(wide(ours), wide(wanted))


@pytest.mark.parametrize("shape", [(16, 1024), (37, 500), (5, 2048)])
def test_products_of_bfloat16_that_have_become_zero(shape: tuple[int, int]) -> None:
    torch.manual_seed(7)
    x = (torch.randn(shape) * 0.01).to(torch.bfloat16)
    for rows, columns in (([], []), ([0], [400]), ([1, 2, 4], [333, 320, 351])):
        for row, column in zip(rows, columns, strict=True):
            x[row, column] = (torch.inf, torch.nan, -torch.inf)[row % 3]
        ours, wanted = x.cumprod(1), serial(x, 1, True)
        np.testing.assert_array_equal(wide(ours), wide(wanted))
        known = ~np.isnan(wide(wanted))
        np.testing.assert_array_equal(
            np.signbit(wide(ours))[known], np.signbit(wide(wanted))[known]
        )


@pytest.mark.parametrize("shape", [(16, 1024), (21, 333), (40, 31), (8, 96), (1000, 80)])
def test_products_of_bfloat16_are_those_of_floats(shape: tuple[int, int]) -> None:
    torch.manual_seed(6)
    x = torch.randn(shape)
    x[1] *= 2.0  # grows, while most of the others vanish
    x[2, ::3] *= 1e-30
    x[2, 1::3] *= 1e30
    x[3, 20], x[4, 11], x[5, 7] = 0.0, -torch.inf, torch.nan
    x[6, 4:] = 1e-40
    x[7, :30], x[7, 30:] = 2.0**-4.5, 4.0  # to the smallest of floats and back again
    for dim in (0, 1):
        for y in (x.to(torch.bfloat16), x.to(torch.bfloat16).abs() ** 0.25):
            ours, wanted = wide(y.cumprod(dim)), wide(serial(y, dim, True))
            np.testing.assert_array_equal(ours, wanted)
            known = ~np.isnan(wanted)
            assert np.array_equal(np.signbit(ours[known]), np.signbit(wanted[known]))


def extremes(x: np.ndarray[Any, Any], sign: int) -> tuple[Any, Any]:
    values, positions = np.empty_like(x), np.empty(x.shape, np.int64)
    for r, row in enumerate(x):
        best, at = row[0], 0
        for i, value in enumerate(row):
            if value != value or (best == best and sign * value >= sign * best):
                best, at = value, i
            values[r, i], positions[r, i] = best, at
    return values, positions


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, torch.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_extremes(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    torch.manual_seed(2)
    x = torch.randint(-20, 21, shape).to(dtype)  # with ties
    if x.is_floating_point():
        x[shape[0] // 2, shape[1] // 3 :: 7] = torch.nan
        x[0, 1], x[1, 0], x[2] = -torch.inf, torch.inf, torch.arange(shape[1]).to(dtype)
    for dim in (0, 1):
        y = x if dim == 1 else x.t().contiguous()
        for scan, sign in ((torch.cummax, 1), (torch.cummin, -1)):
            values, positions = extremes(
                y.double().numpy() if dim == 1 else y.t().double().numpy(), sign
            )
            got = scan(y, dim)
            if dim == 0:
                got = (got[0].t(), got[1].t())
            np.testing.assert_array_equal(got[0].double().numpy(), values)
            np.testing.assert_array_equal(got[1].numpy(), positions)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8, torch.complex128])
@pytest.mark.parametrize("shape", [*SHAPES, (2, 5000)])
def test_gathered_rows(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    torch.manual_seed(3)
    x = torch.randint(0, 100, shape).to(dtype)
    for wanted in (1, 15, 40, 600):
        index = torch.randint(0, shape[1], (shape[0], wanted))
        out = np.take_along_axis(x.to(torch.complex128).numpy(), index.numpy(), 1)
        assert np.array_equal(x.gather(1, index).to(torch.complex128).numpy(), out)
        for bad in (-1, shape[1], 1 << 32, -(1 << 63)):
            for place in {0, wanted // 2, wanted - 1}:
                broken = index.clone()
                broken[shape[0] - 1, place] = bad
                with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds"):
                    x.gather(1, broken)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [1024, 1000])
def test_past_the_cache(dtype: torch.dtype, columns: int) -> None:
    torch.manual_seed(4)
    x = torch.randint(-4, 5, (9001, columns)).to(dtype)
    index = torch.randint(0, columns, x.shape)
    few = [0, 1, 4499, 4500, 8999, 9000]
    for ours, part in (
        (x.cumsum(1), lambda y: y.cumsum(1)),
        (torch.cummax(x, 1)[0], lambda y: torch.cummax(y, 1)[0]),
        (torch.cummax(x, 1)[1], lambda y: torch.cummax(y, 1)[1]),
    ):
        assert torch.equal(ours[few], part(x[few]))
    assert torch.equal(x.gather(1, index)[few], x[few].gather(1, index[few]))
    for ours, part in (
        (x.cumsum(0), lambda y: y.cumsum(0)),
        (torch.cummin(x, 0)[1], lambda y: torch.cummin(y, 0)[1]),
    ):
        some = [0, 1, 511, 512, columns - 1]
        assert torch.equal(ours[:, some], part(x[:, some].contiguous()))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool])
@pytest.mark.parametrize("low, high", [(0, 2), (-100, 100), (5, 9), (-(1 << 62), 1 << 62)])
def test_unique_integers(dtype: torch.dtype, low: int, high: int) -> None:
    torch.manual_seed(5)
    for n in (1, 300, 5000):
        x = torch.randint(low, high, (n,)).to(dtype)
        if dtype == torch.int64 and n > 1:  # whose difference no integer holds
            for ends in ((-(1 << 63), (1 << 63) - 1), ((1 << 63) - 1, (1 << 63) - 3)):
                few = torch.tensor(ends)[torch.randint(0, 2, (n,))]
                assert few.unique().tolist() == np.unique(few.numpy()).tolist()
        values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
        wanted = np.unique(x.numpy(), return_inverse=True, return_counts=True)
        assert values.dtype == dtype and x.unique().tolist() == wanted[0].tolist()
        for ours, theirs in zip((values, inverse, counts), wanted, strict=True):
            assert ours.tolist() == theirs.tolist()


def test_gradients_of_distances_of_pairs() -> None:
    torch.manual_seed(6)
    points = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    for p in (1.0, 1.5, 2.0, 3.0, float("inf")):
        distances = lambda x, p=p: torch.pdist(x, p)  # noqa: E731
        assert torch.autograd.gradcheck(distances, (points,))
        if p == 2:
            assert torch.autograd.gradgradcheck(distances, (points,))
    same = torch.ones(3, 2, requires_grad=True)
    torch.pdist(same).sum().backward()
    assert same.grad is not None and same.grad.tolist() == [[0.0, 0.0]] * 3
    near = torch.tensor([[0.0, 0.0], [2.0**-40, 0.0]], requires_grad=True)
    torch.pdist(near).backward(torch.tensor([2.0**100]))  # whose quotient overflows
    assert near.grad is not None and near.grad.tolist() == [[-(2.0**100), 0.0], [2.0**100, 0.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("wanted", [1, 7, 8, 33, 600])
def test_scattered_rows(dtype: torch.dtype, wanted: int) -> None:
    torch.manual_seed(7)
    x = torch.randint(0, 5, (6, 700)).to(dtype)
    source = torch.randint(0, 3, (6, wanted)).to(dtype)
    index = torch.stack([torch.randperm(700)[:wanted] for _ in range(6)])
    wide, added, positions = x.double().numpy(), source.double().numpy(), index.numpy()
    there = np.take_along_axis(wide, positions, 1)
    for reduce, joined in (
        (None, added),
        ("sum", there + added),
        ("prod", there * added),
        ("amax", np.maximum(there, added)),
        ("amin", np.minimum(there, added)),
    ):
        expected = wide.copy()
        np.put_along_axis(expected, positions, joined, 1)
        if reduce is None:
            ours = x.scatter(1, index, source)
        else:
            ours = x.scatter_reduce(1, index, source, reduce)
        assert np.array_equal(ours.double().numpy(), expected)
    broken = index.clone()
    broken[3, wanted // 2] = 700
    with pytest.raises(RuntimeError, match="index 700 is out of bounds"):
        x.scatter(1, broken, source)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex128])
def test_filled_rows(dtype: torch.dtype) -> None:
    x = torch.zeros(50, 333, dtype=dtype)
    rows = torch.tensor([3, -1, 3, 0])
    for dim, y in ((0, x), (1, x.t().contiguous()), (0, x[:, ::2])):
        filled = y.clone().index_fill_(dim, rows, 1)
        expected = np.zeros(y.shape)
        expected[(rows.numpy(), slice(None)) if dim == 0 else (slice(None), rows.numpy())] = 1
        assert np.array_equal(filled.to(torch.complex128).numpy(), expected)
    classes = torch.randint(0, 9, (4, 5))
    hot = torch.nn.functional.one_hot(classes, 11)
    assert np.array_equal(hot.numpy(), np.eye(11, dtype=np.int64)[classes.numpy()])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 2000), (2, 600, 3), (3, 5, 700), (0, 4)])
def test_integers_are_summed_in_int64(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    x = torch.randint(0, 2 if dtype == torch.bool else 120, shape).to(dtype)
    if dtype == torch.int64:
        x = x * (2**62 // 50)  # sums wrap
    for case in (x, x.transpose(0, -1), x[..., ::2]):
        for dim in range(case.dim()):
            got = case.cumsum(dim)
            assert got.dtype == torch.int64
            assert np.array_equal(got.numpy(), np.cumsum(case.numpy(), axis=dim, dtype=np.int64))


def test_integers_are_summed_past_the_cache() -> None:
    x = torch.arange(2_200_000).view(1100, 2000) % 7
    for case in (x, x.view(-1), x.to(torch.uint8), x.view(-1, 20)):
        for dim in range(case.dim()):
            assert np.array_equal(case.cumsum(dim).numpy(), np.cumsum(case.numpy(), dim, np.int64))
