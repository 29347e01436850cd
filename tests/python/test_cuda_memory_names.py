"""The numbers of CUDA's allocators under all the names that programs ask for them by."""

from __future__ import annotations

import flambeau as torch


def test_older_names_give_the_same_numbers() -> None:
    assert torch.cuda.memory_cached() == torch.cuda.memory_reserved()
    assert torch.cuda.max_memory_cached() == torch.cuda.max_memory_reserved()
    assert torch.cuda.get_allocator_backend() == "native"


def test_nested_numbers_are_the_flat_ones() -> None:
    nested = torch.cuda.memory_stats_as_nested_dict()
    for name, value in torch.cuda.memory_stats().items():
        inner = nested
        for part in name.split("."):
            inner = inner[part]
        assert inner == value
