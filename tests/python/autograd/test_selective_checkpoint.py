"""Selective checkpoints, dispatch modes, and derivatives inside of checkpoints."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.utils import checkpoint as module
from flambeau.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from flambeau.utils.checkpoint import checkpoint, set_checkpoint_early_stop

aten = torch.ops.aten
Policy = module.CheckpointPolicy


class Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return return_and_correct_aliasing(func, args, kwargs, func(*args, **(kwargs or {})))


def selective(function: Any, *args: Any, policy: Any, **options: Any) -> Any:
    make = functools.partial(module.create_selective_checkpoint_contexts, policy, **options)
    return checkpoint(function, *args, use_reentrant=False, context_fn=make)


def network(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.linear(F.relu(F.linear(x, w, b)) @ w, w).sin() * x


def arguments() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return tuple(torch.randn(*size, requires_grad=True) for size in ((3, 4), (4, 4), (4,)))


def test_a_dispatch_mode_sees_pytorchs_operators() -> None:
    x, w, b = (t.detach() for t in arguments())
    with Log() as log:
        result = network(x, w, b)
        x[0], x > 1, x + 1, x.sum(0), x.view(12), x.mul_(1)
    assert log.names[:8] == [
        "aten.t.default",
        "aten.addmm.default",
        "aten.relu.default",
        "aten.mm.default",
        "aten.t.default",
        "aten.mm.default",
        "aten.sin.default",
        "aten.mul.Tensor",
    ]
    assert log.names[8:] == [
        "aten.select.int",
        "aten.gt.Scalar",
        "aten.add.Tensor",
        "aten.sum.dim_IntList",
        "aten.view.default",
        "aten.mul_.Tensor",
    ]
    assert torch.equal(result, network(x, w, b))


@pytest.mark.parametrize("kept", [[], [aten.mm.default], [aten.addmm.default, aten.sin.default]])
def test_gradients_are_those_without_a_checkpoint(kept: list[Any]) -> None:
    inputs = arguments()
    expected = torch.autograd.grad(network(*inputs).sum(), inputs)
    out = selective(network, *inputs, policy=kept)
    for a, b in zip(expected, torch.autograd.grad(out.sum(), inputs)):
        assert torch.equal(a, b)


def test_what_is_kept_is_not_computed_again() -> None:
    counts = []
    for kept in ([], [aten.mm.default]):
        out = selective(network, *arguments(), policy=kept)
        with Log() as log:  # which sees what gradients are computed by, too
            out.sum().backward()
        counts.append([log.names.count(f"aten.{name}.default") for name in ("mm", "addmm")])
    assert counts[1] == [counts[0][0] - 2, counts[0][1]] and counts[0][1] == 1


def test_a_policy_is_told_the_operator_and_its_result() -> None:
    seen = []

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> Policy:
        seen.append((op, context.op_output.shape, context.is_recompute))
        return Policy.MUST_SAVE if op in (aten.mm.default,) else Policy.PREFER_RECOMPUTE

    inputs = arguments()
    selective(network, *inputs, policy=policy).sum().backward()
    assert len(seen) == 8
    assert seen[1] == (aten.addmm.default, (3, 4), False)


def test_random_operators_and_writes_are_computed_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = F.dropout(x.sin(), 0.5)
        return F.dropout(y.mul_(2).cos(), 0.5).sin()

    x = torch.randn(20, requires_grad=True)
    torch.manual_seed(3)
    expected = torch.autograd.grad(function(x).sum(), x)[0]
    torch.manual_seed(3)
    out = selective(function, x, policy=lambda *a, **k: Policy.MUST_SAVE)
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], expected)


def test_what_is_kept_must_not_be_written_into() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        z = y.exp()
        with torch.no_grad():
            y.zero_()
        return z.cos()

    x = torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="has been mutated"):
        selective(function, x, policy=[aten.sin.default]).sum().backward()


def test_what_follows_something_kept_may_write_into_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin().mul_(2).cos().exp()

    x = torch.zeros(3, requires_grad=True)  # twice nothing stays nothing
    out = selective(function, x, policy=[aten.sin.default], allow_cache_entry_mutation=True)
    expected = torch.autograd.grad(function(x).sum(), x)[0]
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], expected)


def test_several_results_are_kept_together() -> None:
    x = torch.randn(6, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        var, mean = torch.var_mean(x.sin())
        return (var * mean).exp()

    out = selective(function, x, policy=[aten.var_mean.correction])
    expected = torch.autograd.grad(function(x), x)[0]
    assert torch.equal(torch.autograd.grad(out, x)[0], expected)


def test_only_one_pass_is_allowed() -> None:
    out = selective(torch.sin, torch.randn(3, requires_grad=True), policy=[aten.sin.default]).exp()
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        out.sum().backward()


def test_bad_policies() -> None:
    with pytest.raises(ValueError, match="OpOverload"):
        module.create_selective_checkpoint_contexts([aten.mm])
    with pytest.raises(TypeError, match="function or a list"):
        module.create_selective_checkpoint_contexts({aten.mm.default})


@pytest.mark.parametrize("early_stop", [True, False])
def test_a_derivative_inside_of_a_checkpoint(early_stop: bool) -> None:
    def derivative(function: Any) -> Any:
        def wrapped(x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                return torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]

        return wrapped

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin().exp()

    def checkpointed(function: Any) -> Any:
        return lambda x: checkpoint(function, x, use_reentrant=False)

    x = torch.randn(3, requires_grad=True)
    expected = derivative(derivative(inner))(x)
    with set_checkpoint_early_stop(early_stop):
        nested = derivative(checkpointed(derivative(checkpointed(inner))))
        torch.testing.assert_close(nested(x), expected)
