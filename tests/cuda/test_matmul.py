"""Matrix products on the device, in all layouts, against those of the CPU."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F


def layouts(rows: int, cols: int, dtype: Any) -> dict[str, Any]:
    """Matrices of one shape: by rows, by columns, every second column, one row for all."""
    return {
        "rows": torch.randn(rows, cols, dtype=dtype),
        "columns": torch.randn(cols, rows, dtype=dtype).t(),
        "padded": torch.randn(rows, cols + 5, dtype=dtype)[:, :cols],
        "strided": torch.randn(rows, 2 * cols, dtype=dtype)[:, ::2],
        "expanded": torch.randn(1, cols, dtype=dtype).expand(rows, cols),
    }


def on_both(function: Any, *tensors: Any) -> tuple[Any, Any]:
    return function(*(x.cuda() for x in tensors)).cpu(), function(*tensors)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(17, 33, 9), (64, 64, 64), (1, 40, 7), (30, 1, 20), (5, 6, 1)])
def test_mm_in_every_layout(dtype: str, shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    m, k, n = shape
    kind = getattr(torch, dtype)
    for a in layouts(m, k, kind).values():
        for b in layouts(k, n, kind).values():
            got, wanted = on_both(torch.mm, a, b)
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_addmm_with_every_addend(dtype: str) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    a, b = torch.randn(12, 20, dtype=kind), torch.randn(20, 16, dtype=kind)
    addends = [
        *layouts(12, 16, kind).values(),
        torch.randn(16, dtype=kind),
        torch.randn(12, 1, dtype=kind),
    ]
    addends += [torch.randn((), dtype=kind), torch.randn(17, dtype=kind)[1:]]
    for c in addends:
        for beta, alpha in ((1, 1), (0.5, 2), (0, 1)):
            wanted = torch.addmm(c, a, b, beta=beta, alpha=alpha)
            got = torch.addmm(c.cuda(), a.cuda(), b.cuda(), beta=beta, alpha=alpha)
            torch.testing.assert_close(got.cpu(), wanted)
    nan = torch.full((12, 16), float("nan"), dtype=kind)
    assert not torch.isnan(torch.addmm(nan.cuda(), a.cuda(), b.cuda(), beta=0)).any().item()


def test_batches_of_any_rank() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(3, 1, 4, 5), torch.randn(2, 5, 6)
    wide = torch.randn(3, 2, 4, 5)
    pairs = [(a, b), (wide, b), (wide.transpose(0, 1), b[:, None]), (a, b[0]), (a[0, 0], b)]
    pairs += [(b, torch.randn(6)), (a[0, 0, 0], b), (wide[:, ::2, :, ::2], b[:, ::2])]
    for x, y in pairs:
        got, wanted = on_both(torch.matmul, x, y)
        torch.testing.assert_close(got, wanted)
    got, wanted = on_both(torch.baddbmm, torch.randn(2, 1, 6), torch.randn(2, 4, 5), b)
    torch.testing.assert_close(got, wanted)


def test_half_precision_is_accumulated_in_single_precision() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        a, b = torch.randn(100, 300).to(dtype), torch.randn(300, 50).to(dtype)
        got = torch.mm(a.cuda(), b.cuda()).cpu().float()
        wanted = torch.mm(a.double(), b.double()).float()
        assert float((got - wanted).norm() / wanted.norm()) < (
            1e-3 if dtype == torch.float16 else 5e-3
        )


def test_single_precision_is_not_tf32() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    wanted = torch.mm(a.double(), b.double())
    got = torch.mm(a.cuda(), b.cuda()).cpu().double()
    assert float((got - wanted).norm() / wanted.norm()) < 1e-6


def test_a_product_over_nothing_is_zero() -> None:
    a, b = torch.empty(3, 0, device="cuda"), torch.empty(0, 4, device="cuda")
    assert torch.mm(a, b).tolist() == [[0.0] * 4] * 3
    c = torch.ones(3, 4, device="cuda")
    assert torch.addmm(c, a, b, beta=2).tolist() == [[2.0] * 4] * 3


def test_integers_are_refused_as_in_pytorch() -> None:
    x = torch.ones(2, 2, dtype=torch.int64, device="cuda")
    with pytest.raises(NotImplementedError, match="\"addmm_cuda\" not implemented for 'Long'"):
        x @ x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("use_gelu", [False, True])
def test_bias_and_activation_are_done_with_the_product(dtype: torch.dtype, use_gelu: bool) -> None:
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-4}.get(dtype, 4e-2)
    for m, n, k in ((64, 48, 40), (1, 8, 3), (7, 9, 5), (130, 256, 512)):
        a, b, bias = torch.randn(m, k), torch.randn(n, k) / k**0.5, torch.randn(n)
        total = torch.addmm(bias.double(), a.double(), b.t().double())
        wanted = F.gelu(total, approximate="tanh") if use_gelu else total.relu()
        a, b, bias = (x.to(dtype).cuda() for x in (a, b, bias))
        got = torch._addmm_activation(bias, a, b.t(), use_gelu=use_gelu)
        assert got.dtype == dtype
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=tolerance, atol=tolerance)
        a.requires_grad_()
        assert torch._addmm_activation(bias, a, b.t(), use_gelu=use_gelu).requires_grad


def test_products_of_bytes_are_exact() -> None:
    a, b = torch.randint(-128, 128, (33, 700)), torch.randint(-128, 128, (700, 17))
    got = torch._int_mm(a.to(torch.int8).cuda(), b.to(torch.int8).cuda())
    assert got.dtype == torch.int32 and torch.equal(got.cpu().long(), a @ b)
