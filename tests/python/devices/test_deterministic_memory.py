"""What new memory holds where only deterministic algorithms are wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import flambeau as torch


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("deterministic")
def test_new_memory_is_filled_with_what_nobody_takes_for_a_result() -> None:
    x = torch.ones(2)
    for fresh in (
        torch.empty(3),
        torch.empty(2, 3, 4, 4, memory_format=torch.channels_last),
        torch.empty_like(x),
        torch.empty_strided((2, 2), (1, 2)),
        torch.empty_permuted((2, 2), (1, 0)),
        x.new_empty(2),
        x.new_empty_strided((2,), (1,)),
    ):
        assert bool(fresh.isnan().all())
    assert math.isnan(torch.empty(1, dtype=torch.complex64).item().real)
    largest = {torch.uint8: 255, torch.int8: 127, torch.int32: 2**31 - 1, torch.int64: 2**63 - 1}
    for dtype, value in largest.items():
        assert torch.empty(2, dtype=dtype).tolist() == [value, value]
    assert torch.empty(2, dtype=torch.bool).all()


@pytest.mark.usefixtures("deterministic")
def test_what_a_tensor_grows_by_is_filled_and_what_it_had_is_kept() -> None:
    x = torch.ones(2).resize_(4)
    assert x[:2].tolist() == [1, 1] and bool(x[2:].isnan().all())


@pytest.mark.usefixtures("deterministic")
def test_filling_can_be_switched_off() -> None:
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert torch.utils.deterministic.fill_uninitialized_memory is False
    torch.empty(3).fill_(1)
    with pytest.raises(TypeError, match="must be a bool"):
        torch.utils.deterministic.fill_uninitialized_memory = 1
