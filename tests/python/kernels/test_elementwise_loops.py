"""Elementwise kernels over every mix of layouts, against NumPy, and the numbers of formulas that
have a fast path.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

DTYPES = [np.float32, np.float64, np.complex128, np.int64, np.int16]


def operand(rng: np.random.Generator, shape: tuple, dtype: type) -> tuple:
    """An array and a tensor of the same values, some dimensions broadcast, in some layout."""
    sizes = tuple(size if rng.random() < 0.7 else 1 for size in shape)
    values = rng.standard_normal(sizes) * 5
    array = (values + 1j * values[::-1] if dtype is np.complex128 else values).astype(dtype)
    order = rng.permutation(len(sizes))
    tensor = torch.from_numpy(np.ascontiguousarray(array.transpose(order)))
    tensor = tensor.permute(*np.argsort(order).tolist())
    if rng.random() < 0.3:
        spaced = torch.zeros(tuple(2 * size for size in sizes), dtype=tensor.dtype)
        window = spaced[tuple(slice(None, None, 2) for _ in sizes)]
        tensor = window.copy_(tensor)
    return array, tensor


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [5, 70])
def test_every_mix_of_layouts(dtype: type, largest: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(150 if largest == 5 else 15):
        shape = tuple(int(size) for size in rng.integers(1, largest, rng.integers(1, 4)))
        (a, x), (b, y), (c, z) = (operand(rng, shape, dtype) for _ in range(3))
        choice = rng.random(shape) > 0.5
        mask = torch.from_numpy(choice)
        pairs = [
            (x + y, a + b),
            (x * 3, a * dtype(3)),
            (3 - x, dtype(3) - a),
            (-x, -a),
            (x == y, a == b),
            (torch.where(mask, x, y), np.where(choice, a, b)),
            (torch.addcmul(x, y, z), a + b * c),
            (x.contiguous(), a),
            (x.to(torch.complex128), a.astype(np.complex128)),
        ]
        if dtype is not np.complex128:
            pairs += [(torch.maximum(x, y), np.maximum(a, b)), (x.clamp(-1, 2), a.clip(-1, 2))]
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(2300, 2048), (130, 190, 180), (67, 9, 130, 64)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_large_operands_of_different_orders(shape: tuple, dtype: type) -> None:
    rng = np.random.default_rng(2)
    a, b, c = (rng.integers(-99, 99, shape).astype(dtype) for _ in range(3))
    z = torch.from_numpy(c)
    for _ in range(3):
        order, other = (rng.permutation(len(shape)) for _ in range(2))
        transposed = np.ascontiguousarray(a.transpose(order))
        x = torch.from_numpy(transposed).permute(*np.argsort(order).tolist())
        transposed = np.ascontiguousarray(b.transpose(other))
        y = torch.from_numpy(transposed).permute(*np.argsort(other).tolist())
        column = z.select(-1, 3).unsqueeze(-1)
        pairs = [
            (z + x, c + a),
            (x * y, a * b),
            (torch.addcmul(x, y, z), a + b * c),
            (torch.where(x > y, z, 7), np.where(a > b, c, 7)),
            (torch.addcmul(y, z, column), b + c * c[..., 3:4]),
            (x.clone().add_(y), a + b),
            (torch.add(z, x, out=torch.empty_like(y)), a + c),
        ]
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rests_of_divisions_are_exact(dtype: type) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, 40000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.array(
        [0.0, -0.0, 1, -1, 0.1, -0.1, np.inf, -np.inf, np.nan, 1e30, 1e-40, 7], dtype
    )
    near = rng.standard_normal(40000) * 10  # no huge quotient among these
    for a, b in [
        (bits[:20000], bits[20000:]),
        (np.repeat(special, 12), np.tile(special, 12)),
        (near[:20000], near[20000:]),
        (np.round(near[:20000]), np.round(near[20000:]) / 10),
    ]:
        a, b = a.astype(dtype), b.astype(dtype)
        x, y = torch.from_numpy(a), torch.from_numpy(b)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(torch.fmod(x, y).numpy(), np.fmod(a, b))
            if dtype is np.float64:  # NumPy's float32 remainder rounds twice
                np.testing.assert_array_equal(torch.remainder(x, y).numpy(), np.remainder(a, b))


def test_erf_and_gelu_are_accurate() -> None:
    special = pytest.importorskip("scipy.special")
    values = np.concatenate([np.linspace(-8, 8, 100001), np.geomspace(1e-30, 1, 1000)])
    x = torch.from_numpy(values.astype(np.float32))
    exact = special.erf(x.double().numpy())
    np.testing.assert_allclose(torch.erf(x).numpy(), exact, rtol=2.5e-7, atol=0)
    half = x.double().numpy() * special.ndtr(x.double().numpy())
    gelu = torch.nn.functional.gelu(x).numpy()
    np.testing.assert_allclose(gelu, half, rtol=1e-5, atol=5e-7)
    edges = torch.nn.functional.gelu(torch.tensor([float("inf"), float("nan"), 100.0, -100.0]))
    assert edges[0] == float("inf") and edges[1].isnan() and edges[2] == 100 and edges[3] == 0


def test_slope_of_gelu_is_accurate() -> None:
    near_zero = torch.linspace(-3e-4, 3e-4, 1001)
    x = torch.cat([torch.linspace(-14, 14, 100_001), near_zero, torch.zeros(1)])
    slopes = []
    for dtype in (torch.float32, torch.float64):
        leaf = x.clone().to(dtype).requires_grad_()
        torch.nn.functional.gelu(leaf).sum().backward()
        assert leaf.grad is not None
        slopes.append(leaf.grad.numpy())
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=0, atol=3e-7)


def test_transposed_copies_of_every_element_size() -> None:
    for dtype in (torch.uint8, torch.int16, torch.float32, torch.float64, torch.complex128):
        for rows, columns in ((1, 100), (17, 33), (64, 64), (100, 65), (130, 257)):
            x = torch.arange(rows * columns).to(dtype).view(rows, columns)
            np.testing.assert_array_equal(x.t().contiguous().numpy(), x.numpy().T)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("rows", [1, 2, 3, 6, 7])
def test_copies_and_triangles_of_many_small_matrices(dtype: type, rows: int) -> None:
    rng = np.random.default_rng(rows)
    for count, columns in ((0, 3), (15, 3), (16, 2), (1037, 5), (3000, 6), (9001, 4)):
        a = rng.integers(1, 100, (count, rows, columns)).astype(dtype)
        x = torch.from_numpy(a)
        np.testing.assert_array_equal(x.mT.contiguous().numpy(), a.swapaxes(1, 2))
        np.testing.assert_array_equal(x[::2].mT.contiguous().numpy(), a[::2].swapaxes(1, 2))
        wide = torch.zeros(count, columns, rows + 2, dtype=x.dtype)
        wide[:, :, 1:-1] = x.mT
        np.testing.assert_array_equal(wide[:, :, 1:-1].numpy(), a.swapaxes(1, 2))
        assert not wide[:, :, 0].any() and not wide[:, :, -1].any()
        np.testing.assert_array_equal(x[:, :1].expand_as(x).mT.contiguous().mT, a[:, :1] + 0 * a)
        for diagonal in (-9, -1, 0, 1, 9):
            np.testing.assert_array_equal(x.tril(diagonal).numpy(), np.tril(a, diagonal))
            np.testing.assert_array_equal(x.clone().triu_(diagonal).numpy(), np.triu(a, diagonal))


# Too large for the caches; the rows of the copy are whole lines of memory, or are not, and no whole
# number of squares.
@pytest.mark.parametrize(
    ("dtype", "columns"),
    [(np.uint8, 8256), (np.int16, 4128), (np.int16, 4131), (np.float32, 2064), (np.int64, 1032)],
)
def test_large_transposed_copies(dtype: type, columns: int) -> None:
    a = np.random.default_rng(3).integers(-(1 << 30), 1 << 30, (columns, 2051)).astype(dtype)
    np.testing.assert_array_equal(torch.from_numpy(a).t().contiguous().numpy(), a.T)


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.int64])
def test_large_rows_are_moved_whole(dtype: type) -> None:
    rng = np.random.default_rng(4)
    columns = (1 << 13) // np.dtype(dtype).itemsize + 3
    a = rng.integers(-(1 << 30), 1 << 30, (2100, columns)).astype(dtype)
    x, positions = torch.from_numpy(a), rng.integers(0, 2100, 2100)
    rows = torch.from_numpy(positions)
    for ours, theirs in (
        (x[rows], a[positions]),
        (x[:, 1:].index_select(0, rows), a[positions, 1:]),
        (x.index_select(1, rows % columns), a[:, positions % columns]),
        (x.flip(0), a[::-1]),
        (x[:, :-3].flip(0), a[::-1, :-3]),
        (x.tril(-5), np.tril(a, -5)),
        (x.triu(1), np.triu(a, 1)),
        (x[:1] + x[:, :1], a[:1] + a[:, :1]),
    ):
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(2080, 4160), (2051, 4163)])
def test_large_operands_of_16_bits_of_different_orders(dtype: torch.dtype, shape: tuple) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(shape[::-1]).to(dtype).t(), torch.randn(shape).to(dtype)
    assert torch.equal(x + y, (x.float() + y.float()).to(dtype))
    assert torch.equal(torch.where(x > y, y, x), torch.minimum(x, y))


# Beyond the caches, in tiles of which the last ones are not whole.
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64, np.complex128])
def test_operands_of_different_orders_beyond_the_caches(dtype: type) -> None:
    rng = np.random.default_rng(5)
    shape = (2080, (1 << 24) // 2080 // np.dtype(dtype).itemsize + 37)
    a = rng.integers(1, 100, shape[::-1]).astype(dtype).T
    b, column = rng.integers(1, 100, shape).astype(dtype), a[:, :1]
    x, y = torch.from_numpy(a.T).t(), torch.from_numpy(b)
    np.testing.assert_array_equal((x + y).numpy(), a + b)
    np.testing.assert_array_equal((y[:, 1:] - x[:, 1:]).numpy(), b[:, 1:] - a[:, 1:])
    np.testing.assert_array_equal(torch.addcmul(x, y, x[:, :1]).numpy(), a + b * column)
    out = torch.zeros(shape[0], shape[1] + 5, dtype=x.dtype)
    torch.mul(x, y, out=out[:, 2:-3])
    np.testing.assert_array_equal(out[:, 2:-3].numpy(), a * b)
    assert not out[:, :2].any() and not out[:, -3:].any()
    every = torch.zeros(shape[0], 2 * shape[1], dtype=x.dtype)[:, ::2]
    np.testing.assert_array_equal(torch.add(x, y, out=every).numpy(), a + b)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("n", [1, 7, 16, 33, 70001])
def test_arrays_of_complex_numbers_are_computed_part_by_part(dtype, n) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(n, dtype=dtype), torch.randn(n, dtype=dtype)
    ar, ai, br, bi = a.real.double(), a.imag.double(), b.real.double(), b.imag.double()
    for result, real, imag in (
        (a + b, ar + br, ai + bi),
        (a - b, ar - br, ai - bi),
        (a * b, ar * br - ai * bi, ar * bi + ai * br),
        (a.clone().mul_(b), ar * br - ai * bi, ar * bi + ai * br),
    ):
        torch.testing.assert_close(result, torch.complex(real, imag).to(dtype))


def test_sums_and_quotients_are_computed_where_out_says() -> None:
    a, b = np.arange(1.0, 13).reshape(3, 4), np.arange(2.0, 6)
    x, row = torch.from_numpy(a), torch.from_numpy(b)
    for op, exact in [(torch.add, a + b), (torch.sub, a - b), (torch.div, a / b)]:
        out = torch.zeros(4, 3, dtype=torch.float64).t()
        assert op(x, row, out=out) is out
        np.testing.assert_array_equal(out.numpy(), exact)
        assert out.stride() == (1, 3)
        narrow = torch.zeros(3, 4)
        np.testing.assert_array_equal(op(x, row, out=narrow).numpy(), exact.astype(np.float32))
        with pytest.raises(RuntimeError, match="single memory location"):
            op(x[:2], row, out=x[1:])
        with pytest.raises(RuntimeError, match="cast"):
            op(x, row, out=torch.zeros(3, 4, dtype=torch.int64))
    # Those that the direct form does not take.
    out = torch.zeros(3, 4, dtype=torch.float64)
    np.testing.assert_array_equal(torch.add(x, row, alpha=3, out=out).numpy(), a + 3 * b)
    np.testing.assert_array_equal(torch.div(x, row, rounding_mode="floor", out=out).numpy(), a // b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 40])
def test_a_hypotenuse_is_infinite_beside_infinity(dtype: torch.dtype, count: int) -> None:
    infinite = torch.full((count,), -torch.inf, dtype=dtype)
    for other in (torch.nan, 0.0, 3.0, torch.inf):
        same = torch.full((count,), other, dtype=dtype)
        assert (torch.hypot(infinite, same) == torch.inf).all()
        assert (torch.hypot(same, infinite) == torch.inf).all()
    assert torch.hypot(infinite * 0, infinite.sign()).isnan().all()
