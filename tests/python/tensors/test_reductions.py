"""Reductions, scans and sorts beyond the samples: sizes, layouts, NaN, accuracy, threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch

NAN, INF = math.nan, math.inf
SHAPES = [
    (1000, 37),
    (37, 1000),
    (5, 70000),
    (70000, 5),
    (3, 4, 257),
    (130, 1, 130),
    (9, 300, 3, 2),
]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, 2.0, shape)


def subsets(rank: int) -> list[tuple[int, ...]]:
    return [tuple(d for d in range(rank) if bits >> d & 1) for bits in range(1, 1 << rank)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ["as it is", "reversed", "sliced"])
def test_every_layout_and_every_dimension(shape: tuple[int, ...], order: str) -> None:
    values = numbers(*shape)
    tensor = torch.from_numpy(values.astype(np.float32))
    if order == "reversed":
        tensor = tensor.permute(*range(len(shape) - 1, -1, -1))
    elif order == "sliced":
        tensor = tensor[1:, ..., ::2]
    exact = tensor.numpy().astype(np.float64)
    for dims in subsets(exact.ndim):
        np.testing.assert_allclose(tensor.sum(dims).numpy(), exact.sum(dims), 1e-5, 1e-3)
        np.testing.assert_allclose(tensor.mean(dims).numpy(), exact.mean(dims), 1e-5, 1e-5)
        np.testing.assert_array_equal(tensor.amax(dims).numpy(), exact.max(dims).astype(np.float32))
        np.testing.assert_allclose(tensor.var(dims).numpy(), exact.var(dims, ddof=1), 1e-5)
        np.testing.assert_array_equal(tensor.gt(0).any(dims).numpy(), (exact > 0).any(dims))
    for dim in range(exact.ndim):
        np.testing.assert_array_equal(tensor.argmax(dim).numpy(), exact.argmax(dim))
        values_, indices = tensor.min(dim)
        np.testing.assert_array_equal(values_.numpy(), exact.min(dim).astype(np.float32))
        np.testing.assert_array_equal(indices.numpy(), exact.argmin(dim))
        np.testing.assert_allclose(tensor.cumsum(dim).numpy(), exact.cumsum(dim), 1e-5, 1e-2)
        np.testing.assert_array_equal(tensor.sort(dim)[0].numpy(), np.sort(tensor.numpy(), dim))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_add_up_without_overflow(dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 120, (70000, 3))
    tensor = torch.tensor(values.tolist()).to(getattr(torch, dtype))
    assert tensor.sum().item() == values.sum()
    assert tensor.sum(0).tolist() == values.sum(0).tolist()
    assert tensor.t().contiguous().sum(1).tolist() == values.sum(0).tolist()
    assert tensor.count_nonzero(0).tolist() == np.count_nonzero(values, 0).tolist()


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_every_length(dtype: str) -> None:
    """Rows are taken in lanes, registers and rests; no length may lose or repeat an element."""
    lengths = [
        *range(1, 300),
        *(base + rest for base in (2048, 4096, 8192) for rest in range(0, 260, 8)),
    ]
    rng = np.random.default_rng(0)
    for length in lengths:
        values = rng.integers(0, 2, length)
        values[rng.integers(length)] = 1
        x = torch.from_numpy(values).to(getattr(torch, dtype))
        strided = torch.stack([x, torch.ones_like(x)], 1)[:, 0]
        # What the sum is in this dtype: float16 has no odd numbers beyond 2048.
        total = values.sum().astype(dtype) if "float" in dtype else values.sum()
        for y in (x, strided):
            assert y.sum().item() == total, length
            assert y.count_nonzero().item() == values.sum(), length
            assert y.max().item() == 1 and y.min().item() == values.min(), length
            assert y.all().item() == values.all() and y.any().item(), length
            assert y.prod().item() == values.min(), length
            assert y.max(0)[1].item() == values.argmax(), length
            if y.is_floating_point():
                assert y.norm(1).item() == total, length
                assert y.mean().item() == pytest.approx(values.mean(), rel=1e-3), length


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32"])
def test_every_length_of_short_rows(dtype: str) -> None:
    """Rows are taken several at a time, and their lanes folded together."""
    rng = np.random.default_rng(0)
    for length in [*range(1, 140), 255, 256, 257]:
        values = rng.integers(0, 2, (37, length)) * (rng.random((37, 1)) < 0.5)
        values[::3] = 1
        x = torch.from_numpy(values).to(getattr(torch, dtype))
        strided = torch.stack([x, torch.ones_like(x)], 2)[:, :, 0]
        for y in (x, strided, x.t().contiguous().t()):
            assert y.sum(1).tolist() == values.sum(1).tolist(), length
            assert y.count_nonzero(1).tolist() == values.sum(1).tolist(), length
            assert y.amax(1).tolist() == values.max(1).tolist(), length
            assert y.amin(1).tolist() == values.min(1).tolist(), length
            assert y.any(1).tolist() == values.any(1).tolist(), length
            assert y.all(1).tolist() == values.all(1).tolist(), length
            assert y.prod(1).tolist() == values.min(1).tolist(), length


def test_extremes_of_rows_keep_nan() -> None:
    for length in (3, 16, 40, 64, 100, 300):
        x = torch.randn(33, length)
        for row in range(33):
            x[row, row % length] = float("nan") if row % 2 else 9.0
        for y in (x, x.double(), x.half()):
            assert y.amax(1).isnan().tolist() == [bool(row % 2) for row in range(33)]
            assert y.amin(1).isnan().tolist() == [bool(row % 2) for row in range(33)]
            assert y.amax(1)[::2].tolist() == [9.0] * 17


def test_long_sums_stay_accurate() -> None:
    tenth = float(np.float32(0.1))
    assert torch.full((5_000_000,), 0.1).sum().item() == pytest.approx(tenth * 5_000_000, rel=1e-6)
    assert torch.full((300_000, 7), 0.1).sum(0).tolist() == pytest.approx(
        [tenth * 300_000] * 7, rel=1e-6
    )
    assert torch.full((3, 400_000), 0.1).mean(1).tolist() == pytest.approx([tenth] * 3, rel=1e-6)
    assert torch.ones(5000, dtype=torch.float16).sum().item() == 5000
    assert torch.ones(1000, dtype=torch.bfloat16).cumsum(0)[-1].item() == 1000
    shifted = torch.tensor([1e6, 1e6 + 1, 1e6 + 2])
    assert shifted.var().item() == 1.0


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: x.mean(1),
        lambda x: x.var(0),
        lambda x: x.norm(),
        lambda x: x.softmax(1),
        lambda x: x.cumsum(0),
        lambda x: x.sort(1)[1],
    ]
    x = torch.from_numpy(numbers(3000, 200).astype(np.float32))
    threads = torch.get_num_threads()
    try:
        for function in functions:
            torch.set_num_threads(1)
            alone = function(x)
            torch.set_num_threads(4)
            assert torch.equal(function(x), alone)
    finally:
        torch.set_num_threads(threads)


def same(found: Any, wanted: list[Any]) -> bool:
    return np.array_equal(np.array(found.tolist()), np.array(wanted), equal_nan=True)


def test_nan_is_the_largest_and_the_smallest() -> None:
    x = torch.tensor([[1.0, NAN, 3.0, NAN], [4.0, 2.0, INF, -INF]])
    assert same(x.max(1)[0], [NAN, INF]) and x.max(1)[1].tolist() == [1, 2]
    assert same(x.min(1)[0], [NAN, -INF]) and x.min(1)[1].tolist() == [1, 3]
    assert same(x.amax(0), [4.0, NAN, INF, NAN])
    assert x.argmax().item() == 1 and math.isnan(x.max().item())
    assert same(x.nansum(1), [4.0, NAN]) and same(x.t().max(0)[1], [1, 2])
    values, indices = x.sort(1)
    assert same(values, [[1.0, 3.0, NAN, NAN], [-INF, 2.0, 4.0, INF]])
    assert indices.tolist() == [[0, 2, 1, 3], [3, 1, 0, 2]]
    assert same(x.sort(1, True)[0], [[NAN, NAN, 3.0, 1.0], [INF, 4.0, 2.0, -INF]])
    assert same(x.topk(2, 1)[0], [[NAN, NAN], [INF, 4.0]])
    assert same(x.median(1)[0], [NAN, 2.0]) and same(x.nanmedian(1)[0], [1.0, 2.0])
    assert same(x.cummax(1)[0], [[1.0, NAN, NAN, NAN], [4.0, 4.0, INF, INF]])
    assert x.cummax(1)[1].tolist() == [[0, 1, 1, 3], [0, 0, 2, 2]]


def test_a_sort_is_stable_in_both_directions() -> None:
    keys = np.random.default_rng(0).integers(0, 7, 3000)
    x = torch.tensor(keys.tolist(), dtype=torch.float32)
    assert x.argsort().tolist() == np.argsort(keys, kind="stable").tolist()
    assert x.argsort(descending=True).tolist() == np.argsort(-keys, kind="stable").tolist()
    zeros = torch.tensor([0.0, -0.0, 0.0, -0.0])
    assert zeros.argsort().tolist() == [0, 1, 2, 3]


def test_equal_elements_share_the_gradient_of_an_extreme() -> None:
    x = torch.tensor([1.0, 3.0, 3.0], requires_grad=True)
    assert torch.autograd.grad(x.amax(), x)[0].tolist() == [0.0, 0.5, 0.5]
    assert torch.autograd.grad(x.max(), x)[0].tolist() == [0.0, 0.5, 0.5]
    assert torch.autograd.grad(x.max(0)[0], x)[0].tolist() == [0.0, 1.0, 0.0]


def test_products_pass_gradients_around_zeros() -> None:
    for zeros in ([0.0, 2.0, 3.0], [0.0, 2.0, 0.0]):
        x = torch.tensor(zeros, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda v: v.prod(), (x,))
        assert torch.autograd.gradcheck(lambda v: v.cumprod(0), (x,))
        assert torch.autograd.gradgradcheck(lambda v: v.cumprod(0), (x,))
        assert torch.autograd.gradgradcheck(lambda v: v.prod(), (x,))


def test_softmax_of_extreme_rows() -> None:
    x = torch.tensor(
        [[1000.0, 0.0, -1000.0], [-INF, 0.0, 0.0], [-INF, -INF, -INF], [NAN, 0.0, 0.0]]
    )
    wanted = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [NAN] * 3, [NAN] * 3]
    assert same(x.softmax(1), wanted) and same(x.t().softmax(0).t(), wanted)
    assert same(x.log_softmax(1)[0], [0.0, -1000.0, -2000.0])
    for size in (1, 7, 16, 17, 64, 100, 1000):
        row = numbers(3, size)
        exact = np.exp(row) / np.exp(row).sum(1, keepdims=True)
        found = torch.from_numpy(row.astype(np.float32)).softmax(1).numpy()
        np.testing.assert_allclose(found, exact, 1e-5)


def test_results_have_names() -> None:
    x = torch.tensor([[2.0, 1.0], [0.0, 3.0]])
    for name, result in {
        "max": x.max(1),
        "min": x.min(1),
        "sort": x.sort(),
        "topk": x.topk(1),
        "kthvalue": x.kthvalue(1),
        "median": x.median(0),
        "cummax": x.cummax(0),
    }.items():
        assert type(result).__name__ == name
        assert result.values is result[0] and result.indices is result[1]
    assert x.aminmax().min.item() == 0 and x.aminmax().max.item() == 3
    out = (torch.empty(0), torch.empty(0, dtype=torch.int64))
    assert torch.max(x, 1, out=out).values is out[0] and out[1].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (IndexError, "Dimension out of range", lambda x: x.sum(3)),
        (RuntimeError, "appears multiple times", lambda x: x.sum((0, -2))),
        (RuntimeError, "Expected reduction dim to be specified", lambda x: x[:0].max()),
        (IndexError, "Expected reduction dim 0 to have non-zero size", lambda x: x[:0].max(0)),
        (NotImplementedError, "could not infer output dtype", lambda x: x.long().mean()),
        (NotImplementedError, "only support floating point", lambda x: x.long().var()),
        (RuntimeError, "selected index k out of range", lambda x: x.topk(5)),
        (RuntimeError, "k out of range", lambda x: x.kthvalue(0)),
        (RuntimeError, "did not match", lambda x: torch.isclose(x, x.double())),
        (RuntimeError, "only supports bool", lambda x: torch.any(x, 0, out=torch.empty(0))),
        (RuntimeError, "not expandable", lambda x: x.sum_to_size(3, 5)),
        (RuntimeError, "does not have an identity", lambda x: x[:0].norm(INF)),
    ],
)
def test_errors(error: type[Exception], message: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(error, match=message):
        call(torch.arange(6.0).reshape(2, 3))


def test_bool_of_all_elements_keeps_dimensions() -> None:
    assert torch.all(torch.ones(2, 3), keepdim=True).shape == (1, 1)
    assert torch.any(torch.zeros(2, 3), keepdim=True).tolist() == [[False]]


def test_products_along_no_dimension_of_a_list() -> None:
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    assert torch.equal(torch.masked.prod(x, dim=[]), x) and torch.masked.prod(x, dim=()) == 720
    assert torch.masked.prod(x, dim=(1, 0)) == 720
    with pytest.raises(RuntimeError, match="each dimension can be given once"):
        torch.masked.prod(x, dim=(0, 0))
    with pytest.raises(IndexError, match="out of range"):
        torch.masked.prod(x, dim=2)


def test_an_output_has_the_dtype_that_was_asked_for() -> None:
    x = torch.ones(3)
    for function in (torch.cumsum, torch.mean, torch.nansum):
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float32"):
            function(x, 0, dtype=torch.float32, out=torch.empty(0, dtype=torch.float64))


def test_histograms_of_nothing() -> None:
    hist, edges = torch.histogramdd(torch.ones(3, 0), [])
    assert hist == 0 and edges == ()
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(torch.arange(4), bins=4, min=3, max=1)


def test_a_histogram_takes_no_range_for_that_of_its_elements() -> None:
    x = torch.tensor([1.0, 2.0, 4.0])
    hist, edges = torch.histogram(x, 3, range=None)
    assert hist.tolist() == [1, 1, 1] and edges.tolist() == [1, 2, 3, 4]
    assert torch.histogram(x, bins=2, range=(0, 4)).hist.tolist() == [1, 2]


def test_logarithms_of_sums_of_infinite_complex_numbers() -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor([complex(inf, 0), complex(inf, 1)])
    torch.testing.assert_close(
        torch.logcumsumexp(x, 0), torch.tensor([complex(inf, 0), complex(inf, math.pi / 4)])
    )
    y = torch.logcumsumexp(torch.tensor([complex(1, nan), complex(-inf, 0)]), 0)
    assert bool(y.real.isnan().all()) and bool(y.imag.isnan().all())


def test_integrals_take_points_or_steps() -> None:
    y = torch.tensor([1.0, 3.0])
    assert float(torch.trapezoid(y)) == 2 and float(torch.trapezoid(y, dx=2)) == 4
    for function in (torch.trapezoid, torch.cumulative_trapezoid):
        for arguments in ({"x": y, "dx": 2}, {"dx": "wide"}, {"x": 3}):
            with pytest.raises(TypeError, match="invalid combination"):
                function(y, **arguments)
        with pytest.raises(TypeError, match="must be Tensor, not list"):
            function([1, 2])


def test_slices_within_bounds_keep_their_gradient_whatever_their_norm() -> None:
    x = torch.tensor([[1.0, float("nan")], [2.0, 3.0], [0.1, 0.2]], requires_grad=True)
    torch.renorm(x, 2, 0, 1.0).sum().backward()
    assert x.grad is not None
    assert x.grad[0].tolist() == [1, 1] and x.grad[2].tolist() == [1, 1]
    assert bool(x.grad[1].isfinite().all())


@pytest.mark.parametrize("width", [7, 8, 13, 64, 128, 129])
def test_results_of_many_short_runs(width: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 5, 4, 6, width))
    values[1, 2, 3, 4, width // 2] = np.nan
    x = torch.from_numpy(values)
    for dims in [(1, 4), (2, 4), (0, 2, 4), (1, 3, 4), (0, 1, 2, 3, 4)]:
        for ours, theirs in [
            (x.sum(dims), values.sum(dims)),
            (x.nansum(dims), np.nansum(values, dims)),
            (x.amax(dims), values.max(dims)),
            (x.var(dims), values.var(dims, ddof=1)),
            (x.norm(dim=dims), np.sqrt((values**2).sum(dims))),
            ((x > 2).any(dims), (values > 2).any(dims)),
            (x.nan_to_num().logsumexp(dims), np.log(np.exp(np.nan_to_num(values)).sum(dims))),
        ]:
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)


def test_sums_along_an_expanded_dimension() -> None:
    x = torch.randn(5, 300, dtype=torch.float64)
    torch.testing.assert_close(x.expand(7, 5, 300).sum(0), 7 * x)
    torch.testing.assert_close(x.expand(7, 5, 300).sum((0, 1)), 7 * x.sum(0))
    assert torch.equal(x.expand(7, 5, 300).amax(0), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float64])
@pytest.mark.parametrize("k", [1, 5, 100, 128, 129, 300])
def test_the_largest_of_rows_in_every_order(k: int, dtype: torch.dtype) -> None:
    for n in (300, 1000, 5000):
        rising = torch.arange(n, dtype=dtype)
        rows = torch.stack([rising, rising.flip(0), rising[torch.randperm(n)], rising % 7])
        for largest in (True, False):
            values, positions = rows.topk(k, largest=largest)
            assert torch.equal(values, rows.sort(descending=largest, stable=True)[0][:, :k])
            assert torch.equal(rows.gather(1, positions), values)
            assert all(len(set(row)) == k for row in positions.tolist())


def test_dimensions_to_count_along_may_be_given_one_by_one_to_the_method():
    x = torch.tensor([[[1, 0], [2, 3]], [[0, 0], [4, 0]]])
    assert x.count_nonzero(0, 1).tolist() == x.count_nonzero((0, 1)).tolist() == [3, 1]
    assert torch.count_nonzero(x, (0, 1)).tolist() == torch.count_nonzero(x, [1, 0]).tolist()
    assert x.count_nonzero().item() == x.count_nonzero(dim=None).item() == 4
    with pytest.raises(TypeError):
        torch.count_nonzero(x, 0, 1)


def test_a_deviation_of_zero_has_tangents_of_zero():
    x = torch.tensor([[1.0, 2.0], [1.0, 4.0]])
    _, tangent = torch.func.jvp(lambda a: a.std(0), (x,), (x,))
    assert tangent.tolist() == [0, pytest.approx(2**0.5)]
    second = torch.func.hessian(lambda a: a.std(0).sum())(x)
    assert second.isfinite().all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rest", [1e6, -3.0])
def test_variances_do_not_depend_on_what_comes_first(dtype: str, rest: float) -> None:
    """The first elements, from which distances are taken, may lie far from all the others."""
    values = np.random.default_rng(0).standard_normal(400_000).astype(dtype) + np.array(rest, dtype)
    values[:1000] = 0
    exact = values.astype(np.longdouble)
    limit = 1e-6 if dtype == "float32" else 1e-14
    for shape, dim in ((-1,), None), ((-1, 8), 0), ((8, -1), 1), ((100, -1, 40), (0, 2)):
        found, mean = torch.var_mean(torch.tensor(values).view(shape), dim=dim)
        wanted = exact.reshape(shape).var(dim, ddof=1)
        np.testing.assert_allclose(found.numpy(), wanted.astype("float64"), limit)
        np.testing.assert_allclose(
            mean.numpy(), exact.reshape(shape).mean(dim).astype("float64"), 1e-6
        )


def test_variances_of_infinite_and_of_equal_elements() -> None:
    for shape, dim in ((300,), None), ((300, 5), 0), ((5, 300), 1):
        x = torch.full(shape, 0.1)
        assert not torch.var_mean(x, dim=dim)[0].any()
        x[(0,) * x.dim()] = math.inf
        found, mean = torch.var_mean(x, dim=dim)
        assert math.isnan(found.flatten()[0]) and mean.flatten()[0] == math.inf


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(5, 4, 0, 3), (5, 0, 4, 3), (5, 0, 4000, 3)])
def test_nothing_is_read_along_several_dimensions_of_which_one_is_empty(
    sizes: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.empty(sizes, dtype=dtype)
    for transposed in (x, x.transpose(1, 2)):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            variance, mean = torch.var_mean(transposed, (1, 2))
        assert variance.isnan().all() and mean.isnan().all() and mean.shape == (5, 3)
        assert transposed.sum((1, 2)).eq(0).all() and transposed.mean((1, 2)).isnan().all()
        assert torch.linalg.vector_norm(transposed, 3, (1, 2)).eq(0).all()


@pytest.mark.parametrize("n", [0, 1, 3, 5000])
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64"]
)
def test_equal_tensors(dtype: str, n: int) -> None:
    x = (torch.arange(n) % 7).to(getattr(torch, dtype))
    assert torch.equal(x, x.clone()) and torch.equal(x[::2], x.clone()[::2])
    for place in {0, n // 2, n - 1} if n else ():
        y = x.clone()
        y[place] = 0 if y[place] else 1
        assert not torch.equal(x, y) and not torch.equal(y, x)
        if x.is_floating_point():
            zero, negative, nan = (
                x.index_fill(0, torch.tensor([place]), v) for v in (0.0, -0.0, torch.nan)
            )
            assert torch.equal(zero, negative) and not torch.equal(nan, nan.clone())
    z = torch.tensor([0j, 1 - 2j])
    assert torch.equal(z, z.clone()) and torch.equal(-z[:1], z[:1])
    assert not torch.equal(z.conj(), z) and torch.equal(z.conj(), z.conj().resolve_conj())
    assert torch.equal(torch.ones(3), torch.ones(3, dtype=torch.int64))
