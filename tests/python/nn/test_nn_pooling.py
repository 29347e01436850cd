"""Pooling at its edges: overwritten indices of maxima, empty inputs and empty outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool1d(x[0], 2, return_indices=True),
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.max_pool2d(x[0], 2, return_indices=True),
        lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
        lambda x: F.fractional_max_pool2d(x, 2, output_size=5, return_indices=True),
    ],
)
def test_backward_refuses_indices_that_were_overwritten(pool: Callable[..., Any]) -> None:
    out, indices = pool(torch.randn(1, 2, 16, 16, requires_grad=True))
    indices.fill_(10**9)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize(
    "module", [nn.AdaptiveMaxPool2d(2), nn.FractionalMaxPool2d(2, output_size=2)]
)
def test_maxima_of_no_channels_are_refused_and_of_no_images_are_not(module: nn.Module) -> None:
    with pytest.raises(RuntimeError, match="with dimension 1 being empty"):
        module(torch.ones(1, 0, 5, 5))
    assert module(torch.ones(0, 3, 5, 5)).shape == (0, 3, 2, 2)


def test_fractional_pooling_to_an_empty_output() -> None:
    x = torch.rand(2, 3, 8, 8, requires_grad=True)
    out = nn.FractionalMaxPool2d(2, output_size=(0, 1))(x)
    assert out.shape == (2, 3, 0, 1)
    out.sum().backward()
    assert x.grad is not None and not x.grad.any()


def test_packing_a_sequence_without_elements_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        nn.utils.rnn.pack_padded_sequence(torch.randn(0, 1, 3), torch.ones(4))


@pytest.mark.parametrize("kernel_size", [(), (1,), (1, 1, 1)])
def test_windows_of_another_number_of_dimensions(kernel_size: tuple[int, ...]) -> None:
    x = torch.ones(1, 3, 4, 4)
    with pytest.raises(RuntimeError, match="kernel_size must either be a single Int"):
        F.fractional_max_pool2d(x, kernel_size, output_size=(2, 2))
    with pytest.raises(RuntimeError, match="output_size must either be a single Int"):
        F.fractional_max_pool2d(x, 2, output_size=kernel_size)
    for options in ({"kernel_size": kernel_size}, {"kernel_size": 1, "stride": kernel_size}):
        with pytest.raises(RuntimeError, match="exactly 2 elements in"):
            F.max_unpool2d(x, torch.zeros(x.shape, dtype=torch.int64), **options)


def test_windows_far_larger_than_the_input_take_no_time() -> None:
    x = torch.tensor([[1.0, 4.0, 2.0]])
    huge = 2**40
    assert F.max_pool1d(x, huge, ceil_mode=True).tolist() == [[4.0]]
    values, positions = F.max_pool1d(x, huge, 1, huge // 2, return_indices=True)
    assert values.tolist() == [[4.0] * 4] and positions.tolist() == [[1] * 4]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nothing_has_no_average(rank):
    average = getattr(F, f"adaptive_avg_pool{rank}d")
    for lead in ((2,), (2, 3)):
        assert average(torch.ones(*lead, *(0,) * rank), 1).isnan().all()
        with pytest.raises(RuntimeError, match="non-zero size"):
            average(torch.ones(*lead, *(0,) * rank), 2)
    largest = getattr(F, f"adaptive_max_pool{rank}d")
    assert largest(torch.ones(0, *(3,) * rank), 2).shape == (0, *(2,) * rank)
    with pytest.raises(RuntimeError, match="non-zero size"):
        largest(torch.ones(1, 0, *(3,) * rank), 2)
