"""How often a tensor has been written to, as programs see it in `_version`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
INDEX = torch.tensor([0])
FRESH = {
    "repeat": lambda: X.repeat(2, 1),
    "scatter": lambda: X.scatter(1, torch.zeros(2, 3, dtype=torch.int64), 1.0),
    "index_add": lambda: X.index_add(0, INDEX, X[:1]),
    "select_scatter": lambda: X.select_scatter(X[0], 0, 0),
    "pad": lambda: torch.nn.functional.pad(X, (1, 1)),
    "reshape": lambda: X.t().reshape(-1),
    "inv": lambda: torch.linalg.inv(X @ X.mT),
}


@pytest.mark.parametrize("make", FRESH.values(), ids=FRESH)
def test_results_have_not_been_written_to(make: Callable[[], Any]) -> None:
    assert make()._version == 0


def test_arguments_keep_their_version() -> None:
    x = X.clone()
    x.add_(1)
    assert x.contiguous()._version == x._version == 1
    assert x.view(-1)._version == 1
    assert torch.ones(2).add_(1)._version == 1


def test_inference_tensors_have_no_version() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
    with pytest.raises(RuntimeError, match="do not track version counter"):
        _ = x._version


def test_writes_through_views_count_once() -> None:
    x = torch.ones(3, 3)
    x.t().triu_()
    assert x._version == 1
    x.t()[:2].put_(INDEX, torch.zeros(1))
    assert x._version == 2
    torch.cat([X, X], out=(out := torch.empty(4, 3)))
    assert out._version == 1


def test_some_results_count_how_they_were_written() -> None:
    # Where PyTorch's function works in place on what it gives back, programs see it.
    assert torch.quantile(X, 0.5)._version == 2
    assert torch.quantile(X, torch.tensor([0.2, 0.7]), 0)._version == 4
    assert torch.nanquantile(X, 0.5, interpolation="lower")._version == 1
    assert torch.isclose(X, X)._version == 1
    assert torch.isclose(X, X, equal_nan=True)._version == 2
    assert torch.nn.functional.one_hot(INDEX)._version == 2
    assert X.unique(return_inverse=True)[1]._version == 0


def test_two_steps_of_one_write_count_once() -> None:
    x = torch.ones(2, 2)
    x.scatter_reduce_(0, INDEX[:, None], x.clone(), "amax", include_self=False)
    assert x._version == 1
    z = torch.ones(2, dtype=torch.complex64)
    z.conj().imag.add_(1)
    assert z._version == 1
    assert torch.ones(2).apply_(lambda v: v + 1)._version == 0
    assert torch.tensor(True).cumprod_(0)._version == 1


def test_writes_to_inference_tensors_are_done_before_they_are_refused() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
    for write in (lambda: x.add_(1), lambda: x.mul_(2), lambda: x.copy_(torch.zeros(2))):
        before = x.clone()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write()
        assert not torch.equal(x, before)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        torch.add(torch.ones(3), 1, out=x)
    assert x.shape == (3,)


def test_data_brings_the_mark_of_inference_along() -> None:
    x = torch.zeros(1, 3)
    with torch.inference_mode():
        x.data = torch.ones(1, 3)
    assert x.is_inference() and x._version == 0
    assert x.add_(1)._version == 1
