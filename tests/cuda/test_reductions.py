"""Reductions on the device, in the geometries that its kernels treat differently."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

# Few results of many elements, many of few, along columns, over outer and inner dimensions at once.
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((1 << 20,), 0),
    ((3, 100_000), 1),
    ((100_000, 3), 0),
    ((5000, 40), 0),
    ((5000, 40), 1),
    ((7, 1030), 1),
    ((6, 50, 70), (0, 2)),
    ((6, 50, 70), 1),
    ((2, 3, 4, 5, 6), (1, 3)),
    ((4, 0, 3), 2),
    ((1, 1), 0),
]


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "var", "norm"])
def test_reduction_equals_the_cpu(shape: tuple[int, ...], dim: Any, name: str) -> None:
    torch.manual_seed(0)
    function = getattr(torch, name)
    for dtype, limit in ((torch.float32, 1e-4), (torch.float64, 1e-11)):
        numbers = torch.randn(torch.empty(shape).numel() + 1, dtype=dtype)
        # The second does not start where vectors may.
        for x in (numbers[:-1].view(shape), numbers.cuda()[1:].view(shape)):
            wanted = function(x.cpu().double(), dim=dim)
            got = function(x.cuda(), dim=dim).cpu().double()
            torch.testing.assert_close(got, wanted, rtol=limit, atol=limit, equal_nan=True)


def test_sums_do_not_change_from_run_to_run() -> None:
    x = torch.randn(1 << 22, device="cuda")
    assert len({x.sum().item() for _ in range(10)}) == 1


def test_the_first_of_equal_elements_counts() -> None:
    x = torch.zeros(100_000, device="cuda")
    assert x.argmax().item() == 0 and x.argmin().item() == 0
    x[[70_000, 400, 90_000]] = 2.0
    assert x.argmax().item() == 400
    x[5000] = float("nan")
    assert x.argmax().item() == 5000
    values, indices = x.view(100, 1000).max(dim=1)
    assert indices[0].item() == 400 and values[0].item() == 2.0


def test_integers_are_added_in_int64() -> None:
    x = torch.full((1 << 20,), 100, dtype=torch.uint8)
    assert x.cuda().sum().item() == 100 << 20
    assert (x > 5).cuda().sum().item() == 1 << 20
    assert (x > 5).cuda().all().item() and not (x > 100).cuda().any().item()
    assert torch.count_nonzero(x.cuda()).item() == 1 << 20


def test_softmax_of_long_and_short_rows() -> None:
    torch.manual_seed(0)
    shapes = [((5, 7), 1), ((3, 5000), 1), ((3, 100, 9), 1), ((9, 4), 0), ((2, 1024), -1)]
    shapes += [((4, 2048), 1), ((2, 4097), 1), ((2, 20_000), 1), ((1, 1), 1)]
    shapes += [((5, 8192), 1), ((5, 12_288), 1), ((5, 16_384), 1)]
    for shape, dim in shapes:
        x = torch.randn(shape, requires_grad=True)
        y = x.detach().cuda().requires_grad_()
        for function in (torch.softmax, torch.log_softmax):
            x.grad = y.grad = None
            cpu, cuda = function(x, dim), function(y, dim)
            torch.testing.assert_close(cuda.detach().cpu(), cpu.detach())
            weight = torch.randn(shape)
            (cpu * weight).sum().backward()
            (cuda * weight.cuda()).sum().backward()
            torch.testing.assert_close(y.grad.cpu(), x.grad, rtol=1e-4, atol=1e-6)
    masked = torch.tensor([[0.0, -float("inf"), 1.0], [-float("inf")] * 3])
    torch.testing.assert_close(masked.cuda().softmax(1).cpu(), masked.softmax(1), equal_nan=True)
