"""no_grad, enable_grad, set_grad_enabled and inference_mode, as contexts and as decorators."""

from __future__ import annotations

import threading
import warnings

import pytest

import flambeau as torch


def modes() -> tuple[bool, bool]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def test_contexts_nest_and_restore() -> None:
    with torch.no_grad():
        assert modes() == (False, False)
        with torch.enable_grad():
            assert modes() == (True, False)
        with torch.inference_mode():
            assert modes() == (False, True)
            with torch.inference_mode(False):
                assert modes() == (True, False)
            assert modes() == (False, True)
        assert modes() == (False, False)
    assert modes() == (True, False)


def test_an_exception_restores() -> None:
    with pytest.raises(KeyError), torch.no_grad():
        raise KeyError
    assert torch.is_grad_enabled()


def test_set_grad_enabled_acts_at_once_and_as_a_context() -> None:
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_set_grad_enabled_does_not_act_where_it_decorates() -> None:
    @torch.set_grad_enabled(False)
    def inside() -> bool:
        return torch.is_grad_enabled()

    assert torch.is_grad_enabled()
    assert inside() is False
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("decorate", [torch.no_grad, torch.no_grad(), torch.inference_mode])
def test_decorators_with_and_without_parentheses(decorate) -> None:
    @decorate
    def inside(depth: int) -> bool:
        """Looks inside."""
        return torch.is_grad_enabled() if depth == 0 else inside(depth - 1)

    assert inside(3) is False
    assert torch.is_grad_enabled()
    assert inside.__name__ == "inside" and inside.__doc__ == "Looks inside."


def test_a_decorated_generator_runs_inside_and_its_caller_outside() -> None:
    seen = []

    @torch.no_grad()
    def generator():
        try:
            while True:
                try:
                    seen.append((yield torch.is_grad_enabled()))
                except KeyError:
                    seen.append(("caught", torch.is_grad_enabled()))
        finally:
            seen.append(("closed", torch.is_grad_enabled()))

    it = generator()
    assert next(it) is False and torch.is_grad_enabled()
    assert it.send("sent") is False and torch.is_grad_enabled()
    assert it.throw(KeyError()) is False and torch.is_grad_enabled()
    it.close()
    assert seen == ["sent", ("caught", False), ("closed", False)]


def test_a_decorated_generator_returns_its_value() -> None:
    @torch.no_grad()
    def generator():
        yield 1
        return 7

    def outer():
        return (yield from generator())

    it = outer()
    next(it)
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == 7


def test_decorating_a_class_warns() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @torch.no_grad()
        class Thing:
            def __init__(self) -> None:
                self.grad = torch.is_grad_enabled()

    assert caught[0].category is FutureWarning
    assert Thing().grad is False


def test_modes_belong_to_the_thread() -> None:
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_nothing_is_recorded_inside() -> None:
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        y = x * 2
    assert not y.requires_grad and y.grad_fn is None
    with torch.inference_mode():
        z = x * 2
    assert not z.requires_grad and z.is_inference()


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError):
        torch.set_grad_enabled(1)
    assert torch.is_grad_enabled()
