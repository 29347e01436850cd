"""bfloat16 in formulas that are computed in SIMD registers: as float32, rounded once."""

from collections.abc import Callable

import pytest

import flambeau as torch
import flambeau.nn.functional as F

UNARY = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "log": torch.log,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "erf": torch.erf,
    "atan": torch.atan,
    "silu": F.silu,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "mish": F.mish,
    "elu": lambda x: F.elu(x, 0.7),
}


def every_bfloat16() -> torch.Tensor:
    """All 65536 bit patterns, infinities, subnormals and NaNs among them."""
    return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(torch.bfloat16)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether elements are the same or both NaN, zeros with their signs."""
    bits = a.view(torch.int16) == b.view(torch.int16)
    return bool((bits | (a.isnan() & b.isnan())).all())


@pytest.mark.parametrize("name", UNARY)
def test_every_number_is_rounded_once(name: str) -> None:
    x, f = every_bfloat16(), UNARY[name]
    expected = f(x.float()).bfloat16()
    assert same(f(x), expected)
    for first in (0, 1, 7):  # positions in a register, whole ones and rests
        assert same(f(x[first : first + 77]), expected[first : first + 77])
    assert same(f(x[::3]), expected[::3])


def test_large_results_past_the_cache() -> None:
    x = every_bfloat16().repeat(130)[3:]  # not at the begin of a line of memory
    assert same(torch.tanh(x), torch.tanh(x.float()).bfloat16())
    y = x.clone()
    assert same(y.tanh_(), torch.tanh(x))
    out = torch.empty(x.numel() + 1, dtype=torch.bfloat16)[1:]
    torch.tanh(x, out=out)
    assert same(out, torch.tanh(x))


@pytest.mark.parametrize("count", [1, 31, 32, 77, (1 << 22) + 5])
@pytest.mark.parametrize("to", [0, 1, 6])
def test_plain_formulas_wherever_operands_begin(count: int, to: int) -> None:
    all_of_them = every_bfloat16().roll(1000).repeat(count // (1 << 16) + 2)
    for first in (0, 1, 7):
        a, b = all_of_them[first : first + count], all_of_them.flip(0)[3 : 3 + count]
        out = torch.zeros(count + 8, dtype=torch.bfloat16)
        window = out[to : to + count]
        assert same(torch.mul(a, b, out=window), (a.float() * b.float()).bfloat16())
        assert same(torch.mul(a, 0.3, out=window), (a.float() * 0.3).bfloat16())
        assert same(torch.lerp(a, b, 0.3, out=window), a.float().lerp(b.float(), 0.3).bfloat16())
        assert not out[:to].any() and not out[to + count :].any()
        assert same(a.clone().add_(b), (a.float() + b.float()).bfloat16())
        assert same(F.leaky_relu(a, 0.1), F.leaky_relu(a.float(), 0.1).bfloat16())


@pytest.mark.parametrize("width", [96, 288, 500, 1024, 1531])
def test_large_rows_beside_one_row_or_a_column(width: int) -> None:
    rows = (1 << 23) // width + 3  # stored non-temporally, at lines of memory and between them
    x = every_bfloat16().roll(1000).repeat(130)[5 : rows * width + 5].view(rows, width)
    row, column = every_bfloat16()[-width - 99 : -99], torch.randn(rows, 1).bfloat16()
    for f in (torch.add, torch.sub, torch.maximum, torch.minimum):
        for a, b in ((x, row), (x, column), (column, x), (row, column)):
            found, expected = f(a, b), f(a.float(), b.float()).bfloat16()
            assert same(found, expected)
    y = x.clone()
    assert same(y.add_(row), torch.add(x, row))
    bits, bits_of_row = x.view(torch.int16), row.view(torch.int16)
    assert torch.equal(bits + bits_of_row, (bits.int() + bits_of_row.int()).short())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sizes_of_every_number(dtype: torch.dtype) -> None:
    x = every_bfloat16().view(dtype)
    for f in (torch.isnan, torch.isinf, torch.isfinite):
        assert torch.equal(f(x), f(x.float()))
        assert torch.equal(f(x[3:100]), f(x[3:100].float()))


def operands_of_all_kinds() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of any bits, side by side with all others or with their like; and of usual numbers."""
    a, count = every_bfloat16(), 1 << 18
    near, far = torch.randn(2, count), torch.randint(-120, 120, (2, count)).double()
    alike = [a[torch.randint(0, 1 << 16, (count // 32,))].repeat_interleave(32) for _ in range(2)]
    return [
        *((a, b) for b in (a.flip(0), a.roll(12345), torch.tensor(2.5, dtype=torch.bfloat16))),
        (alike[0], alike[1]),
        (near[0].bfloat16(), near[1].bfloat16()),
        (near[0].abs().bfloat16(), (near[1] * 3).bfloat16()),
        ((near[0] * far[0].exp2()).bfloat16(), (near[1] * far[0].exp2()).bfloat16()),
        ((near[0] * far[0].exp2()).bfloat16(), (near[1] * far[1].exp2()).bfloat16()),
        (torch.randint(-50, 50, (count,)).bfloat16(), torch.randint(-9, 9, (count,)).bfloat16()),
    ]


def units_apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How many numbers lie between, and one more; 0 for two NaNs, many for one."""
    bits = [x.view(torch.int16).long() for x in (a, b)]
    positions = [torch.where(x < 0, -(x & 0x7FFF), x) for x in bits]
    apart = torch.where(a.isnan() != b.isnan(), 1 << 16, (positions[0] - positions[1]).abs())
    return torch.where(a.isnan() & b.isnan(), 0, apart)


@pytest.mark.parametrize("op", ["logaddexp", "xlogy", "pow", "atan2"])
def test_two_operands(op: str) -> None:
    f = getattr(torch, op)
    for a, b in operands_of_all_kinds():
        found, expected = f(a, b), f(a.float(), b.float()).bfloat16()
        apart = units_apart(found, expected)
        assert apart.max() <= 1 and (apart > 0).sum() * 2000 <= a.numel()
        assert torch.equal(found.signbit()[expected == 0], expected.signbit()[expected == 0])
        for part in (slice(5, 82), slice(-70, -3)):  # no result depends on its neighbours
            assert same(f(a[part], b if b.ndim == 0 else b[part]), found[part])


def test_lengths_of_all_kinds() -> None:
    for a, b in operands_of_all_kinds():
        exact = (a.double().square() + b.double().square()).sqrt().bfloat16()
        exact[a.isinf() | b.isinf()] = float("inf")
        found = torch.hypot(a, b)
        assert units_apart(found, exact).max() <= (1 if found.isnan().any() else 0)
        assert same(torch.hypot(a[5:82], b if b.ndim == 0 else b[5:82]), found[5:82])


@pytest.mark.parametrize("op", ["fmod", "remainder", "floor_divide"])
def test_rests_of_divisions_are_exact(op: str) -> None:
    f = getattr(torch, op)
    for a, b in operands_of_all_kinds():
        assert same(f(a, b), f(a.float(), b.float()).bfloat16())


@pytest.mark.parametrize("op", ["fmod", "remainder", "floor_divide"])
def test_large_rests_of_divisions(op: str) -> None:
    f = getattr(torch, op)
    a, b = torch.randn((1 << 22) + 5) * 100, torch.randn((1 << 22) + 5)
    b[12345], a[54321], b[-1] = 1e-30, float("inf"), 0.0
    parts = [f(a[i : i + 65536], b[i : i + 65536]) for i in range(0, a.numel(), 65536)]
    assert torch.equal(f(a, b).nan_to_num(7.0), torch.cat(parts).nan_to_num(7.0))
    exact = f(a.double(), 0.75).float()
    assert torch.equal(f(a, 0.75).nan_to_num(7.0), exact.nan_to_num(7.0))


@pytest.mark.parametrize("op", [torch.sum, torch.nansum, torch.prod, torch.norm])
@pytest.mark.parametrize("columns", [4, 31, 33, 256, 515])
def test_columns_taken_by_pairs(op: Callable[..., torch.Tensor], columns: int) -> None:
    for rows in (3, 70, 1001):
        x = torch.randn(rows, columns).bfloat16()
        x[rows // 2, columns // 2], x[1, -1], x[2, 0] = torch.nan, torch.inf, torch.nan
        for y in (x, x[:, 1:]):
            expected = op(y.float(), dim=0).bfloat16()
            torch.testing.assert_close(op(y, dim=0), expected, rtol=0, atol=0, equal_nan=True)
