"""Attention is computed by blocks of queries and keys: at the ends of blocks, of registers, with
every kind of mask, it has to be the formula, and so do its gradients."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional

SIZES = [  # queries, keys, width of keys, width of values
    (1, 1, 1, 1),
    (1, 400, 64, 64),
    (7, 193, 16, 5),
    (8, 5, 33, 17),
    (16, 16, 64, 64),
    (17, 192, 3, 80),
    (49, 49, 32, 32),
    (64, 191, 64, 64),
    (65, 64, 48, 31),
    (130, 400, 20, 24),
]


def formula(q: Tensor, k: Tensor, v: Tensor, added: Tensor) -> Tensor:
    sees = (added > -math.inf).any(-1, keepdim=True)  # a query that sees nothing has no weights
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + added.masked_fill(~sees, 0.0)
    return torch.softmax(scores, -1) * sees @ v


def masks(batch: int, heads: int, queries: int, keys: int) -> dict[str, Tensor | None]:
    hidden = torch.rand(batch, 1, queries, keys) < 0.4
    hidden[0, 0, queries // 2] = True
    return {
        "none": None,
        "bools": ~hidden,
        "a padding": torch.rand(batch, 1, 1, keys) < 0.7,
        "numbers": torch.randn(heads, queries, keys, dtype=torch.float64),
        "columns": torch.randn(keys, queries, dtype=torch.float64).t(),
    }


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_are_the_formula(size: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    queries, keys, width, value_width = size
    torch.manual_seed(queries)
    shapes = [(2, 3, queries, width), (2, 3, keys, width), (2, 3, keys, value_width)]
    exact = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    ours = [x.detach().to(dtype).requires_grad_() for x in exact]
    slope = torch.randn(2, 3, queries, value_width, dtype=torch.float64)
    close = {"rtol": 1e-4, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    everything = {**masks(2, 3, queries, keys), "causal": None}
    for name, mask in everything.items():
        added = torch.zeros(1, 1, dtype=torch.float64)
        allowed = torch.ones(queries, keys).tril() != 0 if name == "causal" else mask
        if allowed is not None and allowed.dtype == torch.bool:
            added = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, -math.inf)
        elif mask is not None:
            added, mask = mask, mask.to(dtype)
        wanted = formula(exact[0], exact[1], exact[2], added)
        got = functional.scaled_dot_product_attention(
            ours[0], ours[1], ours[2], mask, is_causal=name == "causal"
        )
        assert torch.allclose(got.double(), wanted, **close), name
        slopes = torch.autograd.grad(got, ours, slope.to(dtype))
        exact_slopes = torch.autograd.grad(wanted, exact, slope)
        for one, other in zip(slopes, exact_slopes, strict=True):
            assert torch.allclose(one.double(), other, **close), name


def test_large_and_infinite_scores() -> None:
    q = torch.full((1, 1, 20, 4), 30.0)
    k = torch.randn(1, 1, 500, 4) * 30
    v = torch.randn(1, 1, 500, 3)
    wanted = formula(q.double(), k.double(), v.double(), torch.zeros(1, 1, dtype=torch.float64))
    assert torch.allclose(functional.scaled_dot_product_attention(q, k, v).double(), wanted, 1e-4)
    q[0, 0, 3, 0] = math.nan
    got = functional.scaled_dot_product_attention(q, k, v)
    assert got.isnan().any(-1).nonzero().tolist() == [[0, 0, 3]]


def test_heads_that_share_keys_and_tensors_with_strides() -> None:
    q = torch.randn(2, 70, 6, 16, dtype=torch.float64).transpose(1, 2).requires_grad_()
    k = torch.randn(2, 50, 2, 16, dtype=torch.float64).transpose(1, 2).requires_grad_()
    v = torch.randn(2, 50, 2, 40, dtype=torch.float64)[..., ::2].transpose(1, 2).requires_grad_()
    got = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    wide = [x.repeat_interleave(3, 1) for x in (k, v)]
    wanted = formula(q, wide[0], wide[1], torch.zeros(1, 1, dtype=torch.float64))
    assert torch.allclose(got, wanted)
    slope = torch.randn(got.shape, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(got, [q, k, v], slope), torch.autograd.grad(wanted, [q, k, v], slope)
    ):
        assert torch.allclose(one, other)


@pytest.mark.parametrize("sizes", [(2, 5, 4, 6, 8), (2, 3, 5, 4, 6, 8)])
def test_more_than_four_dimensions_need_not_be_contiguous(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    base = torch.randn(sizes, dtype=torch.float64, requires_grad=True)
    x = base.transpose(-4, -3)
    out = functional.scaled_dot_product_attention(x, x, x)
    weights = torch.softmax(x @ x.mT / math.sqrt(sizes[-1]), -1)
    assert torch.allclose(out, weights @ x) and out.is_contiguous()
    (gradient,) = torch.autograd.grad(out.square().sum(), base)
    (wanted,) = torch.autograd.grad((weights @ x).square().sum(), base)
    assert torch.allclose(gradient, wanted)
