"""One loop serves several dtypes: integers with a sign and without, half precision computed in
float. Every dtype against NumPy, from end to end of its range.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS = [*INTEGERS, "float16", "float32", "float64"]


def numbers(dtype: str, count: int = 1300) -> np.ndarray:
    """Numbers of the whole range, its ends and small ones among them."""
    rng = np.random.default_rng(len(dtype) + count)
    if dtype.startswith("float"):
        return (rng.standard_normal(count) * 50).round(1).astype(dtype)
    limits = np.iinfo(dtype)
    values = rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    values[::3] = rng.integers(0, 7, len(values[::3]))
    values[:4] = [limits.min, limits.max, 0, 1]
    return values


def tensor(array: np.ndarray, spaced: bool = False) -> torch.Tensor:
    """The array as a tensor, with gaps between its elements if `spaced`."""
    whole = torch.from_numpy(array)
    return torch.stack([whole, whole], 1)[:, 0] if spaced else whole


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_functions_of_two(dtype: str, spaced: bool) -> None:
    a, b = numbers(dtype), numbers(dtype, 1301)[:1300]
    x, y = tensor(a, spaced), tensor(b, spaced)
    number = b[5]
    nonzero = np.where(b == 0, b.dtype.type(1), b)
    with np.errstate(all="ignore"):
        pairs = [
            (x + y, a + b),
            (x - y, a - b),
            (x * y, a * b),
            (x + int(number), a + b.dtype.type(int(number))),
            (x == y, a == b),
            (x < y, a < b),
            (x >= int(number), a >= b.dtype.type(int(number))),
            (torch.maximum(x, y), np.maximum(a, b)),
            (torch.logical_and(x, y), np.logical_and(a, b)),
            (torch.clamp(x, 2, 5), a.clip(2, 5)),
            (torch.where(x > y, x, y), np.where(a > b, a, b)),
        ]
        if dtype in INTEGERS:
            pairs += [
                (x ^ y, a ^ b),
                (torch.fmod(x, tensor(nonzero)), np.fmod(a, nonzero)),
                (torch.remainder(x, tensor(nonzero)), np.remainder(a, nonzero)),
                (x // tensor(nonzero), a // nonzero),
                (torch.gcd(x >> 1, y >> 1), np.gcd(a >> 1, b >> 1)),
                (x >> 3, a >> b.dtype.type(3)),
                (x << 3, a << b.dtype.type(3)),
                (torch.addcmul(x, x, y, value=3), a + b.dtype.type(3) * a * b),
                (torch.add(x, y, alpha=2), a + b.dtype.type(2) * b),
            ]
    for at, (ours, theirs) in enumerate(pairs):
        np.testing.assert_array_equal(ours.numpy(), theirs, err_msg=f"pair {at}")


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_functions_of_one(dtype: str, spaced: bool) -> None:
    a = numbers(dtype)
    x = tensor(a, spaced)
    with np.errstate(all="ignore"):
        pairs = [
            (-x, -a),
            (x.abs(), np.abs(a)),
            (x.square(), np.square(a)),
            (x.sign(), np.sign(a)),
            (x.logical_not(), np.logical_not(a)),
            (x.isfinite(), np.isfinite(a)),
            (x.signbit(), np.signbit(a) if dtype.startswith("float") else a < 0),
            (torch.relu(x), np.maximum(a, 0)),
            (x.round(), np.round(a)),
        ]
        if dtype in INTEGERS:
            pairs += [(~x, ~a), (torch.pow(x, 3), np.power(a, a.dtype.type(3)))]
    for at, (ours, theirs) in enumerate(pairs):
        np.testing.assert_array_equal(ours.numpy(), theirs, err_msg=f"pair {at}")


@pytest.mark.parametrize("source", [*NUMBERS, "bool", "complex64", "complex128"])
def test_copies_to_every_dtype(source: str) -> None:
    for target in [*NUMBERS, "bool", "complex64", "complex128"]:
        if source in ("bool", "complex64", "complex128"):
            a = (numbers("int8") % 5).astype(source)
            a = a + 1j * a[::-1] if source.startswith("complex") else a
            a = a.astype(source)
        else:
            a = numbers(source)
        if not (source in INTEGERS or target.startswith(("float", "complex"))):
            a = np.abs(a.real).astype(source)  # a negative fraction as an unsigned integer is open
        with np.errstate(all="ignore"):
            real = a if target in ("bool", "complex64", "complex128") else a.real
            want = real.astype(target)
        for spaced in (False, True):
            got = tensor(a, spaced).to(getattr(torch, target))
            np.testing.assert_array_equal(got.numpy(), want, err_msg=target)


def test_lerp_reads_a_single_weight_of_half_precision() -> None:
    a, b = torch.arange(40.0).half(), torch.ones(40).half()
    weight = torch.tensor(0.25, dtype=torch.float16)
    want = a.float() + 0.25 * (b.float() - a.float())
    assert torch.equal(torch.lerp(a, b, weight), want.half())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, float("inf"), -float("inf")])
def test_norms_of_complex_numbers(dtype: str, order: float) -> None:
    rng = np.random.default_rng(3)
    a = (rng.standard_normal((5, 40)) + 1j * rng.standard_normal((5, 40))).astype(dtype)
    a[1, 3] = a[4, :] = 0
    x = torch.from_numpy(a).requires_grad_()
    for dim in (0, 1):
        ours = torch.linalg.vector_norm(x, order, dim=dim)
        want = [np.linalg.norm(line, order) for line in (a.T if dim == 0 else a)]
        np.testing.assert_allclose(ours.detach().numpy(), want, rtol=1e-4)
        assert ours.requires_grad and ours.dtype == x.real.dtype


def test_bool_of_double_complex_numbers() -> None:
    x = torch.zeros(3, 4, dtype=torch.complex128)
    x[0, 1], x[1] = 1j, complex(float("nan"), 0)
    x[2, 2] = complex(-0.0, -0.0)
    assert x.any(1).tolist() == [True, True, False]
    assert x.all(1).tolist() == [False, True, False]
    assert torch.count_nonzero(x, 1).tolist() == [1, 4, 0]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin"])
def test_scattered_integers(dtype: str, reduce: str) -> None:
    rng = np.random.default_rng(1)
    target, source = numbers(dtype, 60).reshape(6, 10), numbers(dtype, 120).reshape(12, 10)
    index = rng.integers(0, 6, (12, 10))
    ours = torch.from_numpy(target).scatter_reduce(
        0, torch.from_numpy(index), torch.from_numpy(source), reduce
    )
    want = target.copy()
    function = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    with np.errstate(all="ignore"):
        function.at(want, (index, np.arange(10)), source)
    np.testing.assert_array_equal(ours.numpy(), want)


def test_random_integers_have_the_same_bits_with_and_without_a_sign() -> None:
    for bits in (8, 16, 32, 64):
        drawn = []
        for name in (f"int{bits}", f"uint{bits}"):
            torch.manual_seed(5)
            drawn.append(torch.randint(0, 100, (50,), dtype=getattr(torch, name)).tolist())
        assert drawn[0] == drawn[1]
