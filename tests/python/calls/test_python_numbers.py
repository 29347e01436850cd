"""Numbers beside tensors: where they may stand, which dtype they make, and when they do not fit."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest

import flambeau as torch

X = [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("add", [3.0, 4.0, 6.0]),
        ("sub", [1.0, 0.0, -2.0]),
        ("subtract", [1.0, 0.0, -2.0]),
        ("mul", [2.0, 4.0, 8.0]),
        ("multiply", [2.0, 4.0, 8.0]),
        ("div", [2.0, 1.0, 0.5]),
        ("divide", [2.0, 1.0, 0.5]),
        ("true_divide", [2.0, 1.0, 0.5]),
        ("floor_divide", [2.0, 1.0, 0.0]),
        ("remainder", [0.0, 0.0, 2.0]),
        ("pow", [2.0, 4.0, 16.0]),
        ("float_power", [2.0, 4.0, 16.0]),
        ("xlogy", [0.0, 2 * math.log(2), 2 * math.log(4)]),
    ],
)
def test_a_number_may_come_first(name: str, wanted: list[float]) -> None:
    result = getattr(torch, name)(2, torch.tensor(X, dtype=torch.float64))
    assert result.dtype == torch.float64
    assert result.tolist() == pytest.approx(wanted)


def test_two_numbers_make_a_tensor_without_dimensions() -> None:
    assert torch.add(2, 3).dtype == torch.int64
    assert torch.mul(2, 1.5).item() == 3.0
    assert torch.sub(5, 3, alpha=2).item() == -1
    assert torch.div(1, 4).dtype == torch.float32


@pytest.mark.parametrize(
    "name",
    "maximum minimum fmax fmin atan2 hypot logaddexp logaddexp2 nextafter heaviside gcd lcm "
    "logical_and logical_or logical_xor ldexp".split(),
)
def test_some_ops_take_no_number(name: str) -> None:
    x = torch.ones(2, dtype=torch.int64)
    for arguments in ((x, 2), (2, x), (2, 3)):
        with pytest.raises(TypeError):
            getattr(torch, name)(*arguments)


def test_extremes_have_no_inplace_form() -> None:
    for name in ("maximum_", "minimum_", "fmax_", "fmin_", "logaddexp_"):
        assert not hasattr(torch.ones(2), name)


@pytest.mark.parametrize("name", ("add", "mul", "eq", "bitwise_and"))
def test_arithmetic_wraps_a_number_that_does_not_fit(name: str) -> None:
    x = torch.tensor([44], dtype=torch.uint8)
    assert getattr(x, name)(300).tolist() == getattr(x, name)(44).tolist()


def test_a_divisor_that_wraps_to_zero_is_zero() -> None:
    for name in ("floor_divide", "remainder", "fmod"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(torch.ones(2, dtype=torch.int8), name)(256)


FILLS = {
    "fill_": lambda x, v: x.fill_(v),
    "full_like": torch.full_like,
    "masked_fill": lambda x, v: x.masked_fill(torch.tensor([True]), v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0]), v),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0]), v),
    "where": lambda x, v: torch.where(torch.tensor([False]), x, v),
}


@pytest.mark.parametrize("way", FILLS)
def test_a_number_that_is_written_must_fit(way: str) -> None:
    write = FILLS[way]
    # A negative integer may wrap in an unsigned dtype that holds its absolute value.
    assert write(torch.zeros(1, dtype=torch.uint8), -1).tolist() == [255]
    for dtype, value in ((torch.uint8, 300), (torch.int8, 2**40), (torch.float32, 1e300)):
        with pytest.raises(RuntimeError, match="without overflow"):
            write(torch.zeros(1, dtype=dtype), value)
    with pytest.raises(RuntimeError):
        write(torch.zeros(1), 1j) if way != "where" else write(torch.zeros(1), 1e300)


def test_written_numbers_lose_fractions_and_keep_infinity() -> None:
    assert torch.zeros(1, dtype=torch.int8).fill_(127.5).item() == 127
    assert torch.zeros(1, dtype=torch.float16).fill_(math.inf).item() == math.inf
    with pytest.raises(RuntimeError):
        torch.zeros(1, dtype=torch.uint8).fill_(-0.5)
    with pytest.raises(RuntimeError):
        torch.zeros(1, dtype=torch.int64).fill_(2**63)


def test_bounds_beyond_the_far_end_of_the_range_do_nothing() -> None:
    x = torch.tensor([-100, 0, 100], dtype=torch.int8)
    assert x.clamp(0, 300).tolist() == [0, 0, 100]
    assert x.clamp(-300, 5).tolist() == [-100, 0, 5]
    assert torch.tensor([3, 200], dtype=torch.uint8).clamp(-1, 9).tolist() == [3, 9]
    with pytest.raises(RuntimeError, match="Clamp min value 300"):
        x.clamp(min=300)
    hardtanh = torch.nn.functional.hardtanh
    assert hardtanh(torch.tensor([0, 9], dtype=torch.uint8), -1.5, 2.0).tolist() == [0, 2]


def test_powers_of_bools() -> None:
    b = torch.tensor([True, False])
    assert torch.square(b).dtype == torch.int64
    assert b.pow(2).dtype == torch.int64
    assert b.pow(True).dtype == torch.bool
    with pytest.raises(NotImplementedError):
        b.pow(b)


def test_exponents_must_fit() -> None:
    with pytest.raises(RuntimeError, match="overflow"):
        torch.ones(2, dtype=torch.int8).pow(300)
    with pytest.raises(RuntimeError, match="negative integer powers"):
        torch.ones(2, dtype=torch.int8).pow(-1)
    assert torch.pow(300, torch.ones(1, dtype=torch.int8)).item() == 44


@pytest.mark.parametrize(
    "name",
    "silu mish hardswish hardsigmoid elu selu celu leaky_relu softplus softshrink hardshrink glu "
    "logsigmoid".split(),
)
def test_activations_refuse_integers(name: str) -> None:
    with pytest.raises(NotImplementedError):
        getattr(torch.nn.functional, name)(torch.ones(2, dtype=torch.int64))


def test_lists_of_numpy_numbers_keep_their_dtype() -> None:
    assert torch.tensor([np.float64(1)]).dtype == torch.float64
    assert torch.as_tensor([np.float64(1), 2]).dtype == torch.float64
    assert torch.tensor([np.int8(1), np.float16(2)]).dtype == torch.float16
    assert torch.tensor(np.int8(1)).dtype == torch.int8
    assert torch.tensor([np.float32(1), 1.5]).dtype == torch.float32


def test_integers_beyond_64_bits_are_floats_among_floats() -> None:
    assert torch.tensor([2**70, 1.5]).tolist() == [float(2**70), 1.5]
    assert torch.tensor([2**63], dtype=torch.uint64).item() == 2**63
    with pytest.raises(ValueError, match="Overflow"):
        torch.tensor([2**63])
    with pytest.raises(OverflowError):
        torch.tensor([2**64], dtype=torch.uint64)


def test_sizes_come_one_by_one_in_first_place_only() -> None:
    x = torch.ones(2, 3)
    assert x.reshape(3, 2).shape == torch.reshape(x, (3, 2)).shape
    for call in (lambda: torch.reshape(x, 3, 2), lambda: torch.permute(x, 1, 0)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        torch.full(2, 3)


def test_unsigned_integers_have_no_common_dtype_with_others() -> None:
    for other in (torch.bool, torch.uint8, torch.int64, torch.complex64, torch.uint32):
        with pytest.raises(RuntimeError, match="Promotion for uint16"):
            torch.promote_types(torch.uint16, other)
    assert torch.promote_types(torch.uint16, torch.float16) == torch.float16


def test_logical_not_works_in_place() -> None:
    x = torch.tensor([0.0, 2.0])
    assert x.logical_not_() is x
    assert x.tolist() == [1.0, 0.0]


def test_angles_of_infinities_and_zeros() -> None:
    x = torch.tensor([math.inf, -math.inf, 0.0, -0.0, math.nan])
    angles = torch.angle(x)
    assert angles[:4].tolist() == [0.0, pytest.approx(math.pi), 0.0, 0.0]
    assert not angles[3].signbit() and angles[4].isnan()


def test_a_shrinkage_without_bound_leaves_zeros() -> None:
    x = torch.tensor([-math.inf, -1.0, 0.0, 1.0, math.inf])
    assert torch.nn.functional.hardshrink(x, math.inf).tolist() == [0.0] * 5


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("x", [1e30, 1e30 + 1e30j, -1 + 1e-6j, -1 + 1e30j, 1e-30 + 2e-30j, -0.5j])
def test_complex_log1p_neither_overflows_nor_cancels(x: complex, dtype: torch.dtype) -> None:
    exact = x if abs(x) < 1e-20 else cmath.log(1 + x)
    got = torch.log1p(torch.tensor(x, dtype=dtype)).item()
    assert got == pytest.approx(exact, rel=1e-6 if dtype is torch.complex64 else 1e-14)


def test_bessel_functions_of_infinity_are_those_of_pytorch() -> None:
    infinite = torch.tensor([math.inf, -math.inf])
    for name in ("i0", "i1", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai"):
        assert getattr(torch.special, name)(infinite).isnan().all()
    assert torch.special.i0e(infinite).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_beside_half_precision_are_not_rounded_to_it(dtype) -> None:
    x = torch.linspace(-2, 2, 801).to(dtype)
    for result, wide in (
        (x * 0.1, x.double() * 0.1),
        (0.1 * x, x.double() * 0.1),
        (x / 0.3, x.double() / 0.3),
        (x.clone().mul_(0.999), x.double() * 0.999),
        (x * torch.tensor(0.1), x.double() * 0.1),
        (torch._foreach_mul([x], 0.1)[0], x.double() * 0.1),
    ):
        assert result.dtype == dtype
        error = (result.double() - wide).abs() / wide.abs()
        assert error[wide.abs() > 0.01].max().item() <= torch.finfo(dtype).eps / 2 * 1.001


def test_a_number_beyond_half_precision_is_no_infinity_beside_it() -> None:
    x = torch.tensor([0.5, -0.0, 0.0, float("nan"), float("inf")], dtype=torch.float16)
    for result in (x * 65536.0, 65536.0 * x, x * torch.tensor(65536.0), x / 2.0**-16.5 / 2**0.5):
        assert result[0].item() == pytest.approx(32768, rel=2e-3)
        assert math.copysign(1, result[1].item()) == -1 and math.copysign(1, result[2].item()) == 1
        assert result[3].isnan() and result[4].isinf()
    leaf = torch.tensor([0.25], dtype=torch.float16, requires_grad=True)
    (leaf * 1e5 * 1e-5).sum().backward()
    assert leaf.grad is not None and leaf.grad.item() == pytest.approx(1, rel=2e-3)
    written = leaf.detach().clone()
    assert written.mul_(1e5).item() == pytest.approx(25000, rel=1e-3) and written._version == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_what_is_shrunk_at_a_bound_is_within_it(dtype) -> None:
    at = torch.tensor([0.3, -0.3, 0.31, -0.29]).to(dtype)
    for shrink in (torch.nn.functional.hardshrink, torch.nn.functional.softshrink):
        x = at.clone().requires_grad_()
        result = shrink(x, 0.3)
        result.sum().backward()
        assert x.grad is not None
        assert (result != 0).tolist() == [False, False, True, False]
        assert x.grad.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_neighbours_are_those_of_the_dtype(dtype: torch.dtype) -> None:
    info = torch.finfo(dtype)
    least = info.smallest_normal * info.eps
    inf = math.inf
    numbers = [0.0, 0.0, 1.0, 1.0, -1.0, inf, info.max, -0.0, math.nan, least]
    start = torch.tensor(numbers, dtype=dtype)
    aim = torch.tensor([1.0, -1.0, 2.0, 0.0, 0.0, 0.0, inf, 0.0, 1.0, -1.0], dtype=dtype)
    found = torch.nextafter(start, aim).tolist()
    below = 1 - info.eps / 2
    assert found[:8] == [least, -least, 1 + info.eps, below, -below, info.max, inf, 0]
    assert math.isnan(found[8]) and found[9] == 0
    assert torch.nextafter(start.view(5, 2).t(), aim.view(5, 2).t()).t()[1].tolist() == found[2:4]


def test_limits_are_asked_by_dtypes_and_types_of_numbers() -> None:
    assert torch.finfo(float) == torch.finfo(torch.float64) and torch.finfo().dtype == "float32"
    assert torch.iinfo(int) == torch.iinfo(torch.int64)
    for wrong in (None, 2, "float32", int, str):
        with pytest.raises(TypeError):
            torch.finfo(wrong)
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Long"):
        torch.int64.to_complex()


def test_sizes_are_added_to_lists_and_to_tuples() -> None:
    size, shape = torch.Size([1, 2]), [3]
    shape += size
    assert shape == [3, 1, 2]
    assert (0, *size) == (0,) + size and type((0,) + size) is torch.Size
    with pytest.raises(TypeError, match="can only concatenate list"):
        [3] + size
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        size + [3]
    with pytest.raises(TypeError, match="item 2 is 'str'"):
        size + ("a",)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("number", [0.1, 0.3, 7.7, 1e5, 3.0])
def test_rounded_quotients_of_half_precision_are_by_the_number_itself(dtype, number) -> None:
    x = (torch.randn(2000) * 50).to(dtype)
    exact = torch.tensor(number, dtype=torch.float32)
    for mode in ("trunc", "floor"):
        expected = torch.div(x.float(), exact, rounding_mode=mode).to(dtype)
        assert torch.div(x, number, rounding_mode=mode).equal(expected)
        assert x.clone().div_(number, rounding_mode=mode).equal(expected)
        assert torch.div(x, torch.tensor(number), rounding_mode=mode).equal(expected)
        out = torch.empty_like(x)
        assert torch.div(x, number, rounding_mode=mode, out=out).equal(expected)
    y = x.clone().requires_grad_()
    torch.div(y, number, rounding_mode="floor").sum().backward()
    assert y.grad.dtype == dtype and y.grad.eq(0).all()
