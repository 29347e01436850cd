"""What PyTorch does on CUDA and not on the CPU: dtypes that only the device takes, numbers beside
half precision that are not rounded, and what must not be waited for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import flambeau as torch
import flambeau.nn.functional as F

REDUCED = [torch.float16, torch.bfloat16]


@contextmanager
def waiting_is_an_error() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_bools_have_absolute_values_and_traces() -> None:
    x = torch.tensor([[True, False], [False, True]], device="cuda")
    assert x.abs().equal(x) and x.clone().abs_().equal(x)
    assert x.trace().item() == 2 and x.trace().dtype == torch.int64
    assert F.softsign(x).tolist() == [[0.5, 0.0], [0.0, 0.5]]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("bins, low, high", [(10, 0, 0), (7, 3, 50), (100, 0, 99), (3, 20, 21)])
def test_integers_are_counted_in_parts(dtype: torch.dtype, bins: int, low: int, high: int) -> None:
    values = torch.randint(0, 100, (500,)).to(dtype)
    least, most = (low, high) if low != high else (int(values.min()), int(values.max()))
    expected = [0] * bins
    for value in values.tolist():
        if least <= value <= most:
            expected[min((value - least) * bins // (most - least), bins - 1)] += 1
    counts = torch.histc(values.cuda(), bins, low, high)
    assert counts.dtype == dtype
    assert counts.tolist() == torch.tensor(expected).to(dtype).tolist()


def test_histograms_of_a_given_range_do_not_wait() -> None:
    x = torch.randn(1000, device="cuda")
    x[3] = float("nan")
    with waiting_is_an_error():
        counts = torch.histc(x, 20, -1, 2)
        whole = torch.histc(x.to(torch.int32), 4, -2, 2)
    assert counts.sum().item() == ((x >= -1) & (x <= 2)).sum().item()
    assert whole.sum().item() == (x.to(torch.int32).abs() <= 2).sum().item()


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_half_precision_that_only_the_device_has(dtype: torch.dtype) -> None:
    def same(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
        wide, narrow = function(x.to(dtype).float().cuda()), function(x.to(dtype).cuda())
        assert narrow.dtype == dtype
        torch.testing.assert_close(narrow.float(), wide, rtol=2e-2, atol=2e-2)

    classes, labels = torch.tensor([1, 2], device="cuda"), torch.tensor([[0, 2, -1]] * 2).cuda()
    same(lambda x: F.avg_pool3d(x, 2), torch.randn(1, 2, 4, 4, 4))
    same(lambda x: F.multi_margin_loss(x, classes), torch.randn(2, 3))
    same(lambda x: F.multilabel_margin_loss(x, labels), torch.randn(2, 3))
    same(lambda x: torch.polygamma(2, x), torch.rand(5) + 1)
    same(lambda x: torch.round(x, decimals=1), torch.randn(5))
    same(lambda x: F.rrelu(x, 0.25, 0.25, training=True), torch.randn(5))
    same(
        lambda x: F.interpolate(x, size=(2, 3), mode="bilinear", antialias=True),
        torch.randn(1, 1, 5, 6),
    )


def test_labels_of_margins_are_not_waited_for() -> None:
    scores = torch.randn(2, 3, device="cuda")
    labels = torch.tensor([[0, 2, -1], [1, -1, 0]], device="cuda")
    with waiting_is_an_error():
        loss = F.multilabel_margin_loss(scores, labels)
    assert loss.item() == pytest.approx(
        F.multilabel_margin_loss(scores.cpu(), labels.cpu()).item(), rel=1e-5
    )


def test_complex_sums_leave_out_what_is_no_number() -> None:
    nan = float("nan")
    values = [[1 + 2j, complex(nan, 1)], [complex(2, nan), 3 - 1j]]
    for dtype in (torch.complex64, torch.complex128):
        x = torch.tensor(values, dtype=dtype, device="cuda")
        assert torch.nansum(x).item() == 4 + 1j
        assert torch.nansum(x, 0).tolist() == [1 + 2j, 3 - 1j]
        assert torch.nanmean(x).item() == 2 + 0.5j
        x = x.requires_grad_()
        torch.nansum(x).abs().backward()
        assert x.grad.eq(0).tolist() == [[False, True], [True, False]]


def test_complex_numbers_of_half_precision() -> None:
    z = torch.randn(4, 4, dtype=torch.complex64)
    half = z.cuda().to(torch.complex32)
    functions: list[Callable[[torch.Tensor], torch.Tensor]] = [
        torch.exp, torch.sin, torch.tanh, torch.sqrt, torch.sigmoid, torch.sum, torch.prod,
        torch.trace, lambda x: x / (x + 3), lambda x: x**x, lambda x: torch.lerp(x, x + 1, 0.5),
        lambda x: torch.logaddexp(x, x), lambda x: torch.fft.fft(x), torch.rsqrt,
    ]  # fmt: skip
    for function in functions:
        narrow, wide = function(half), function(half.to(torch.complex64))
        assert narrow.dtype == torch.complex32
        torch.testing.assert_close(narrow.to(torch.complex64), wide, rtol=2e-2, atol=2e-2)


# --- Numbers beside half precision ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
@pytest.mark.parametrize("number", [0.1, 1e5, -70000.5, 3.0, 1 / 3])
def test_numbers_are_not_rounded_to_half_precision(dtype: torch.dtype, number: float) -> None:
    x = (torch.randn(1000, device="cuda") * 100).to(dtype)
    x[0] = -60000
    wide, exact = x.float(), torch.tensor(number, dtype=torch.float32, device="cuda")
    results = {
        "x + n": (x + number, wide + exact),
        "n + x": (number + x, exact + wide),
        "x - n": (x - number, wide - exact),
        "n - x": (number - x, exact - wide),
        "x * n": (x * number, wide * exact),
        "add, alpha": (torch.add(x, number, alpha=2.5), wide + 2.5 * exact),
        "sub, alpha": (torch.sub(x, number, alpha=3), wide - 3 * exact),
        "add_": (x.clone().add_(number), wide + exact),
        "sub_": (x.clone().sub_(number), wide - exact),
        "strided": (x[::3] + number, wide[::3] + exact),
        "zero-dim": (x + torch.tensor(number), wide + exact),
    }
    for name, (ours, expected) in results.items():
        assert ours.dtype == dtype
        assert ours.equal(expected.to(dtype)), name
    y = x.clone().requires_grad_()
    (number - y).sum().backward()
    assert y.grad.eq(-1).all().item()


def test_factors_and_bounds_beyond_half_precision() -> None:
    x = torch.tensor([0.5, -60000.0, float("inf")], dtype=torch.float16, device="cuda")
    y = torch.tensor([1.0, 1.5, 1e-4], dtype=torch.float16, device="cuda")
    expected = (x.float() + 1e5 * y.float()).half()
    assert torch.add(x, y, alpha=1e5).equal(expected)
    assert x.clamp(max=1e5).equal(x) and x.clamp(-1e5, 1e5).equal(x)
    assert torch.clamp_min(x, -1e5).equal(x) and F.hardtanh(x, -1e5, 1e5).equal(x)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.clamp(max=1e39)
    # Comparisons and where take the number in the dtype of the tensor, as everywhere.
    assert (x == 1e5).tolist() == [False, False, True]
    assert torch.where(x > 0, x, 1e5).tolist() == [0.5, float("inf"), float("inf")]


# --- Complex quotients and powers ----------------------------------------------------------------


def far_apart(dtype: torch.dtype) -> torch.Tensor:
    """Complex numbers with parts from the largest to subnormal ones."""
    real = torch.finfo(dtype)
    big, least = real.max * 0.9, real.tiny * real.eps * 8
    sizes = [big, big / 4, 1.0, real.tiny * 4, real.tiny, least, 0.0, -1.0, -big, -least]
    return torch.tensor([complex(a, b) for a in sizes for b in sizes if a or b], dtype=dtype)


def is_close(ours: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether both parts are as near as rounding allows, wherever the CPU has finite ones."""
    real = torch.finfo(expected.dtype)
    difference, wanted = torch.view_as_real(ours - expected).abs(), torch.view_as_real(expected)
    size = wanted.abs().amax(-1, keepdim=True)
    far = ~(difference <= 8 * real.eps * size + 2 * real.tiny)
    return not (far & size.isfinite()).any().item()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_quotients_near_the_ends_of_the_range(dtype: torch.dtype) -> None:
    z = far_apart(dtype)
    a, b = torch.broadcast_tensors(z[:, None], z[None])
    assert is_close((a.cuda() / b.cuda()).cpu(), a / b)
    assert is_close((a.contiguous().cuda() / b.contiguous().cuda()).cpu(), a / b)
    assert is_close(z.cuda().reciprocal().cpu(), z.reciprocal())
    own = (z.cuda() / z.cuda()).cpu()
    assert is_close(own, torch.ones_like(own))


