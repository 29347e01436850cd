"""What the test suites of public repositories asked for."""

from __future__ import annotations

import pytest

import flambeau as fl
from flambeau import nn
from flambeau.nn.utils import stateless


def test_getattribute_by_name_finds_no_members():
    """A wrapper that falls back to another module's own attributes relies on it (geoopt)."""
    linear = nn.Linear(2, 2)
    with pytest.raises(AttributeError, match="has no attribute 'weight'"):
        linear.__getattribute__("weight")
    with pytest.raises(AttributeError, match="has no attribute 'weight'"):
        object.__getattribute__(linear, "weight")
    assert linear.__getattribute__("training") is True
    assert linear.__getattr__("weight") is linear.weight


def test_getattribute_can_be_extended():
    class Counting(nn.Linear):
        seen = 0

        def __getattribute__(self, name):
            type(self).seen += 1
            return super().__getattribute__(name)

    linear = Counting(2, 2)
    before = Counting.seen
    assert linear.weight.shape == (2, 2)
    assert Counting.seen == before + 1
    assert linear(fl.ones(1, 2)).shape == (1, 2)


def test_reparametrize_module():
    linear = nn.Linear(2, 2)
    weight = linear.weight
    other = fl.zeros(2, 2)
    with stateless._reparametrize_module(linear, {"weight": other}):
        assert linear.weight is other
    assert linear.weight is weight
    with (
        pytest.raises(RuntimeError, match="Missing key"),
        stateless._reparametrize_module(linear, {"weight": other}, strict=True),
    ):
        pass
    with (
        pytest.raises(ZeroDivisionError),
        stateless._reparametrize_module(linear, {"weight": other}),
    ):
        raise ZeroDivisionError
    assert linear.weight is weight


def test_distribution_keeps_a_shape_that_is_none():
    """A distribution over several tensors tells their shapes in a list (FrEIA)."""
    plain = fl.distributions.Distribution((2,), [3], validate_args=False)
    assert plain.batch_shape == fl.Size([2])
    several = fl.distributions.Distribution(fl.Size(), [(3,), (4,)], validate_args=False)
    assert several.event_shape == [(3,), (4,)]
