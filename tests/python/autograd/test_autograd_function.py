"""Custom functions in both styles."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.autograd import Function
from flambeau.autograd.function import once_differentiable


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Scale(Function):
    @staticmethod
    def forward(x, factor=2.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_gradients_of_both_styles(x) -> None:
    assert torch.autograd.gradcheck(Exp.apply, x.detach().double().requires_grad_())
    assert torch.autograd.gradgradcheck(Exp.apply, x.detach().double().requires_grad_())
    Scale.apply(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_the_node_is_the_context(x) -> None:
    y = Scale.apply(x, 3.0)
    assert y.grad_fn.factor == 3.0
    assert type(y.grad_fn).__name__ == "ScaleBackward" and y.grad_fn.name() == "ScaleBackward"
    assert "grad_fn=<ScaleBackward>" in repr(y)
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)


def test_defaults_and_keywords(x) -> None:
    assert Scale.apply(x).tolist() == [2.0, 4.0]
    assert Scale.apply(factor=5.0, x=x).tolist() == [5.0, 10.0]
    with pytest.raises(TypeError, match="missing a required argument"):
        Scale.apply(factor=5.0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Exp.apply(x, other=1)


def test_no_history_without_need(x) -> None:
    assert Exp.apply(x.detach()).grad_fn is None
    with torch.no_grad():
        assert not Exp.apply(x).requires_grad


def test_needs_input_grad_and_modes(x) -> None:
    seen = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, a, b, c):
            seen.append((ctx.needs_input_grad, torch.is_grad_enabled(), a is x))
            return a * b

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.is_grad_enabled())
            return grad, None, None

    y = Probe.apply(x, torch.ones(2), "text")
    y.sum().backward(retain_graph=True)
    torch.autograd.grad(y.sum(), x, create_graph=True)
    assert seen == [((True, False, False), False, True), False, True]


def test_other_outputs_pass_through(x) -> None:
    class Mixed(Function):
        @staticmethod
        def forward(ctx, a):
            mask = a > 1
            ctx.mark_non_differentiable(mask)
            return a * 2, mask, None, "text"

        @staticmethod
        def backward(ctx, grad, *others):
            return grad * 2

    doubled, mask, nothing, text = Mixed.apply(x)
    assert doubled.requires_grad and not mask.requires_grad
    assert nothing is None and text == "text"
    doubled.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("materialize", [True, False])
def test_gradients_of_unused_outputs(x, materialize) -> None:
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(materialize)
            return a * 2, a * 3

        @staticmethod
        def backward(ctx, one, two):
            seen.append(two)
            return one

    Two.apply(x)[0].sum().backward()
    if materialize:
        assert seen[0].tolist() == [0.0, 0.0]
    else:
        assert seen == [None]


def test_dirty_inputs(x) -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    y = x * 1
    z = Double.apply(y)
    assert z is y and type(y.grad_fn).__name__ == "DoubleBackward"
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Double.apply(torch.ones(2, requires_grad=True))


def test_an_input_returned_as_it_is_becomes_an_output(x) -> None:
    class Identity(Function):
        @staticmethod
        def forward(ctx, a):
            return a

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    y = Identity.apply(x)
    assert y is not x and y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_once_differentiable(x) -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            assert not torch.is_grad_enabled()
            return grad * 2 * ctx.saved_tensors[0]

    weight = torch.ones(2, requires_grad=True)
    (first,) = torch.autograd.grad(Square.apply(x), x, weight, create_graph=True)
    assert first.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        first.sum().backward()


def test_saved_tensors_are_checked_and_freed(x) -> None:
    y = Exp.apply(x)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = Exp.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn.saved_tensors  # noqa: B018


def make(returned):
    class Broken(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            return returned(grad)

    return Broken


BROKEN = (
    (lambda g: g, RuntimeError, "incorrect number of gradients \\(expected 2, got 1\\)"),
    (lambda g: (g, g, g), RuntimeError, "incorrect number of gradients"),
    (lambda g: (3, None), RuntimeError, "got int"),
    (lambda g: (torch.ones(5), None), RuntimeError, "returned an invalid gradient at index 0"),
    (lambda g: (g, g), RuntimeError, "different than None at position 2"),
    (lambda g: 1 / 0, ZeroDivisionError, "division"),
)


@pytest.mark.parametrize("returned, kind, message", BROKEN, ids=[m for _, _, m in BROKEN])
def test_broken_backwards(returned, kind, message, x) -> None:
    with pytest.raises(kind, match=message):
        make(returned).apply(x, "text").sum().backward()


def test_extra_nones_are_allowed(x) -> None:
    make(lambda g: (g, None, None)).apply(x, "text").sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_missing_methods(x) -> None:
    class Empty(Function):
        pass

    class NoBackward(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

    with pytest.raises(NotImplementedError, match="forward"):
        Empty.apply(x)
    with pytest.raises(NotImplementedError, match="either the backward or vjp"):
        NoBackward.apply(x).sum().backward()


def test_vjp_is_another_name_for_backward(x) -> None:
    class ByVjp(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

    ByVjp.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_functions_are_not_instantiated(x) -> None:
    with pytest.warns(DeprecationWarning):
        instance = Exp()
    with pytest.raises(RuntimeError, match="static forward"):
        instance(x)


def test_wrong_things_to_save(x) -> None:
    class Saver(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a, 3)
            return a * 2

    with pytest.raises(TypeError, match="can only save variables, but argument 1 is of type int"):
        Saver.apply(x)


def test_nothing_is_kept_alive(x) -> None:
    gc.disable()
    try:
        y = Exp.apply(x * 1)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_marking_shared_storage_is_not_needed_any_more() -> None:
    with pytest.warns(FutureWarning, match="mark_shared_storage is deprecated"):
        torch.autograd.function.FunctionCtx().mark_shared_storage()


def test_class_methods_with_defaults_and_setup_context() -> None:
    class Power(torch.autograd.Function):
        @classmethod
        def forward(cls, x, exponent=3):
            return x**exponent

        @classmethod
        def setup_context(cls, ctx, inputs, output):
            x, ctx.exponent = inputs
            ctx.save_for_backward(x)

        @classmethod
        def backward(cls, ctx, grad):
            return grad * ctx.exponent * ctx.saved_tensors[0] ** (ctx.exponent - 1), None

    x = torch.tensor(2.0, requires_grad=True)
    Power.apply(x).backward()
    assert x.grad == 12


def test_an_output_that_is_no_input_may_be_called_dirty() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x * 2
            ctx.mark_dirty(result)
            return result

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
