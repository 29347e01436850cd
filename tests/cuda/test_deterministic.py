"""use_deterministic_algorithms on CUDA: the same sums in every run, or a sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64], ids=str
)
def test_additions_to_one_place_are_the_same_in_every_run(dtype: torch.dtype) -> None:
    index = torch.randint(0, 50, (20_000,))
    source = torch.randn(20_000, dtype=dtype) * (10 if dtype.is_complex else 100)
    table, rows = torch.randn(50, 7, dtype=dtype), torch.randn(20_000, 7, dtype=dtype)

    def add(where: str) -> list[torch.Tensor]:
        zero = torch.zeros(50, dtype=dtype, device=where)
        at, values = index.to(where), source.to(where)
        return [
            zero.scatter_add(0, at, values),
            zero.index_put((at,), values, accumulate=True),
            table.to(where).index_add(0, at, rows.to(where)),
        ]

    wide = torch.complex128 if dtype.is_complex else torch.float64
    for first, again in zip(add("cuda"), add("cuda"), strict=True):
        assert torch.equal(first, again)
    exact = torch.zeros(50, dtype=wide).scatter_add(0, index, source.to(wide))
    error = (add("cuda")[0].cpu().to(wide) - exact).abs().max() / exact.abs().max()
    assert error < (2e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.complex128])
def test_the_last_of_several_that_are_written_to_one_place_stays(dtype: torch.dtype) -> None:
    index = torch.randint(0, 50, (20_000,))
    values = torch.arange(20_000).to(dtype)
    last = torch.zeros(50, dtype=torch.int64)
    for place, at in enumerate(index.tolist()):
        last[at] = place
    wanted = values[last]
    zeros, at, source = torch.zeros(50, dtype=dtype).cuda(), index.cuda(), values.cuda()
    for written in (
        zeros.index_put((at,), source),
        zeros.index_copy(0, at, source),
        zeros.scatter(0, at, source),
        zeros.put(at, source),
    ):
        assert torch.equal(written.cpu(), wanted)


def test_products_and_integers_are_written_too() -> None:
    index = torch.randint(0, 5, (300,)).cuda()
    factors = (torch.rand(300) + 0.5).cuda()
    ones = torch.ones(5, device="cuda")
    a, b = (ones.scatter_reduce(0, index, factors, "prod") for _ in range(2))
    assert torch.equal(a, b)
    counts = torch.zeros(5, dtype=torch.int64, device="cuda").scatter_add(
        0, index, torch.ones_like(index)
    )
    assert torch.equal(counts.cpu(), torch.bincount(index.cpu(), minlength=5))


def test_ops_without_such_a_form_say_so() -> None:
    x = torch.randn(1, 2, 4, 4, device="cuda").requires_grad_()
    out = F.grid_sample(x, torch.zeros(1, 2, 2, 2, device="cuda"), align_corners=False)
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        out.sum().backward()
    index, weights = torch.tensor([0, 1, 1]).cuda(), torch.ones(3).cuda()
    with pytest.raises(RuntimeError, match="_bincount_cuda does not have a deterministic"):
        torch.bincount(index, weights)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="_bincount_cuda does not have a deterministic"):
        torch.bincount(index, weights)
    torch.set_deterministic_debug_mode("default")
    torch.bincount(index, weights)
