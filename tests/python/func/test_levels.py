"""Levels of vmap by the names of PyTorch's core and of its own modules."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau._functorch import apis, eager_transforms, functional_call, make_functional
from flambeau._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from flambeau._functorch.pyfunctorch import (
    retrieve_all_functorch_interpreters,
    retrieve_current_functorch_interpreter,
    temporarily_clear_interpreter_stack,
    temporarily_pop_interpreter_stack,
)
from flambeau._functorch.vmap import restore_vmap, unwrap_batched, vmap_impl, wrap_batched
from flambeau.func import _core

X = torch.arange(6.0).reshape(2, 3)


def test_the_core_tells_of_the_level_that_runs() -> None:
    def look(x: Any) -> Any:
        level = _core.peek_interpreter_stack()
        assert level is not None
        assert level.key() is _core.TransformType.Vmap
        assert level.level() == _core.current_level() == _core.maybe_get_level(x) == 1
        known = _core.CVmapInterpreterPtr(level)
        assert (known.batchSize(), known.randomness()) == (2, _core.RandomnessType.Same)
        assert _core.is_batchedtensor(x)
        assert _core.is_functorch_wrapped_tensor(x)
        assert _core.get_unwrapped(x).shape == (2, 3)
        return x * 2

    assert torch.equal(torch.vmap(look, randomness="same")(X), X * 2)
    assert _core.peek_interpreter_stack() is None
    assert _core.get_interpreter_stack() is None
    with pytest.raises(RuntimeError, match="no transform"):
        _core.current_level()
    with pytest.raises(RuntimeError, match="No wrappers present"):
        _core.get_unwrapped(X)


def test_levels_are_entered_and_left_by_hand() -> None:
    level = _core._vmap_increment_nesting(2, "error")
    try:
        one = _core._add_batch_dim(X, 0, level)
        assert one.shape == (3,)
        assert _core._unwrap_batched(one, level)[1] == 0
        assert _core._unwrap_batched(X, level) == (X, None)
        assert torch.equal(_core._remove_batch_dim(one + 1, level, 2, 1), (X + 1).t())
    finally:
        assert _core._vmap_decrement_nesting() == level


def test_interpreters_say_where_a_function_runs() -> None:
    def look(x: Any) -> Any:
        inner = retrieve_current_functorch_interpreter()
        assert (inner.level(), inner.batch_size(), inner.randomness()) == (2, 3, "error")
        assert [level.level() for level in retrieve_all_functorch_interpreters()] == [1, 2]
        with temporarily_pop_interpreter_stack():
            assert retrieve_current_functorch_interpreter().level() == 1
        with inner.lower(), temporarily_clear_interpreter_stack():
            assert _core.maybe_current_level() is None
        return x

    torch.vmap(torch.vmap(look))(X)
    with pytest.raises(RuntimeError, match="no transform"):
        retrieve_current_functorch_interpreter()


def test_vmap_in_steps() -> None:
    found, dims = restore_vmap(lambda x, y: (x + y, y), (0, None), 2, "error")(X, torch.ones(3))
    assert dims == (0, None)
    assert torch.equal(found[0], X + 1)
    assert torch.equal(vmap_impl(torch.sum, 0, 0, "error", 1, X), X.sum(1))
    level = _core._vmap_increment_nesting(3, "error")
    try:
        batch = wrap_batched((X, 2), (1, None), level)
        assert batch[0].shape == (2,)
        assert unwrap_batched(batch, level)[1] == (0, None)
    finally:
        _core._vmap_decrement_nesting()


def test_transforms_have_their_older_homes() -> None:
    assert apis.vmap is torch.vmap
    assert functional_call.functional_call is torch.func.functional_call
    assert replace_all_batch_norm_modules_ is torch.func.replace_all_batch_norm_modules_
    assert make_functional.make_functional is not None
    gradient = eager_transforms.grad_impl(lambda x: (x**2).sum(), 0, False, (X,), {})
    assert torch.equal(gradient, 2 * X)
    _, value = eager_transforms.grad_and_value_impl(lambda x: x.sum(), 0, False, (X,), {})
    assert value.item() == 15
