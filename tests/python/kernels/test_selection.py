"""Sorting short rows and choosing from long ones: values, and which of equal elements is named."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau import Tensor

DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8]


def numbers(rows: int, length: int, dtype: torch.dtype, values: int) -> Tensor:
    return (torch.randint(0, values, (rows, length)) - (0 if dtype == torch.uint8 else 40)).to(
        dtype
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 7, 16, 17, 31, 33, 63, 64, 65, 100, 129, 300, 511, 512])
def test_short_rows_are_sorted_stably(dtype: torch.dtype, length: int) -> None:
    torch.manual_seed(length)
    x = numbers(5, length, dtype, 90)
    wanted = np.argsort(x.double().numpy(), axis=1, kind="stable")
    values, positions = x.sort(1)
    assert np.array_equal(positions.numpy(), wanted)
    assert torch.equal(values, x.gather(1, positions))
    wanted = np.argsort(-x.double().numpy(), axis=1, kind="stable")
    assert np.array_equal(x.sort(1, descending=True, stable=True)[1].numpy(), wanted)
    wanted = np.argsort(x.double().numpy(), axis=0, kind="stable")
    assert np.array_equal(x.sort(0)[1].numpy(), wanted)


def test_rows_within_32_bits_lie_beside_others() -> None:
    x = torch.randint(-50, 50, (9, 70))
    x[4, 3], x[6, 69] = 1 << 40, -(1 << 31) - 1
    x[7, 0], x[8, 1] = (1 << 31) - 1, -(1 << 31)
    wanted = np.argsort(x.numpy(), axis=1, kind="stable")
    assert np.array_equal(x.sort(1)[1].numpy(), wanted)
    assert np.array_equal(x.topk(5, 1, largest=False)[1].numpy(), wanted[:, :5])
    transposed = x.t().contiguous().t()
    assert np.array_equal(transposed.sort(1)[1].numpy(), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [1, 5, 64, 65, 120, 129])
def test_the_first_of_equal_elements_are_chosen(dtype: torch.dtype, k: int) -> None:
    torch.manual_seed(k)
    x = numbers(3, 1030, dtype, 200)
    wanted = np.argsort(-x.double().numpy(), axis=1, kind="stable")[:, :k]
    values, positions = x.topk(k, 1)
    assert np.array_equal(positions.numpy(), wanted)
    assert torch.equal(values, x.gather(1, positions))
    wanted = np.argsort(x.double().numpy(), axis=1, kind="stable")[:, :k]
    assert np.array_equal(x.topk(k, 1, largest=False)[1].numpy(), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [2, 200, 1 << 20])
def test_one_of_a_long_slice(dtype: torch.dtype, values: int) -> None:
    torch.manual_seed(values)
    length = (1 << 15) + 101
    x = numbers(3, length, dtype, min(values, 200) if dtype == torch.uint8 else values)
    order = np.argsort(x.double().numpy(), axis=1, kind="stable")
    for k in (1, 7, length // 2, length):
        chosen, positions = x.kthvalue(k, 1)
        assert np.array_equal(positions.numpy(), order[:, k - 1])
        assert torch.equal(chosen, x.gather(1, positions[:, None])[:, 0])
    assert np.array_equal(x.median(1)[1].numpy(), order[:, (length - 1) // 2])
    transposed = x.t().contiguous()
    assert np.array_equal(transposed.median(0)[1].numpy(), order[:, (length - 1) // 2])
    flat = np.sort(x.flatten().double().numpy())
    assert x.median().item() == flat[(3 * length - 1) // 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_medians_of_long_slices_with_nan(dtype: torch.dtype) -> None:
    x = torch.randn(2, 40_000).to(dtype)
    x[0, 77] = x[0, 5_000] = math.nan
    x[1, 0], x[1, 1] = math.inf, -math.inf
    values, positions = x.median(1)
    assert values[0].isnan() and positions[0] == 77
    rest = np.sort(x[0].double().numpy())[: 40_000 - 2]
    assert x.nanmedian(1)[0][0].item() == rest[(len(rest) - 1) // 2]
    assert x.nanmedian(1)[0][1] == values[1] == x[1].sort()[0][19_999]
    none = torch.full((40_000,), math.nan, dtype=dtype)
    value, place = none.nanmedian(0)
    assert value.isnan() and place == 0
    with pytest.raises(NotImplementedError, match="median"):
        torch.ones(40_000, dtype=torch.bool).median()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 271, 272, 273, 16384, 40001])
def test_runs_and_masks_of_whole_registers_and_tails(n: int, dtype: torch.dtype) -> None:
    torch.manual_seed(n)
    x = torch.randint(0, 3, (n,)).to(dtype)
    listed = x.tolist()
    starts = [i for i in range(n) if i == 0 or listed[i] != listed[i - 1]]
    numbers = [0] * n
    for i in range(1, n):
        numbers[i] = numbers[i - 1] + (listed[i] != listed[i - 1])
    values, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert values.tolist() == [listed[i] for i in starts]
    assert inverse.tolist() == numbers
    assert counts.tolist() == [b - a for a, b in zip(starts, [*starts[1:], n], strict=True)]
    for mask in (x > 0, x > 1, x >= 0):
        kept = [v for v, m in zip(listed, mask.tolist(), strict=True) if m]
        assert x[mask].tolist() == kept


@pytest.mark.parametrize("bits", [1, 8, 9, 10, 18, 19, 31, 33, 62])
@pytest.mark.parametrize("n", [512, 513, 3000])
def test_long_rows_are_sorted_stably_whatever_bits_differ(n: int, bits: int) -> None:
    torch.manual_seed(bits)
    whole = torch.randint(-(1 << bits), 1 << bits, (2, n))
    narrow = [whole.int()] if bits < 32 else []
    for x in (whole, whole << (62 - bits), whole.double(), *narrow):
        wanted = np.argsort(x.numpy(), axis=1, kind="stable")
        assert np.array_equal(x.sort(1, stable=True)[1].numpy(), wanted)


@pytest.mark.parametrize("k", [1, 3, 8, 9, 20])
def test_the_first_of_the_extreme_integers_are_chosen(k: int) -> None:
    bounds = torch.iinfo(torch.int64)
    for least, n in itertools.product((bounds.min, bounds.max), (64, 170, 500)):
        if k * 8 >= n:
            continue
        x = torch.randint(-9, 9, (3, n))
        x[0], x[1, n // 2 : n // 2 + k + 1], x[2, n - 1] = least, least, least
        values, positions = x.topk(k, 1, largest=least > 0)
        keys = -x.double().numpy() if least > 0 else x.double().numpy()
        assert np.array_equal(positions.numpy(), np.argsort(keys, axis=1, kind="stable")[:, :k])
        assert torch.equal(values, x.gather(1, positions))


@pytest.mark.parametrize("k", [1, 3, 24])
def test_few_of_wide_numbers_are_chosen_along_both_dimensions(k: int) -> None:
    torch.manual_seed(k)
    x = torch.randn(200, 203, dtype=torch.float64).round(decimals=1)
    x[3, 5], x[150, 7], x[9, :3], x[:4, 20] = math.nan, -math.inf, math.inf, math.nan
    keys = np.nan_to_num(x.numpy(), nan=1e300, posinf=1e299)
    for case, values in ((x, keys), (x.t(), keys.T), (x.nan_to_num(0, 9, -9).long(), None)):
        compared = case.numpy() if values is None else values
        for dim in (0, 1):
            wanted = np.argsort(-compared, axis=dim, kind="stable").take(range(k), dim)
            assert np.array_equal(case.topk(k, dim)[1].numpy(), wanted)
            wanted = np.argsort(compared, axis=dim, kind="stable").take(range(k), dim)
            assert np.array_equal(case.topk(k, dim, largest=False)[1].numpy(), wanted)
