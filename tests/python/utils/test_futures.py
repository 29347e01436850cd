"""Futures: what callbacks raise, and what arrives when."""

import pytest

import flambeau as torch
from flambeau.futures import Future, collect_all, wait_all


def fail(future):
    raise ValueError("expected")


def test_a_callback_that_raises_fails_what_waits_for_it_and_nothing_else(capsys):
    future: Future = Future()
    seen = []
    future.add_done_callback(fail)
    future.add_done_callback(lambda done: seen.append(done.value()))
    after = future.then(fail)
    future.set_result(5)
    assert future.wait() == 5 and seen == [5]
    assert "when running the callback: ValueError: expected" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="when running the callback: ValueError: expected"):
        after.wait()


def test_a_future_is_completed_once_and_is_not_pickled():
    future: Future = Future()
    future.set_exception(ValueError("expected"))
    with pytest.raises(ValueError, match="expected"):
        future.value()
    with pytest.raises(RuntimeError, match="can only be marked completed once"):
        future.set_result(1)
    with pytest.raises(RuntimeError, match="Can not pickle"):
        torch.save(future, "/dev/null")
    with pytest.raises(RuntimeError, match="Future can't be None"):
        torch.jit.wait(None)


def test_one_exception_among_many_futures_is_raised():
    good: Future = Future()
    bad: Future = Future()
    together = collect_all([good, bad])
    good.set_result(1)
    assert wait_all([good]) == [1] and not together.done()
    bad.set_exception(ValueError("expected"))
    for wait in (together.wait, lambda: wait_all([good, bad])):
        with pytest.raises(ValueError, match="expected"):
            wait()
