"""Page-locked memory where there is no device that it would be of use to."""

from __future__ import annotations

import pytest

import flambeau as torch

without_cuda = [] if torch.cuda.is_available() else [pytest.param(None, id="no device")]


@pytest.mark.parametrize("_", without_cuda)
def test_nothing_is_pinned_without_a_device(_: None) -> None:
    assert not torch.ones(3).is_pinned()
    with pytest.raises(RuntimeError):
        torch.ones(3).pin_memory()
    with pytest.raises(RuntimeError):
        torch.empty(3, pin_memory=True)


def test_a_leaf_takes_gradients_in_the_dtype_that_it_has_now() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    kept = (weight * 2).sum()
    weight.data = weight.data.double()
    (weight * 3).sum().backward()
    assert weight.grad.dtype == torch.float64 and weight.grad.tolist() == [3.0] * 3
    assert kept.item() == 6
