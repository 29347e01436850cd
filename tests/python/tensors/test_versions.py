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
