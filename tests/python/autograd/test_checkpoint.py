"""utils.checkpoint: the same gradients, computed twice and kept once."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

both_ways = pytest.mark.parametrize("use_reentrant", [False, True])


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([0.5, 1.0, 2.0], requires_grad=True)


def gradient(function, x):
    x.grad = None
    function(x).sum().backward()
    return x.grad.tolist()


def block(a):
    return (a.sin() * 2).exp()


@both_ways
def test_gradients_are_the_same(x, use_reentrant) -> None:
    expected = gradient(block, x)
    assert gradient(lambda a: checkpoint(block, a, use_reentrant=use_reentrant), x) == expected


@both_ways
def test_the_function_runs_once_more_in_each_backward(x, use_reentrant) -> None:
    calls = []

    def counted(a):
        calls.append(torch.is_grad_enabled())
        return block(a)

    y = checkpoint(counted, x, use_reentrant=use_reentrant).sum()
    assert len(calls) == 1
    y.backward(retain_graph=True)
    y.backward()
    assert len(calls) == 3 and calls[1:] == [True, True]


@both_ways
def test_random_numbers_are_the_same(x, use_reentrant) -> None:
    def noisy(a):
        return a * torch.rand(3)

    torch.manual_seed(0)
    expected = gradient(noisy, x)
    torch.manual_seed(0)
    y = checkpoint(noisy, x, use_reentrant=use_reentrant)
    after = torch.get_rng_state()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == expected
    assert torch.equal(torch.get_rng_state(), after)


def test_saved_tensors_are_not_kept(x) -> None:
    kept = []

    def remember(a):
        b = a.exp()
        kept.append(weakref.ref(b))
        return b * b

    gc.disable()
    try:
        y = checkpoint(remember, x, use_reentrant=False)
        assert kept[0]() is None
        y.sum().backward()
        assert kept[1]() is None
    finally:
        gc.enable()


def test_grad_and_second_derivatives(x) -> None:
    y = checkpoint(lambda a: a**3, x, use_reentrant=False).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [3.0, 6.0, 12.0]


def test_keyword_arguments_and_structures(x) -> None:
    def function(pair, *, scale):
        return {"out": pair[0] * scale + pair[1]}

    out = checkpoint(function, (x, 1.0), scale=x, use_reentrant=False)["out"]
    out.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 4.0]


def test_nested_checkpoints(x) -> None:
    def outer(a):
        return checkpoint(block, a.cos(), use_reentrant=False) * a

    expected = gradient(lambda a: block(a.cos()) * a, x)
    assert gradient(lambda a: checkpoint(outer, a, use_reentrant=False), x) == expected


def test_early_stop(x) -> None:
    reached = []

    def function(a):
        b = a.sin().cos()
        reached.append("end")
        return b

    for early, runs in ((True, 1), (False, 2)):
        reached.clear()
        with set_checkpoint_early_stop(early):
            y = checkpoint(function, x, use_reentrant=False)
        y.sum().backward()
        assert len(reached) == runs


def test_context_fn(x) -> None:
    entered = []

    @contextlib.contextmanager
    def note(name):
        entered.append(name)
        yield

    y = checkpoint(
        block, x, use_reentrant=False, context_fn=lambda: (note("forward"), note("again"))
    )
    y.sum().backward()
    assert entered == ["forward", "again"]


def changing(first, then):
    calls = []

    def function(a):
        calls.append(1)
        return (first if len(calls) == 1 else then)(a)

    return function


@pytest.mark.parametrize(
    "first, then, message",
    [
        (lambda a: a[:2].sin().cos(), lambda a: a.sin().cos(), "different metadata"),
        (lambda a: a.sin().cos(), lambda a: a.sin(), "A different number of tensors was saved"),
    ],
)
def test_functions_that_change_are_found_out(x, first, then, message) -> None:
    y = checkpoint(changing(first, then), x, use_reentrant=False)
    with pytest.raises(CheckpointError, match=message):
        y.sum().backward()


def test_more_tensors_than_before_are_found_without_early_stop(x) -> None:
    function = changing(lambda a: a.sin(), lambda a: a.sin().cos())
    with set_checkpoint_early_stop(False):
        y = checkpoint(function, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="more tensors during recomputation"):
        y.sum().backward()


def test_debug_names_lines(x) -> None:
    function = changing(lambda a: a[:2].sin(), lambda a: a.sin())
    y = checkpoint(function, x, use_reentrant=False, debug=True)
    with pytest.raises(CheckpointError, match="test_debug_names_lines"):
        y.sum().backward()


def test_errors(x) -> None:
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        checkpoint(block, x, use_reentrant=True, k=1)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(block, x, use_reentrant=False, determinism_check="sometimes")
    with pytest.raises(ValueError, match="use_reentrant=False"):
        checkpoint(block, x, use_reentrant=True, debug=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad"):
        torch.autograd.grad(checkpoint(block, x, use_reentrant=True).sum(), x)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        checkpoint(lambda a: a.detach() * 2, x, use_reentrant=True).sum().backward()


def test_warnings(x) -> None:
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(block, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(block, x.detach(), use_reentrant=True)


def test_decorator(x) -> None:
    decorated = checkpoint(use_reentrant=False)(block)
    assert decorated.__name__ == "block"
    assert gradient(decorated, x) == gradient(block, x)


@both_ways
def test_sequential(x, use_reentrant) -> None:
    functions = [torch.sin, torch.cos, torch.exp, torch.tanh]
    expected = gradient(lambda a: a.sin().cos().exp().tanh(), x)
    for segments in (1, 2, 4):
        got = gradient(
            lambda a, n=segments: checkpoint_sequential(
                functions, n, a, use_reentrant=use_reentrant
            ),
            x,
        )
        assert got == expected
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    assert gradient(
        lambda a: checkpoint_sequential(model, 2, a, use_reentrant=use_reentrant), x
    ) == gradient(model, x)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_autocast_holds_when_the_function_runs_again(use_reentrant):
    seen = []

    def function(x, y):
        product = x @ y
        seen.append(product.dtype)
        return product.float().exp()

    x, y = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = checkpoint(function, x, y, use_reentrant=use_reentrant).sum()
    loss.backward()
    assert seen == [torch.bfloat16, torch.bfloat16]

    seen.clear()
    loss = checkpoint(function, x, y, use_reentrant=use_reentrant).sum()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss.backward()
    assert seen == [torch.float32, torch.float32]


def test_a_context_cannot_hold_back_what_forward_raises():
    def contexts():
        return contextlib.suppress(ValueError), contextlib.nullcontext()

    def fails(x):
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        checkpoint(
            fails, torch.ones(2, requires_grad=True), use_reentrant=False, context_fn=contexts
        )
