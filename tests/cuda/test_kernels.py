"""Kernels at sizes and in layouts that the samples of tests/ops do not reach, against the CPU."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F


def both(method: str, x: torch.Tensor, *args: object, **options: object) -> tuple[object, object]:
    """What a method gives on the CPU, and on the device."""
    return getattr(x, method)(*args, **options), getattr(x.cuda(), method)(*args, **options)


def assert_same(cpu: torch.Tensor, device: torch.Tensor) -> None:
    assert torch.equal(cpu, device.cpu()), (cpu.shape, cpu.dtype)


def assert_close(cpu: torch.Tensor, device: torch.Tensor, tolerance: float = 1e-5) -> None:
    scale = float(cpu.double().abs().max()) + 1e-12 if cpu.numel() else 1.0
    apart = float((cpu.double() - device.cpu().double()).abs().max()) if cpu.numel() else 0.0
    assert apart <= tolerance * scale, (apart, scale, cpu.shape, cpu.dtype)


# --- Sorting and selection -----------------------------------------------------------------------


def shapes(*sizes: tuple[int, ...]) -> list[object]:
    """Parameters; what is large takes minutes under a sanitizer."""
    return [
        pytest.param(
            size, id=str(size), marks=[pytest.mark.large] if math.prod(size) > 50_000 else []
        )
        for size in sizes
    ]


SIZES = [(7,), (1000,), (300_000,), (5, 600), (3000, 700), (40, 513), (3, 100_000), (6, 20, 9)]
SHAPES = shapes(*SIZES)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "float64", "int16"])
def test_sorting_is_stable_at_every_size(shape: tuple[int, ...], dtype: str) -> None:
    x = (torch.randn(shape) * 50).to(torch.int64).to(getattr(torch, dtype))  # many are equal
    for descending in (False, True):
        for dim in {0, len(shape) - 1}:
            cpu, device = both("sort", x, dim, descending, stable=True)
            assert_same(cpu[0], device[0])
            assert_same(cpu[1], device[1])


def test_nan_is_sorted_as_the_largest_and_zeros_are_equal() -> None:
    x = torch.tensor([0.0, -0.0, float("nan"), 3.0, -float("inf"), float("inf"), -0.0, 0.0])
    for size in (1, 100):
        many = x.repeat(size)
        for descending in (False, True):
            cpu, device = both("sort", many, 0, descending, stable=True)
            assert_same(cpu[1], device[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_topk_takes_the_first_of_the_sorted(shape: tuple[int, ...]) -> None:
    x = (torch.randn(shape) * 1000).round()
    for largest in (True, False):
        for k in (1, 5, min(600, shape[-1] // 2)):
            cpu, device = both("topk", x, k, -1, largest)
            assert_same(cpu[0], device[0])
            assert_same(torch.gather(x, -1, device[1].cpu()), cpu[0])
            wide = x.to(torch.float64)
            assert_same(wide.topk(k, -1, largest)[0], wide.cuda().topk(k, -1, largest)[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_kth_value_and_the_median_are_found(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    cpu, device = both("kthvalue", x, shape[-1] // 2 + 1, -1)
    assert_same(cpu[0], device[0])
    cpu, device = both("median", x, -1)
    assert_same(cpu[0], device[0])
    x.view(-1)[:: max(2, shape[-1] // 3)] = float("nan")
    for method in ("nanmedian", "median"):
        cpu, device = both(method, x, -1)
        assert_same(cpu[0].nan_to_num(99.0), device[0].nan_to_num(99.0))


# --- Scans ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", shapes(*SIZES, (2_000_000,), (64, 20_000, 3)))
def test_running_totals_are_right_at_every_size(shape: tuple[int, ...]) -> None:
    x = torch.randint(-5, 5, shape)
    for dim in range(len(shape)):
        cpu, device = both("cumsum", x, dim)
        assert_same(cpu, device)
        cpu, device = both("cummax", x, dim)
        assert_same(cpu[0], device[0])
        assert_same(cpu[1], device[1])
        real = torch.rand(shape, dtype=torch.float64) * 0.1 + 0.95
        cpu, device = both("logcumsumexp", real, dim)
        assert_close(cpu, device)
        cpu, device = both("cumprod", real[:200], 0)
        assert_close(cpu, device)


# --- Embedding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 64, 200, 1025])
@pytest.mark.parametrize("rows", [2, 50, 5000])
def test_the_gradient_of_an_embedding_is_the_same_in_every_run(width: int, rows: int) -> None:
    indices = torch.randint(0, rows, (3000,))
    grad = torch.randn(3000, width)

    def gradient(device: str, **options: object) -> torch.Tensor:
        weight = torch.ones(rows, width, device=device, requires_grad=True)
        out = F.embedding(indices.to(device), weight, **options)
        out.backward(grad.to(device))
        return weight.grad

    for options in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}):
        first = gradient("cuda", **options)
        assert torch.equal(first, gradient("cuda", **options))
        # Sums of up to 1,500 numbers that mostly cancel, each device in an order of its own.
        assert_close(gradient("cpu", **options), first, 1e-4)


@pytest.mark.large
def test_more_rows_than_a_grid_has_blocks_are_refused_not_left_out() -> None:
    x = torch.empty(2**31 + 5, 1, dtype=torch.uint8, device="cuda")
    with pytest.raises(RuntimeError, match=r"kthvalue: .* blocks are too many for one CUDA kernel"):
        x.kthvalue(1)


# --- Dtypes that are only stored ------------------------------------------------------------------


@pytest.mark.parametrize("name", ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"))
@pytest.mark.parametrize("wide", (torch.float16, torch.bfloat16))
def test_float8_is_converted_as_on_the_cpu(name: str, wide: torch.dtype) -> None:
    dtype = getattr(torch, f"float8_{name}")
    x = torch.arange(65536).to(torch.int16).view(wide).view(256, 256)
    x = x.masked_fill(x.isnan(), math.nan)  # the GPU drops a NaN's sign as it widens a half
    for values in (x, x.t()):
        assert_same(values.to(dtype).view(torch.uint8), values.cuda().to(dtype).view(torch.uint8))
    codes = torch.arange(256).to(torch.uint8).view(dtype)
    for other in (torch.float32, wide, torch.float64):
        known = ~codes.to(other).isnan()
        assert_same(codes.to(other)[known], codes.cuda().to(other).cpu()[known])


def test_complex32_is_converted_as_on_the_cpu() -> None:
    x = torch.randn(100, 100, dtype=torch.complex64)
    c = x.cuda().chalf()
    assert_same(torch.view_as_real(x.chalf()), torch.view_as_real(c))
    assert_same(x.chalf().cfloat(), c.cfloat())
    assert_same((x.chalf() + x.chalf()).cfloat(), (c + c).cfloat())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sequences_of_half_precision_are_rounded_on_the_way(dtype: torch.dtype) -> None:
    step = (torch.tensor(80.0).to(dtype) / torch.tensor(1000.0).to(dtype)).to(dtype)
    counts = torch.arange(500.0).to(dtype)
    got = torch.linspace(0, 80, 1001, dtype=dtype, device="cuda").cpu()
    assert torch.equal(got[:500], counts * step)
    assert got[-1].item() == 80


UNSIGNED = """
x + y | x - y | x * y | x // (y + 1) | x % (y + 1) | x & y | torch.bitwise_or(x, y) | x ^ y | ~x
x == y | x < y | x.sum() | x.sum(1) | x.prod(1) | x.max() | x.min() | x.argmax(1) | x.amax(1)
x.any() | x.float() | x.to(torch.int64) | x.t().contiguous() | torch.where(x > y, x, y)
torch.cat([x, y]) | x[index] | x.gather(1, index[:, None]) | x.flip(0) | x.repeat(2, 2)
x.clone().fill_(3) | x.clone().index_fill_(0, index, 2)
x.clone().scatter_(1, index[:, None], 5) | x.masked_fill(x > 9, 1) | torch.maximum(x, y)
x.clamp(2, 9) | x.sort(1).values | x.cumsum(1) | x.unique() | x.bitwise_left_shift(y % 3) | -x
abs(x) | torch.full_like(x, 7) | torch.arange(5, dtype=x.dtype, device=x.device) | x.tolist()
x.nonzero() | x.bincount() | x.topk(2, 1)
"""


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_wide_unsigned_integers_are_computed_as_on_the_cpu(dtype: torch.dtype) -> None:
    x, y = torch.randint(0, 60, (2, 6, 7)).to(dtype)
    index = torch.tensor([3, 0, 5, 1, 1, 2])
    for text in UNSIGNED.replace("\n", " | ").split(" | "):
        answers = []
        for device in ("cpu", "cuda"):
            names = {"x": x.to(device), "y": y.to(device), "index": index.to(device)}
            try:
                answer = eval(text, {"torch": torch}, names) if text.strip() else None
            except (RuntimeError, NotImplementedError, TypeError) as error:
                answer = type(error)
            answers.append(answer.cpu() if isinstance(answer, torch.Tensor) else answer)
        cpu, device = answers
        if isinstance(cpu, torch.Tensor):
            assert isinstance(device, torch.Tensor), (text, device)
            assert cpu.dtype == device.dtype and torch.equal(cpu, device), text
        elif not isinstance(cpu, type):
            assert not isinstance(device, type), (text, device)


@pytest.mark.parametrize("shape", [(16, 4), (4, 1536), (3, 5000)])
def test_log_softmax_of_large_numbers_loses_nothing(shape: tuple[int, int]) -> None:
    small = torch.randint(100, shape, device="cuda").float()
    assert torch.equal(torch.log_softmax(small, 1), torch.log_softmax(small + 1e7, 1))


def test_a_product_times_nothing_leaves_the_addend() -> None:
    for rows in (1, 4):
        a, b = torch.rand(rows, 32, device="cuda"), torch.rand(32, 8, device="cuda")
        c = torch.rand(rows, 8, device="cuda")
        assert torch.equal(torch.addmm(c, a, b, alpha=0), c)
        assert torch.equal(torch.addmm(c, a, b, alpha=0, beta=2), c * 2)


def test_dropout_keeps_the_order_of_dimensions() -> None:
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (0, 2, 3, 1)):
        back = [order.index(d) for d in range(4)]
        x = torch.ones(3, 4, 5, 6, device="cuda").permute(order).contiguous().permute(back)
        for part in (x, x[1:], x[1:, 1:]):
            y = torch.nn.functional.dropout(part, 0.5)
            assert y.permute(order).is_contiguous()
            assert set(y.unique().tolist()) == {0.0, 2.0}


def test_composed_functions_stay_on_the_device() -> None:
    x = torch.rand(4, 6, device="cuda")
    mask = x > 0.3
    torch.testing.assert_close(
        torch.masked.var(x, 1, mask=mask).cpu(), torch.masked.var(x.cpu(), 1, mask=mask.cpu())
    )
    lengths = torch.tensor([1, 0, 3], device="cuda")
    reduced = torch.segment_reduce(x, "sum", lengths=lengths)
    torch.testing.assert_close(reduced[2], x[1:].sum(0))
    with pytest.raises(RuntimeError, match="isin: Expected all tensors to be on the same device"):
        torch.isin(torch.arange(9), torch.arange(30, device="cuda"))
    with pytest.raises(RuntimeError, match="isin: Expected all tensors to be on the same device"):
        torch.isin(torch.arange(9, device="cuda"), torch.arange(30))
    torch.cuda.synchronize()
