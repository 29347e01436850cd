"""Remainders and whole quotients computed a register of floats at a time: bit by bit as singly."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Any bits, quotients near integers, huge ones, and every pair of special values."""
    rng = np.random.default_rng(0)
    n = 20_000
    a, b = rng.integers(0, 2**32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    divisor = (rng.standard_normal(n) * 10.0 ** rng.integers(-42, 30, n)).astype(np.float32)
    multiple = (rng.integers(-300, 300, n) * divisor).astype(np.float32)
    near = np.where(rng.random(n) < 0.5, multiple, np.nextafter(multiple, np.float32(1)))
    huge = (rng.standard_normal(n) * 10.0 ** rng.uniform(0, 9, n)).astype(np.float32)
    some = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3, 1e-45, -1e-45, 3e38, 2.0**24, -(2.0**21)]
    x, y = (v.ravel() for v in np.meshgrid(np.float32(some), np.float32(some)))
    return np.concatenate([a, near, huge, x]), np.concatenate([b, divisor, divisor[::-1], y])


def floor_divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    quotient = np.where((rest != 0) & ((b < 0) != (rest < 0)), quotient - np.float32(1), quotient)
    floor = np.floor(quotient)
    floor = np.where(quotient - floor > 0.5, floor + np.float32(1), floor)
    zero = np.copysign(np.float32(0), a / b)
    return np.where(b == 0, a / b, np.where(quotient == 0, zero, floor))


def with_sign(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((b < 0) != (rest < 0)), rest + b, rest)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_divisions_agree_bit_by_bit(name: str) -> None:
    exact = {"fmod": np.fmod, "remainder": with_sign, "floor_divide": floor_divided}[name]
    a, b = operands()
    with np.errstate(all="ignore"):
        for divisor in (b, np.float32(0.37), np.float32(-3)):
            expected = exact(a, np.broadcast_to(divisor, a.shape)).astype(np.float32)
            other = torch.from_numpy(b) if divisor is b else float(divisor)
            found = getattr(torch, name)(torch.from_numpy(a), other).numpy()
            same = (found.view(np.uint32) == expected.view(np.uint32)) | (
                np.isnan(found) & np.isnan(expected)
            )
            assert same.all(), (a[~same][:4], found[~same][:4], expected[~same][:4])
