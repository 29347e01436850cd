"""Hooks of modules, and hooks of all modules."""

from __future__ import annotations

import copy
import gc
import weakref
from collections import OrderedDict
from typing import Any, NamedTuple

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.modules import module as module_file


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor, k: float = 1) -> torch.Tensor:
        return x * self.w * k


def leaf() -> torch.Tensor:
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_forward_hooks_see_and_change_inputs_and_outputs() -> None:
    module, x = Scale(), leaf()
    pre = module.register_forward_pre_hook(lambda m, args: (args[0] * 10,))
    post = module.register_forward_hook(lambda m, args, out: out + args[0].sum())
    assert module(x).tolist() == [50, 90]
    pre.remove()
    post.remove()
    assert module(x).tolist() == [2, 6]
    with module.register_forward_pre_hook(lambda m, args: args[0] * 10):
        assert module(x).tolist() == [20, 60]
    assert module(x).tolist() == [2, 6]


def test_hooks_with_keywords() -> None:
    module, x = Scale(), leaf()
    seen: list[Any] = []
    module.register_forward_pre_hook(lambda m, a, k: (a, {"k": 7}), with_kwargs=True)
    module.register_forward_hook(lambda m, a, k, out: seen.append(k), with_kwargs=True)
    assert module(x, k=3).tolist() == [14, 42]
    assert seen == [{"k": 7}]
    module.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        module(x)


def test_hooks_run_in_order_and_can_be_put_first() -> None:
    module, order = Scale(), []
    module.register_forward_hook(lambda *a: order.append("second"))
    module.register_forward_hook(lambda *a: order.append("first"), prepend=True)
    module(leaf())
    assert order == ["first", "second"]


def test_always_called_hooks_run_when_forward_raises() -> None:
    module, seen = Scale(), []
    module.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, a, out: seen.append("never"))
    with pytest.raises(TypeError):
        module(leaf(), 1, 2, 3)
    assert seen == [None]

    def failing(*args: Any) -> None:
        raise ValueError("hook")

    module.register_forward_hook(failing, always_call=True)
    with pytest.warns(UserWarning, match="always_call=True"), pytest.raises(TypeError):
        module(leaf(), 1, 2, 3)


def test_full_backward_hooks_see_and_change_gradients() -> None:
    module, x, seen = Scale(), leaf(), []

    def hook(m: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 100,)

    handle = module.register_full_backward_hook(hook)
    module(x).sum().backward()
    assert seen == [([2.0, 3.0], [1.0, 1.0])]
    assert x.grad.tolist() == [200, 300]
    handle.remove()
    x.grad = None
    module.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 10,))
    module(x).sum().backward()
    assert x.grad.tolist() == [20, 30]


