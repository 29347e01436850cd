"""Hooks that mention their own tensor: the ring is collected, once nothing else holds it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import flambeau as torch


class Sentinel:
    """Something whose death can be seen."""


@pytest.mark.parametrize("runs_backward", [False, True])
def test_a_ring_through_a_hook_is_collected(runs_backward: bool) -> None:
    def make() -> weakref.ref[Sentinel]:
        middle = torch.ones(3, requires_grad=True).exp()
        sentinel = Sentinel()

        def hook(*args: Any) -> None:
            calls.append((middle, sentinel)[0].shape)

        middle.register_hook(hook)
        if runs_backward:
            (middle * 2).sum().backward()
        return weakref.ref(sentinel)

    calls: list[Any] = []
    seen = make()
    assert len(calls) == runs_backward
    gc.collect()
    assert seen() is None


def test_a_leaf_with_a_hook_is_collected() -> None:
    def make() -> weakref.ref[Sentinel]:
        leaf, sentinel = torch.ones(3, requires_grad=True), Sentinel()
        ring = (leaf, sentinel)
        leaf.register_hook(lambda grad: grad * len(ring))
        (leaf * 2).sum().backward()
        return weakref.ref(sentinel)

    seen = make()
    gc.collect()
    assert seen() is None


def test_a_graph_keeps_the_hooks_in_it() -> None:
    count = []

    def make() -> torch.Tensor:
        middle = torch.ones(3, requires_grad=True).exp()
        middle.register_hook(lambda grad: count.append(middle.shape))
        return (middle * 2).sum()

    out = make()
    gc.collect()
    out.backward(retain_graph=True)
    gc.collect()
    out.backward()
    assert len(count) == 2


def test_a_tensor_that_is_held_keeps_its_hooks() -> None:
    middle = torch.ones(3, requires_grad=True).exp()
    middle.register_hook(lambda grad: grad * len(middle))
    node = middle.grad_fn
    gc.collect()
    assert torch.autograd.grad(middle.sum(), middle)[0].tolist() == [3, 3, 3]
    assert node is middle.grad_fn


def test_many_rings_do_not_add_up() -> None:
    def step() -> None:
        middle = torch.ones(1000, requires_grad=True).exp()
        middle.register_hook(lambda grad: middle * 0)
        (middle * 2).sum().backward()

    gc.collect()
    before = len([o for o in gc.get_objects() if isinstance(o, torch.Tensor)])
    for _ in range(50):
        step()
    gc.collect()
    assert len([o for o in gc.get_objects() if isinstance(o, torch.Tensor)]) <= before


def test_the_running_node_is_known() -> None:
    x = torch.ones(2, requires_grad=True)
    names = []

    def unpack(value: torch.Tensor) -> torch.Tensor:
        names.append(torch._C._current_autograd_node().name())
        return value

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        x.sin().exp().sum().backward()
    assert names == ["ExpBackward0", "SinBackward0"]
    assert torch._C._current_autograd_node() is None
    assert isinstance(x.exp().grad_fn.next_functions[0][0], torch._C._functions.AccumulateGrad)


def test_an_argument_of_a_subclass_that_is_returned_keeps_its_class() -> None:
    class Wrapped(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad

    x = torch.ones(2).as_subclass(Wrapped)
    y = Same.apply(x)
    assert isinstance(y, Wrapped)
    assert y is not x


def test_a_tensor_in_a_graph_keeps_its_attributes_when_a_ring_around_it_is_collected() -> None:
    x = torch.ones(2, requires_grad=True).clone()
    x.note = "kept"  # type: ignore[attr-defined]
    ring: list[Any] = [x]
    ring.append(ring)
    y = x**2
    del x, ring
    gc.collect()
    assert y.grad_fn._saved_self.note == "kept"  # type: ignore[union-attr]


def test_a_ring_of_attributes_lives_as_long_as_a_gradient_is_in_it() -> None:
    def make() -> tuple[torch.Tensor, weakref.ref[Sentinel]]:
        owner, inner, outer = torch.ones(2), torch.ones(2), torch.ones(2)
        inner.other, outer.other = outer, inner  # type: ignore[attr-defined]
        outer.sentinel = Sentinel()  # type: ignore[attr-defined]
        owner.grad = inner
        return owner, weakref.ref(outer.sentinel)  # type: ignore[attr-defined]

    owner, seen = make()
    gc.collect()
    assert seen() is not None
    del owner
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("on_node", [True, False])
def test_a_hook_that_holds_the_node_it_is_on_dies_with_the_graph(on_node: bool) -> None:
    calls: list[Any] = []

    def build() -> tuple[torch.Tensor, weakref.ref[Sentinel]]:
        sentinel = Sentinel()
        middle = torch.ones(2, requires_grad=True).clone()
        node = middle.grad_fn

        def hook(*_: Any) -> None:
            calls.append((node, sentinel))

        (node if on_node else middle).register_hook(hook)
        return middle.sum(), weakref.ref(sentinel)

    out, seen = build()
    gc.collect()
    out.backward(retain_graph=True)
    assert len(calls) == 1 and seen() is not None
    calls.clear()
    del out
    gc.collect()
    assert seen() is None
