"""Joining tensors that are parts of others: whole rows at a time where rows lie in steps."""

from __future__ import annotations

import random

import numpy as np
import pytest

import flambeau as torch


def part(sizes: list[int], dtype: torch.dtype) -> torch.Tensor:
    """A part of a larger tensor, sometimes with its dimensions in another order or repeated."""
    rank = len(sizes)
    order = random.sample(range(rank), rank) if random.random() < 0.3 else list(range(rank))
    larger = [size + random.choice([0, 0, 1, 3]) for size in sizes]
    whole = torch.randint(0, 100, [larger[d] for d in order]).to(dtype)
    found = whole.permute([order.index(d) for d in range(rank)])
    for d, size in enumerate(sizes):
        found = found.narrow(d, random.randint(0, larger[d] - size), size)
    repeated = random.randrange(rank)
    if random.random() < 0.2 and sizes[repeated] > 0:
        found = found.narrow(repeated, 0, 1).expand(sizes)
    return found


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.int64, torch.complex128])
def test_parts_are_joined_like_copies_of_them(dtype: torch.dtype) -> None:
    random.seed(0)
    for _ in range(300):
        sizes = [random.choice([1, 1, 2, 3, 5, 16, 40]) for _ in range(random.randint(1, 4))]
        dim = random.randrange(len(sizes))
        tensors = []
        for _ in range(random.randint(1, 4)):
            sizes[dim] = random.choice([0, 1, 2, 3, 7, 20])
            tensors.append(part(sizes, dtype))
        wide = [tensor.to(torch.complex128).numpy() for tensor in tensors]
        joined = torch.cat(tensors, dim).to(torch.complex128).numpy()
        assert np.array_equal(joined, np.concatenate(wide, dim))


def test_parts_take_turns_like_copies_of_them() -> None:
    random.seed(0)
    for _ in range(100):
        dtype = random.choice([torch.uint8, torch.bfloat16, torch.float32, torch.complex128])
        sizes = [random.choice([0, 1, 2, 3, 5, 16, 40]) for _ in range(random.randint(1, 3))]
        tensors = [part(sizes, dtype) for _ in range(random.randint(1, 5))]
        wide = [tensor.to(torch.complex128).numpy() for tensor in tensors]
        stacked = torch.stack(tensors, -1).to(torch.complex128).numpy()
        assert np.array_equal(stacked, np.stack(wide, -1))


@pytest.mark.parametrize("height", [3, 600])
def test_blocks_of_a_diagonal(height: int) -> None:
    a, b, c = torch.rand(height, 5), torch.arange(6.0).reshape(2, 3).t(), torch.tensor(7)
    blocks = [a, b, torch.ones(0, 2), c]
    want = np.zeros((height + 4, 10), np.float32)
    want[:height, :5], want[height : height + 3, 5:7], want[-1, -1] = a.numpy(), b.numpy(), 7
    assert np.array_equal(torch.block_diag(*blocks).numpy(), want)
    for block in blocks[:2]:
        block.requires_grad_()
    weights = torch.rand(*want.shape)
    (torch.block_diag(*blocks) * weights).sum().backward()
    assert torch.equal(a.grad, weights[:height, :5])
    assert torch.equal(b.grad, weights[height : height + 3, 5:7])


def test_rolled_rows() -> None:
    x = torch.arange(3000.0).reshape(50, 60)
    for shift in (1, -3, 59, 200):
        for dim in 0, 1:
            assert np.array_equal(x.roll(shift, dim).numpy(), np.roll(x.numpy(), shift, dim))
