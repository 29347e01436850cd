"""Seeding, and saving and restoring the random state. The numbers themselves: test_random.py."""

from __future__ import annotations

import pytest

import flambeau as torch


def test_seeds() -> None:
    generator = torch.manual_seed(5)
    assert generator is torch.default_generator and torch.initial_seed() == 5
    first = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(3), first)
    assert torch.seed() == torch.initial_seed()
    torch.manual_seed(-1)
    assert torch.initial_seed() == 2**64 - 1
    with pytest.raises(ValueError, match="Overflow"):
        torch.manual_seed(2**64)


def test_state() -> None:
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(3), first)
    assert state.dtype == torch.uint8


def test_fork_rng() -> None:
    before = torch.get_rng_state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(enabled=False):
        torch.rand(3)
    assert not torch.equal(torch.get_rng_state(), before)


def test_fork_rng_restores_after_an_exception() -> None:
    before = torch.get_rng_state()
    with pytest.raises(KeyError), torch.random.fork_rng():
        torch.rand(3)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)