def test_quotients_by_zero_and_infinity_are_those_of_before() -> None:
    inf = float("inf")
    x = torch.tensor([1 + 1j, 0j, complex(inf, 1), 1 + 0j], device="cuda")
    y = torch.tensor([0j, 0j, 1 + 1j, complex(inf, inf)], device="cuda")
    quotient = (x / y).cpu()
    assert quotient[0].abs().item() == inf and quotient[1].isnan().item()
    assert quotient[2].abs().item() == inf and quotient[3].abs().item() == 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_powers_are_the_same_numbers_however_they_lie(dtype: torch.dtype) -> None:
    z = torch.randn(64, 48, dtype=dtype, device="cuda")
    apart = torch.empty(48, 128, dtype=dtype, device="cuda").t()[::2]
    apart.copy_(z)
    two = torch.tensor(2.0, dtype=dtype, device="cuda")
    assert (2**z).equal(2**apart) and ((1 + 2j) ** z).equal((1 + 2j) ** apart)
    assert (two**z).equal(two**apart)
    assert (z**2.5).equal(apart**2.5) and (z**z).equal(apart**apart)
    assert (z / two).equal(apart / two) and z.reciprocal().equal(apart.reciprocal())


# --- Shapes and layouts --------------------------------------------------------------------------


def test_repeating_to_a_known_size_does_not_wait() -> None:
    x, counts = torch.randn(4, 3, device="cuda"), torch.tensor([2, 0, 1, 3], device="cuda")
    with waiting_is_an_error():
        rows = torch.repeat_interleave(x, counts, 0, output_size=6)
        index = torch.repeat_interleave(counts.int(), output_size=6)
        nothing = torch.repeat_interleave(counts * 0, output_size=0)
    assert index.dtype == torch.int32 and index.tolist() == [0, 0, 2, 3, 3, 3]
    assert rows.equal(x[index.long()]) and nothing.numel() == 0
    assert rows.equal(torch.repeat_interleave(x, counts, 0))
    for bad, size in ((counts, 5), (counts, 7), (counts - 1, 2)):
        kept = torch.repeat_interleave(bad, output_size=size)
        with pytest.raises(IndexError, match="found by repeat_interleave"):
            torch.cuda.synchronize()
        del kept


