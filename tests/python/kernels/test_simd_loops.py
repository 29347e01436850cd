"""Kernels that take elements in SIMD registers: every length and rest, both sides of each limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_softmax_of_every_length(dtype: str) -> None:
    loose = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    rng = np.random.default_rng(0)
    for length in [*range(1, 100), 127, 128, 129, 255, 256, 257, 300]:
        x = torch.from_numpy(rng.normal(0, 3, (19, length))).to(getattr(torch, dtype))
        exact = x.double().numpy()
        for dim, y in ((1, x), (0, x.t().contiguous())):
            of = exact if dim else exact.T
            got = torch.softmax(y, dim).double().numpy()
            np.testing.assert_allclose(got, softmax(of, dim), loose, loose * 1e-4)
            logs = torch.log_softmax(y, dim).double().numpy()
            np.testing.assert_allclose(logs, np.log(softmax(of, dim)), loose, loose * 4)


def test_softmax_of_rows_with_infinity_and_nan() -> None:
    for length in (8, 40, 64, 300):
        x = torch.zeros(3, length)
        x[0, 1:] = -math.inf
        x[1, length - 1] = math.nan
        x[2] = -math.inf
        y = torch.softmax(x, 1)
        assert y[0].tolist() == [1.0] + [0.0] * (length - 1)
        assert y[1:].isnan().all()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
def test_transposed_copies_of_every_size(dtype: str) -> None:
    for rows, columns in [(1, 5), (7, 33), (16, 16), (17, 64), (64, 65), (100, 130), (3, 200)]:
        x = torch.arange(rows * columns).reshape(rows, columns).to(getattr(torch, dtype))
        assert np.array_equal(x.t().contiguous().numpy(), x.numpy().T)
        sliced = x[:, ::2].t().contiguous()
        assert np.array_equal(sliced.numpy(), x.numpy()[:, ::2].T)
        shifted = torch.empty(columns, rows + 1, dtype=x.dtype)[:, 1:]
        assert np.array_equal(shifted.copy_(x.t()).numpy(), x.numpy().T)


def test_large_transposed_copies_go_past_the_cache() -> None:
    x = torch.arange(2048 * 2080, dtype=torch.float32).reshape(2048, 2080)
    assert np.array_equal(x.t().contiguous().numpy(), x.numpy().T)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, np.int64, np.complex128])
def test_rows_and_columns_beside_matrices_of_every_width(dtype: type) -> None:
    for width in [*range(1, 40), 64, 255, 256, 257, 600]:
        x, column, row = (
            torch.randint(0, 100, shape).numpy().astype(dtype)
            for shape in [(45, width), (45, 1), (1, width)]
        )
        a, b, c = torch.from_numpy(x), torch.from_numpy(column), torch.from_numpy(row)
        assert np.array_equal((a * b).numpy(), x * column)
        assert np.array_equal((c + b).numpy(), row + column)
        assert np.array_equal((b - a).numpy(), column - x)
        assert np.array_equal((a + c).numpy(), x + row)


@pytest.mark.parametrize("shape", [(7,), (70000,), (300, 5), (3, 1000), (4, 5, 600), (20, 1, 900)])
def test_nonzero_of_every_shape(shape: tuple[int, ...]) -> None:
    for share in (0.0, 0.02, 0.5, 1.0):
        mask = np.random.default_rng(0).random(shape) < share
        found = torch.from_numpy(mask).nonzero()
        assert np.array_equal(found.numpy(), np.argwhere(mask))
        assert np.array_equal(torch.from_numpy(mask.astype(np.float32)).nonzero().numpy(), found)


def test_integers_are_sorted_within_and_beyond_32_bits() -> None:
    for edge in (100, 2**31 - 1, 2**31, 2**62):
        values = np.random.default_rng(0).integers(-edge, edge, 3000)
        x = torch.from_numpy(values)
        assert np.array_equal(x.sort()[0].numpy(), np.sort(values))
        assert np.array_equal(x.sort(descending=True)[0].numpy(), np.sort(values)[::-1])
        assert np.array_equal(x.topk(7)[0].numpy(), np.sort(values)[::-1][:7])
        assert x.median().item() == np.sort(values)[1499]


def test_cumulative_extremes_of_rows_and_columns() -> None:
    for shape in [(9, 30), (1, 50), (700, 3)]:
        x = torch.randint(0, 50, shape).float()
        x[0, 2] = math.nan
        for dim in (0, 1):
            values, positions = x.cummax(dim)
            assert np.array_equal(values.numpy(), np.maximum.accumulate(x.numpy(), dim), True)
            assert np.array_equal(values.numpy(), x.gather(dim, positions).numpy(), True)
            assert np.array_equal(
                x.cummin(dim)[0].numpy(), np.minimum.accumulate(x.numpy(), dim), True
            )
    assert torch.tensor([1.0, 1.0, 0.0, 1.0]).cummax(0)[1].tolist() == [0, 1, 1, 3]


def test_special_functions_of_floats_agree_with_doubles() -> None:
    x = torch.cat([torch.linspace(-8, 12, 4001), torch.logspace(-20, 20, 401)])
    for f in (torch.lgamma, torch.digamma):
        np.testing.assert_allclose(f(x).numpy(), f(x.double()).float().numpy(), 3e-7)
    x = torch.linspace(-1, 1, 5001)
    np.testing.assert_allclose(x.erfinv().numpy(), x.double().erfinv().float().numpy(), 4e-7)
    ends = torch.tensor([0.0, -0.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan])
    inf = math.inf
    assert str(ends.lgamma().tolist()) == str([inf, inf, 0.0, 0.0, inf, inf, inf, math.nan])
    assert ends.digamma()[:2].tolist() == [-inf, inf] and ends.digamma()[5].item() == inf
    assert ends.digamma()[[4, 6, 7]].isnan().all()
    assert ends.erfinv()[[2, 4]].tolist() == [inf, -inf] and ends.erfinv()[[3, 5, 6]].isnan().all()


def test_gelu_at_the_ends() -> None:
    x = torch.tensor([math.inf, 7.0, -7.0, 0.0, math.nan])
    assert str(torch.nn.functional.gelu(x).tolist()) == str([math.inf, 7.0, -0.0, 0.0, math.nan])
    x = torch.linspace(-6, 6, 4001)
    exact = torch.nn.functional.gelu(x.double()).float()
    np.testing.assert_allclose(torch.nn.functional.gelu(x).numpy(), exact.numpy(), 5e-6, 1e-7)


@pytest.mark.parametrize("dtype", ["int16", "bfloat16", "float32", "int64", "complex128"])
def test_operands_in_different_orders_of_memory(dtype: str) -> None:
    for rows, columns in [(8, 8), (9, 65), (33, 40), (64, 64), (70, 130), (129, 257)]:
        x = torch.arange(rows * columns).remainder(100).reshape(rows, columns)
        x = x.to(getattr(torch, dtype))
        transposed = (x.t().contiguous() * 2).t()
        doubles = x.to(torch.complex128).numpy()
        for got, wanted in (
            (x + transposed, 3 * doubles),
            (transposed - x[:, :1], 2 * doubles - doubles[:, :1]),
            (
                torch.where(transposed == 4, x, transposed),
                np.where(doubles == 2, doubles, 2 * doubles),
            ),
            (torch.addcmul(x, transposed, transposed), doubles + 4 * doubles**2),
            (x[::2] + transposed[::2], 3 * doubles[::2]),
        ):
            stored = torch.from_numpy(wanted).real.to(x.dtype)
            assert got.equal(stored), (rows, columns)


def test_copies_to_positions_slightly_further_into_a_page() -> None:
    for ahead in (1, 3, 15, 16, 63, 64, 100):
        for length in (500, 511, 512, 1000, 1021, 5000):
            x = torch.arange(3.0 * 6144).reshape(3, 6144)
            y = torch.zeros(3, 6144)
            y[:, ahead : ahead + length] = x[:, :length]
            wanted = np.zeros((3, 6144), np.float32)
            wanted[:, ahead : ahead + length] = x.numpy()[:, :length]
            assert np.array_equal(y.numpy(), wanted)
            rolled = x.roll(ahead, 1)
            assert np.array_equal(rolled.numpy(), np.roll(x.numpy(), ahead, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_extremes_find_nan_at_every_place_of_a_long_row(dtype: str) -> None:
    x = torch.randn(2, 400).to(getattr(torch, dtype))
    x[1, 3] = -math.inf
    assert x.amax().item() == max(x.flatten().tolist())
    assert x.amin().item() == -math.inf
    for place in range(400):
        y = x.clone()
        y[0, place] = math.nan
        assert y.amax(1).isnan().tolist() == y.amin(1).isnan().tolist() == [True, False]
        assert y[0].amax().isnan() and y.amin().isnan()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_times_vectors_and_small_matrices(dtype: str) -> None:
    half = getattr(torch, dtype)
    loose = 2e-2 if dtype == "bfloat16" else 2e-3
    for m, k, n in [(1, 40, 50), (50, 40, 1), (7, 15, 1), (1, 33, 1), (5, 9, 6), (32, 32, 32)]:
        a, b, c = torch.randn(m, k).to(half), torch.randn(k, n).to(half), torch.randn(m, n).to(half)
        product = a.double() @ b.double()
        for left in (a, a.t().contiguous().t()):
            for right in (b, b.t().contiguous().t()):
                np.testing.assert_allclose((left @ right).double(), product, loose, loose * 4)
                added = torch.addmm(c, left, right, beta=0.5, alpha=2).double()
                np.testing.assert_allclose(added, product * 2 + c.double() / 2, loose, loose * 8)


def test_exponentials_are_right_from_subnormals_to_infinity() -> None:
    x = torch.linspace(-105, 90, 40001)
    y, exact = x.exp().double(), x.double().exp()
    unit = torch.clamp(exact * 2.0**-23, min=2.0**-149)
    finite = exact < 3.4028e38
    assert ((y - exact).abs() / unit)[finite].max() < 1
    assert y[exact > 3.4029e38].isinf().all()
    odd_nan = torch.tensor([0x7FC00003, -0x3FFFFD], dtype=torch.int32).view(torch.float32)
    assert odd_nan.exp().isnan().all()
    infinite = torch.tensor([math.inf, -math.inf]).exp()
    assert infinite.tolist() == [math.inf, 0.0]


def test_gelu_is_near_the_exact_function() -> None:
    x = torch.linspace(-8, 8, 40001)
    exact = torch.nn.functional.gelu(x.double())
    error = (torch.nn.functional.gelu(x) - exact).abs() / x.abs().clamp(min=1)
    assert error.max() < 1.2e-7


def test_cross_entropy_of_long_rows() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for classes in (257, 300, 1024, 1030):
            x = torch.randn(5, classes).to(dtype)
            target = torch.tensor([0, 1, classes - 1, 7, 200])
            got = torch.nn.functional.cross_entropy(x, target, reduction="none").double()
            logs = torch.log_softmax(x.double(), 1)
            wanted = -logs.gather(1, target[:, None])[:, 0]
            np.testing.assert_allclose(got, wanted, 1e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("level", [0.0, 1000.0, -1000.0])
def test_cross_entropy_where_a_late_logit_is_above_all_others(level: float) -> None:
    """Sums are of exponentials relative to one of the first logits, wherever the largest is."""
    for above in (3.0, 12.0, 18.0, 25.0, 80.0, 100.0, 200.0, 354.9, 500.0, 3e4, math.inf):
        x = torch.randn(3, 1030) + level
        x[:, 700] = level + above
        target = torch.tensor([700, 700, 3])
        x.requires_grad_()
        got = torch.nn.functional.cross_entropy(x, target, reduction="none")
        assert not (got < 0).any()
        logs = torch.log_softmax(x.detach().double(), 1)
        wanted = -logs.gather(1, target[:, None])[:, 0]
        np.testing.assert_allclose(got.detach().double(), wanted, 1e-6, 1e-6)
        (slopes,) = torch.autograd.grad(got.sum(), x)
        exact = logs.exp().scatter_add(1, target[:, None], -torch.ones(3, 1, dtype=torch.float64))
        np.testing.assert_allclose(slopes, exact, 1e-5, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy_of_rows_with_logits_that_are_masked(dtype: torch.dtype) -> None:
    x = torch.randn(40, 700).to(dtype)
    x[::2, :300] = -math.inf
    x[1::3, 300:650:2] = -math.inf
    x[5] = -math.inf
    x[6, 2] = x[7, 690] = math.nan
    target = torch.full((40,), 699)
    got = torch.nn.functional.cross_entropy(x, target, reduction="none").double()
    wanted = -torch.log_softmax(x.double(), 1)[:, 699]
    assert got[5:8].isnan().all() and wanted[5:8].isnan().all()
    np.testing.assert_allclose(got, wanted, 1e-6 if dtype == torch.float32 else 1e-2)


def test_gradient_of_cross_entropy_at_every_target() -> None:
    classes = 71
    x = torch.randn(classes, classes, requires_grad=True)
    target = torch.arange(classes)
    torch.nn.functional.cross_entropy(x, target, reduction="sum").backward()
    exact = torch.softmax(x.detach(), 1) - torch.eye(classes)
    np.testing.assert_allclose(x.grad, exact, 1e-5, 1e-6)


@pytest.mark.parametrize("n", [64, 100, 1024, 5000])
def test_layer_norm_of_rows_whose_first_elements_tell_little_of_the_others(n: int) -> None:
    x = torch.randn(6, n)
    x[1] += 1e4
    x[2, :16] = -1e4
    x[3, 16:] = 1e4 + torch.randn(n - 16)
    x[4] = 0.1
    x[5, n - 1] = math.nan
    weight, bias = torch.randn(n), torch.randn(n)
    got = torch.nn.functional.layer_norm(x, [n], weight, bias).double()
    wide = [each.double() for each in (x, weight, bias)]
    exact = torch.nn.functional.layer_norm(wide[0], [n], wide[1], wide[2])
    loose = [1e-5, 2e-3, 1e-5, 1e-5, 1e-4]  # an offset of 1e4 leaves three digits to floats
    for row, error in enumerate(loose):
        np.testing.assert_allclose(got[row], exact[row], error, 2 * error)
    assert got[5].isnan().all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("wanted", ["x", "w", "b", "xw", "xwb"])
def test_layer_norm_gives_the_gradients_that_are_asked_for(threads: int, wanted: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        inputs = {"x": torch.randn(300, 130), "w": torch.randn(130), "b": torch.randn(130)}
        slope = torch.randn(300, 130)

        def gradients(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
            own = {name: value.to(dtype) for name, value in inputs.items()}
            asked = [own[name].requires_grad_() for name in wanted]
            y = torch.nn.functional.layer_norm(own["x"], [130], own["w"], own["b"])
            return torch.autograd.grad(y, asked, slope.to(dtype))

        for got, exact in zip(gradients(torch.float32), gradients(torch.float64), strict=True):
            np.testing.assert_allclose(got, exact, 1e-4, 1e-4)
    finally:
        torch.set_num_threads(before)


def test_columns_gathered_in_several_cuts() -> None:
    for rows, columns in [(3000, 50), (1300, 129), (70000, 3), (400, 1024)]:
        x = torch.randn(rows, columns, dtype=torch.float64)
        np.testing.assert_allclose(x.sum(0), x.numpy().sum(0), 1e-10, 1e-10)
        assert np.array_equal(x.amin(0), x.numpy().min(0))
        strided = torch.empty(columns, 2, dtype=torch.float64)[:, 1]
        torch.sum(x, 0, out=strided)
        np.testing.assert_allclose(strided, x.numpy().sum(0), 1e-10, 1e-10)


def test_scatter_add_of_half_precision_rounds_once() -> None:
    ones = torch.ones(1, 4, dtype=torch.bfloat16)
    positions = torch.zeros(1, 256, dtype=torch.int64)
    small = torch.full((1, 256), 2.0**-9, dtype=torch.bfloat16)
    assert ones.scatter_add(1, positions, small).tolist() == [[1.5, 1.0, 1.0, 1.0]]


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 67])
def test_bfloat16_is_rounded_once_from_float(n: int) -> None:
    """Two elements are computed together: at any length and from any address, NaN included."""
    torch.manual_seed(n)
    x = torch.randn(n + 1).to(torch.bfloat16)
    x[n // 2] = float("nan")
    x[-1] = float("inf")
    for part in (x, x[1:], x[:n]):
        wide = part.float()
        for ours, exact in [
            (part.relu(), wide.relu()),
            (part * 3, wide * 3),
            (part + part.flip(0), wide + wide.flip(0)),
            (torch.lerp(part, part * 2, 0.3), torch.lerp(wide, wide * 2, 0.3)),
        ]:
            assert torch.equal(ours.view(torch.int16), exact.to(torch.bfloat16).view(torch.int16))


@pytest.mark.parametrize("rows", [1, 7, 8, 9])
@pytest.mark.parametrize("n", [1, 127, 128, 129, 300])
def test_scans_of_rows_in_chunks(rows: int, n: int) -> None:
    x = torch.randn(rows, n, dtype=torch.float64, requires_grad=True)
    sums = x.cumsum(1)
    exact = np.cumsum(x.detach().numpy(), 1)
    np.testing.assert_allclose(sums.detach().numpy(), exact, rtol=1e-10, atol=1e-10)
    sums.sum().backward()  # from the end
    assert torch.equal(x.grad, torch.arange(n, 0, -1, dtype=torch.float64).expand(rows, n))
    narrow = x.detach().float().to(torch.bfloat16)
    wide = narrow.double().cumsum(1).float().to(torch.bfloat16)
    assert torch.equal(narrow.cumsum(1), wide)


def test_softmax_of_bfloat16_columns_in_narrow_blocks() -> None:
    x = torch.randn(2000, 100).to(torch.bfloat16)
    for function in (torch.softmax, torch.log_softmax):
        exact = function(x.float(), 0)
        assert torch.allclose(function(x, 0).float(), exact, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("k", [16, 33, 96])
def test_half_matrix_times_vector(dtype: torch.dtype, k: int) -> None:
    a, v = torch.randn(7, k).to(dtype), torch.randn(k, 2).to(dtype)[:, 1]
    exact = (a.double() @ v.double()).to(dtype)
    assert torch.allclose(a @ v, exact, rtol=2e-2, atol=1e-2)
    assert torch.allclose(v @ a.t(), exact, rtol=2e-2, atol=1e-2)


def test_greatest_common_divisors() -> None:
    least = -(2**63)
    a = [0, 0, 12, -12, 2**62, least, least, 7, 1071]
    b = [0, 5, 0, 18, 2**61 * 3, 6, least, -7, 462]
    got = torch.gcd(torch.tensor(a), torch.tensor(b)).tolist()
    assert got == [0, 5, 12, 6, 2**61, 2, least, 7, 21]


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "float64", "complex128"])
def test_where_takes_whole_elements(dtype: str) -> None:
    """Any byte but zero is true, also in a bool that was a view of other bytes."""
    kind = getattr(torch, dtype)
    for n in (1, 15, 64, 131):
        a, b = torch.arange(n).to(kind), (torch.arange(n) + 100).to(kind)
        mask = torch.tensor([0, 1, 2, 128, 255], dtype=torch.uint8)[torch.arange(n) % 5]
        for condition in (mask != 0, mask.view(torch.bool)):
            want = [y if i % 5 == 0 else x for i, (x, y) in enumerate(zip(a.tolist(), b.tolist()))]
            assert torch.where(condition, a, b).tolist() == want
            assert b.masked_fill(condition, 7).tolist() == [
                y if i % 5 == 0 else 7 for i, y in enumerate(b.tolist())
            ]


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.float32, np.int64, np.complex128])
@pytest.mark.parametrize("lines", [1, 255, 1000, 70000])
def test_short_rows_are_joined_line_by_line(dtype: type, lines: int) -> None:
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.integers(0, 90, (lines, width)).astype(dtype) for width in (1, 1, 3, 4))
    x, y, z, four = (torch.from_numpy(array) for array in (a, b, c, d))
    assert np.array_equal(torch.cat([x, four], 1).numpy(), np.concatenate([a, d], 1))
    assert np.array_equal(torch.cat([x, y], 1).numpy(), np.concatenate([a, b], 1))
    assert np.array_equal(torch.cat([x, z, y], 1).numpy(), np.concatenate([a, c, b], 1))
    assert np.array_equal(torch.stack([x, y], 2).numpy(), np.stack([a, b], 2))
    assert np.array_equal(torch.cat([four, four], 1).numpy(), np.concatenate([d, d], 1))
    columns = [array[:, i] for array in (a, c) for i in range(array.shape[1])]
    for count in (2, 3, 4):
        some = [torch.from_numpy(array.copy()) for array in columns[:count]]
        assert np.array_equal(torch.stack(some, -1).numpy(), np.stack(columns[:count], -1))


def test_values_before_rows_of_sums_and_products() -> None:
    for width in (3, 40, 300):
        column, row = torch.randn(50, 1), torch.randn(width)
        assert np.array_equal((column + row).numpy(), column.numpy() + row.numpy())
        assert np.array_equal(torch.outer(column[:, 0], row).numpy(), column.numpy() * row.numpy())
        assert np.array_equal((column[0] * row).numpy(), column[0].numpy() * row.numpy())


def test_bytes_are_shifted_by_any_number() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    values, positions = every[:, None].expand(256, 256).contiguous(), every.expand(256, 256)
    wide, count = values.int(), positions.int().clamp(max=8)
    assert torch.equal(values << positions, (wide << count).to(torch.uint8))
    assert torch.equal(values >> positions, (wide >> count).to(torch.uint8))
    assert torch.equal((every << 3).int(), (every.int() << 3) % 256)
    assert (every << 8).tolist() == (every >> 200).tolist() == [0] * 256