def test_full_backward_hooks_fire_when_no_input_needs_a_gradient() -> None:
    module, seen = Scale(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        module(leaf().detach()).sum().backward()
    assert seen == [((None,), [1.0, 1.0])]


def test_backward_hooks_that_return_too_much_are_told() -> None:
    module = Scale()
    handle = module.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        module(leaf()).sum().backward()
    handle.remove()
    module.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
    with pytest.raises(RuntimeError, match="invalid number of grad_output"):
        module(leaf()).sum().backward()


def test_the_two_kinds_of_backward_hooks_do_not_mix() -> None:
    module = Scale()
    module.register_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Cannot use both"):
        module.register_backward_hook(lambda *a: None)


def test_hooks_are_not_recorded_without_gradients() -> None:
    module = Scale()
    module.register_full_backward_hook(lambda *a: None)
    with torch.no_grad():
        assert module(leaf()).grad_fn is None


def test_global_hooks_see_every_module() -> None:
    seen: list[str] = []
    handles = [
        module_file.register_module_forward_pre_hook(lambda m, a: seen.append("pre")),
        module_file.register_module_forward_hook(lambda m, a, o: seen.append("post")),
        module_file.register_module_full_backward_pre_hook(lambda m, go: seen.append("bpre")),
        module_file.register_module_full_backward_hook(lambda m, gi, go: seen.append("bwd")),
    ]
    try:
        Scale()(leaf()).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["pre", "post", "bpre", "bwd"]
    Scale()(leaf()).sum().backward()
    assert len(seen) == 4


def test_registration_hooks_see_new_members() -> None:
    seen: list[str] = []
    handles = [
        module_file.register_module_parameter_registration_hook(
            lambda m, name, p: seen.append("parameter " + name)
        ),
        module_file.register_module_buffer_registration_hook(
            lambda m, name, b: seen.append("buffer " + name)
        ),
        module_file.register_module_module_registration_hook(
            lambda m, name, c: seen.append("module " + name)
        ),
    ]
    try:
        nn.Sequential(nn.PReLU()).register_buffer("b", None)
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["parameter weight", "module 0", "buffer b"]


def test_handles_do_not_keep_modules_alive() -> None:
    module = Scale()
    handle = module.register_forward_hook(lambda *a: None)
    del module
    handle.remove()
    handle.remove()


class Halves(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


class Split(nn.Module):
    def forward(self, x: torch.Tensor) -> Halves:
        return Halves(x / 2, x * 2)


def test_backward_hooks_leave_a_named_tuple_one() -> None:
    module = Split()
    seen: list[Any] = []
    module.register_full_backward_hook(lambda _module, _grad_in, grad_out: seen.append(grad_out))
    out = module(torch.ones(2, requires_grad=True))
    assert isinstance(out, Halves)
    out.high.sum().backward()
    assert len(seen) == 1 and seen[0][1].tolist() == [1.0, 1.0]


def test_assigning_an_empty_registry_removes_the_global_hooks() -> None:
    calls: list[nn.Module] = []
    registry = module_file._global_forward_hooks
    nn.modules.module.register_module_forward_hook(lambda module, _args, _out: calls.append(module))
    module_file._global_forward_hooks = OrderedDict()
    nn.ReLU()(torch.ones(1))
    assert calls == []
    assert module_file._global_forward_hooks is registry and not registry


def test_a_load_state_dict_pre_hook_does_not_keep_its_module_alive() -> None:
    module = nn.Linear(2, 2)
    module.register_load_state_dict_pre_hook(lambda *_args: None)
    alive = weakref.ref(module)
    gc.disable()
    try:
        del module
        assert alive() is None
    finally:
        gc.enable()


def test_a_copied_module_hands_its_load_state_dict_pre_hook_the_copy() -> None:
    given: list[nn.Module] = []
    module = nn.Linear(2, 2)
    module.register_load_state_dict_pre_hook(lambda owner, *_args: given.append(owner))
    copied = copy.deepcopy(module)
    copied.load_state_dict(module.state_dict())
    assert given == [copied]


def test_a_full_backward_hook_may_return_none_for_each_gradient() -> None:
    module = nn.Linear(2, 1)
    module.register_full_backward_hook(lambda _module, grad_in, _grad_out: grad_in)
    module(torch.ones(1, 2)).sum().backward()
    assert module.weight.grad is not None
    module.register_full_backward_hook(lambda *_args: (torch.ones(1, 2),))
    with pytest.raises(RuntimeError, match="None for all gradients"):
        module(torch.ones(1, 2)).sum().backward()


def test_what_older_backward_hooks_miss_is_told_by_what_they_take_first() -> None:
    class Apart(nn.Module):
        def forward(self, pair: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            return pair[0].clone(), pair[1].clone()

    module, x = Apart(), torch.ones(2, requires_grad=True)
    module.register_backward_hook(lambda module, into, out: None)
    words = "Using non-full backward hooks on a Module that does not take as input a single Tensor"
    with pytest.warns(FutureWarning, match=words):
        module([x, x])