@pytest.mark.parametrize("dim", range(4))
def test_joined_channels_last_is_what_out_becomes(dim: int) -> None:
    x = torch.randn(2, 3, 4, 5, device="cuda").to(memory_format=torch.channels_last)
    expected = torch.cat([x.contiguous(), x.contiguous()], dim)
    shape = expected.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a tensor with elements is resized
        for out in (torch.empty(0, device="cuda"), torch.empty(3, device="cuda")):
            assert torch.cat([x, x], dim, out=out).is_contiguous(memory_format=torch.channels_last)
            assert out.equal(expected)
    rows = torch.empty(shape, device="cuda")
    torch.cat([x, x], dim, out=rows)
    assert rows.is_contiguous() and rows.equal(expected)
    last = torch.empty(shape, device="cuda", memory_format=torch.channels_last)
    torch.cat([x, x], dim, out=last)
    assert last.is_contiguous(memory_format=torch.channels_last) and last.equal(expected)
    wide = torch.empty(0, device="cuda", dtype=torch.float64)
    assert torch.cat([x, x], dim, out=wide).equal(expected.double())


def test_masks_scatter_without_waiting() -> None:
    x, mask = torch.randn(3, 4), torch.rand(3, 4) > 0.4
    mask[0, 0] = True
    source, count = torch.randn(12), int(mask.sum())
    on_device = [t.cuda() for t in (x, mask, source)]
    with waiting_is_an_error():
        ours = on_device[0].masked_scatter(*on_device[1:])
        transposed = on_device[0].t().masked_scatter(on_device[1].t(), on_device[2])
    assert ours.cpu().equal(x.masked_scatter(mask, source))
    assert transposed.cpu().equal(x.t().masked_scatter(mask.t(), source))
    y = x.cuda().requires_grad_()
    y.masked_select(on_device[1]).sum().backward()
    assert y.grad.cpu().equal(mask.float())
    kept = on_device[0].masked_scatter(on_device[1], on_device[2][: count - 1])
    with pytest.raises(IndexError, match="found by masked_scatter"):
        torch.cuda.synchronize()
    del kept
    nothing = on_device[0].masked_scatter(on_device[1] & False, on_device[2][:0])
    assert nothing.equal(on_device[0])


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)], ids=str)
def test_a_fixed_number_of_positions_is_found_without_waiting(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) * (torch.rand(shape) > 0.5)
    there = x.cuda()
    for size in (0, 1, 3, 40):
        with waiting_is_an_error():
            positions = torch.nonzero_static(there, size=size, fill_value=-7)
        assert positions.cpu().equal(torch.nonzero_static(x, size=size, fill_value=-7))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        positions = torch.nonzero_static(there, size=5)
    there.copy_(torch.ones(shape))
    graph.replay()
    assert positions.cpu().equal(torch.nonzero_static(torch.ones(shape), size=5))


