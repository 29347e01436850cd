"""Costly functions of large 16-bit tensors are looked up: the results are those of small ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import flambeau as torch
from flambeau.nn import functional

LARGE = 1 << 20
Function = Callable[[torch.Tensor], torch.Tensor]

FUNCTIONS: list[Function] = [
    *(getattr(torch, name) for name in "exp log sqrt rsqrt tan asinh sigmoid erf logit".split()),
    *(getattr(torch, name) for name in "lgamma digamma erfinv reciprocal i0".split()),
    *(getattr(functional, name) for name in "mish hardswish hardsigmoid gelu celu".split()),
    lambda x: functional.gelu(x, approximate="tanh"),
]


def all_numbers(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(1 << 16).to(torch.int16).view(dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(torch.int16)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_large_as_small(function: Function, dtype: torch.dtype) -> None:
    x = all_numbers(dtype)
    expected = bits(function(x))
    many = x.repeat(LARGE // len(x) + 1)[:-13]
    got = bits(function(many))
    assert torch.equal(got, expected.repeat(LARGE // len(x) + 1)[:-13])


SHORT: list[Function] = [
    *(getattr(functional, name) for name in "hardsigmoid hardswish relu6 elu selu celu".split()),
    *(getattr(torch, name) for name in "exp sqrt rsqrt reciprocal".split()),
]


@pytest.mark.parametrize("function", SHORT)
def test_all_numbers_have_the_results_of_floats(function: Function) -> None:
    """Wherever they stand, beside any others: also where half of them are looked up."""
    order = torch.argsort(all_numbers(torch.bfloat16).float().abs())
    for x in (all_numbers(torch.bfloat16)[order], all_numbers(torch.bfloat16)):
        expected = function(x.float()).bfloat16()
        for many in (x, x.repeat(17)[1:]):
            found = function(many)[-len(x) :]
            assert ((found == expected) | (expected.isnan() & found.isnan())).all()


def test_layouts_and_positions() -> None:
    x = torch.randn(1024, 1030).bfloat16()
    expected = torch.cat([row.tanh()[None] for row in x])
    assert torch.equal(x.tanh(), expected)
    assert torch.equal(x.t().tanh(), expected.t())
    assert torch.equal(x[:, 3:1029].tanh(), expected[:, 3:1029])
    assert torch.equal(x.tanh_(), expected)


def test_parameters_are_told_apart() -> None:
    x = torch.randn(LARGE).bfloat16()
    for beta in (1.0, 2.0, 0.5, 1.0):
        for alpha in (1.0, 0.25):
            soft, exponential = functional.softplus(x, beta), functional.elu(x, alpha)
            assert torch.equal(soft[:100], functional.softplus(x[:100], beta))
            assert torch.equal(exponential[:100], functional.elu(x[:100], alpha))


def test_from_several_threads() -> None:
    x = torch.randn(LARGE).half()
    scales = [1.0 + k / 16 for k in range(40)]  # more than are kept
    right = [False] * len(scales)

    def run(k: int) -> None:
        y = functional.softplus(x, scales[k])
        right[k] = torch.equal(y[-64:], functional.softplus(x[-64:], scales[k]))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(scales))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(right)


def test_results_past_the_cache_begin_anywhere() -> None:
    x = torch.randn((1 << 23) + 77).bfloat16()
    expected = torch.cat([part.sigmoid() for part in x.split(1 << 18)])
    assert torch.equal(x.sigmoid(), expected)
    buffer = torch.full((len(x) + 64,), 7.0).bfloat16()
    for begin in (1, 31, 32):
        torch.sigmoid(x, out=buffer[begin : begin + len(x)])
        assert torch.equal(buffer[begin : begin + len(x)], expected)
        assert buffer[begin - 1] == 7 and (buffer[begin + len(x) :] == 7).all()
        buffer.fill_(7)
    assert torch.equal(x.sigmoid_(), expected)