def test_indices_made_on_the_host_are_not_waited_for() -> None:
    points, index = torch.randn(5, 3, device="cuda"), torch.arange(12, device="cuda")
    with waiting_is_an_error():
        lower = [torch.tril_indices(n, n, device="cuda") for n in range(40)]
        rows, columns = torch.unravel_index(index, (3, 4))
        distances = torch.pdist(points)
    for n, indices in enumerate(lower):
        assert indices.cpu().equal(torch.tril_indices(n, n))
    assert rows.tolist() == [i // 4 for i in range(12)] and columns.tolist() == [0, 1, 2, 3] * 3
    torch.testing.assert_close(distances.cpu(), torch.pdist(points.cpu()))


def test_indices_made_on_the_host_can_be_captured() -> None:
    index = torch.arange(12, device="cuda")
    torch.unravel_index(index, (3, 4)), torch.tril_indices(4, 4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rows, columns = torch.unravel_index(index, (3, 4))
        lower = torch.tril_indices(4, 4, device="cuda")
    for _ in range(3):
        others = [torch.triu_indices(n, n, device="cuda") for n in range(2, 6)]  # other memory
        lower.zero_()
        graph.replay()
        assert rows.tolist() == [i // 4 for i in range(12)]
        assert columns.tolist() == [0, 1, 2, 3] * 3
        assert lower.cpu().equal(torch.tril_indices(4, 4))
        assert others[-1].cpu().equal(torch.triu_indices(5, 5))


def test_positions_are_found_while_the_device_is_busy() -> None:
    x = (torch.rand(300_000, device="cuda") > 0.99).float()
    expected = x.cpu().nonzero()
    for _ in range(5):  # the host's memory is used again, but not too early
        torch.cuda._sleep(2_000_000)
        found = [(x * k).nonzero() for k in (1, 0, 2)]
        assert found[0].cpu().equal(expected) and found[2].cpu().equal(expected)
        assert found[1].shape == (0, 1)


def test_repeats_are_made_on_the_device() -> None:
    counts = torch.randint(0, 5, (1000,), device="cuda")
    index = torch.repeat_interleave(counts)
    assert index.cpu().equal(torch.repeat_interleave(counts.cpu()))
    with pytest.raises(RuntimeError, match="can not be negative"):
        torch.repeat_interleave(counts - 5)
