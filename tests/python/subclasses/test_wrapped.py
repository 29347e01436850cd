"""Tensors whose class answers for operators: `_make_wrapper_subclass` and `__torch_dispatch__`."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor
from flambeau.utils._pytree import tree_map

aten = torch.ops.aten
seen: list[str] = []


class Wrapper(Tensor):
    """Has no values but those of the tensor inside, and tells what it was asked for."""

    inside: Tensor

    @staticmethod
    def __new__(cls: Any, inside: Tensor, requires_grad: bool = False) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=inside.device,
            requires_grad=requires_grad,
        )
        made.inside = inside
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(str(func))
        assert not torch.is_grad_enabled()
        opened = tree_map(lambda x: x.inside if isinstance(x, Wrapper) else x, (args, kwargs or {}))
        result = func(*opened[0], **opened[1])
        return tree_map(lambda x: cls(x) if isinstance(x, Tensor) else x, result)


def wrapped(*shape: int) -> Any:
    return Wrapper(torch.rand(*shape, dtype=torch.float64) + 0.2)


def asked(function: Callable[[], Any]) -> list[str]:
    seen.clear()
    function()
    return list(seen)


def test_it_says_what_it_was_given_and_asks_nobody() -> None:
    x = Tensor._make_wrapper_subclass(
        Wrapper, (2, 3), strides=(1, 2), dtype=torch.float16, device="meta", requires_grad=True
    )
    assert asked(lambda: (x.shape, x.dtype, x.is_contiguous(), x.numel(), x.is_leaf)) == []
    assert x.shape == (2, 3) and x.stride() == (1, 2) and x.dtype is torch.float16
    assert x.device.type == "meta" and x.requires_grad and x.nbytes == 12
    assert repr(x).startswith("Wrapper(")
    plain = Tensor._make_wrapper_subclass(Wrapper, [2, 3])
    assert plain.dtype is torch.float32 and plain.stride() == (3, 1)
    last = Tensor._make_wrapper_subclass(Wrapper, (1, 2, 3, 3), memory_format=torch.channels_last)
    assert last.stride() == (18, 1, 6, 2)


def test_what_is_made_like_it_wants_a_gradient_and_what_is_inside_does_not() -> None:
    x = wrapped(3)
    made: list[Any] = [
        torch.zeros_like(x, requires_grad=True),
        torch.rand_like(x, requires_grad=True),
        x.new_ones(2, requires_grad=True),
    ]
    assert all(y.requires_grad and y.is_leaf for y in made)
    assert not any(y.inside.requires_grad for y in made)
    assert not torch.zeros_like(x, requires_grad=False).requires_grad


def test_products_with_jacobians_of_functions_of_it() -> None:
    x, ones = wrapped(3), Wrapper(torch.ones(3, dtype=torch.float64))
    _, product = torch.autograd.functional.jvp(lambda a: a**3, x, ones)
    assert torch.allclose(product.inside, 3 * x.inside**2)
    _, product = torch.autograd.functional.hvp(lambda a: a.exp().sum(), x, ones)
    assert torch.allclose(product.inside, x.inside.exp())


def test_what_cannot_be_made() -> None:
    class Plain(Tensor):
        pass

    with pytest.raises(TypeError, match="Plain must define __torch_dispatch__"):
        Tensor._make_wrapper_subclass(Plain, (2,))
    with pytest.raises(TypeError, match="cls must be a type"):
        Tensor._make_wrapper_subclass(3, (2,))
    with pytest.raises(TypeError, match="must be tuple of ints, not str"):
        Tensor._make_wrapper_subclass(Wrapper, "x")


CALLS: list[tuple[Callable[[Any], Any], list[str]]] = [
    (lambda x: x + 1, ["aten.add.Tensor"]),
    (lambda x: 1 - x, ["aten.rsub.Scalar"]),
    (lambda x: 2 / x, ["aten.reciprocal.default", "aten.mul.Tensor"]),
    (lambda x: x**2, ["aten.pow.Tensor_Scalar"]),
    (lambda x: 2**x, ["aten.pow.Scalar"]),
    (lambda x: x.T, ["aten.permute.default"]),
    (lambda x: x.mT, ["aten.transpose.int"]),
    (lambda x: x @ x.t(), ["aten.t.default", "aten.mm.default"]),
    (lambda x: x.reshape(3, 2), ["aten.view.default"]),
    (
        lambda x: x.t().reshape(6),
        ["aten.t.default", "aten.clone.default", "aten._unsafe_view.default"],
    ),
    (lambda x: x[0, 1:], ["aten.select.int", "aten.slice.Tensor"]),
    (lambda x: x[None], ["aten.unsqueeze.default"]),
    (lambda x: x[...], ["aten.alias.default"]),
    (lambda x: x[torch.tensor([1, 0])], ["aten.index.Tensor"]),
    (lambda x: x.float(), ["aten._to_copy.default"]),
    (lambda x: x.double(), []),
    (lambda x: x.contiguous(), []),
    (lambda x: x.to("cpu"), []),
    (lambda x: x.data, ["aten.detach.default"]),
    (lambda x: x.sum(1), ["aten.sum.dim_IntList"]),
    (lambda x: x.sort(stable=True), ["aten.sort.stable"]),
    (lambda x: x.sort(1), ["aten.sort.default"]),
    (lambda x: torch.cat([x, x], out=torch.empty(0).double()), ["aten.cat.out"]),
    (lambda x: x.chunk(2, 1), ["aten.split.Tensor"]),
    (lambda x: list(x), ["aten.unbind.int"]),
    (lambda x: bool(x[0, 0]), ["aten.select.int"] * 2 + ["aten._local_scalar_dense.default"]),
    (lambda x: F.softmax(x, 1), ["aten._softmax.default"]),
    (lambda x: F.gelu(x), ["aten.gelu.default"]),
    (lambda x: F.linear(x, torch.ones(4, 3).double()), ["aten.mm.default"]),
    (
        lambda x: F.linear(x[None], torch.ones(4, 3).double(), torch.ones(4).double()),
        ["aten.unsqueeze.default", "aten.view.default", "aten.addmm.default"]
        + ["aten._unsafe_view.default"],
    ),
    (lambda x: F.layer_norm(x, (3,)), ["aten.native_layer_norm.default"]),
    (
        lambda x: F.cross_entropy(x, torch.tensor([0, 2])),
        ["aten._log_softmax.default", "aten.nll_loss_forward.default"],
    ),
    (
        lambda x: F.conv1d(x[None], torch.ones(1, 2, 2).double()),
        ["aten.unsqueeze.default", "aten.convolution.default"],
    ),
    (lambda x: x.add_(1), ["aten.add_.Tensor"]),
    (lambda x: x.__setitem__(0, 1.0), ["aten.select.int", "aten.fill_.Scalar"]),
    (
        lambda x: x.__setitem__((0, slice(1)), x[0, :1]),
        ["aten.select.int", "aten.slice.Tensor"] * 2 + ["aten.copy_.default"],
    ),
    (lambda x: x.__setitem__(torch.tensor([1]), 0.0), ["aten.index_put_.default"]),
    (lambda x: torch.broadcast_tensors(x, x[0]), ["aten.select.int", "aten.expand.default"]),
    (lambda x: torch.where(x.inside > 1, x, x), ["aten.where.self"]),
    (lambda x: x.where(x.inside > 1, x), ["aten.where.self"]),
]


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_class_is_asked_for_pytorchs_operators(index: int) -> None:
    call, operators = CALLS[index]
    x = wrapped(2, 3)
    wanted = call(x.inside.clone()) if index < 34 else None
    got: list[Any] = []
    assert asked(lambda: got.append(call(x))) == operators
    if isinstance(wanted, Tensor) and isinstance(got[0], Wrapper):
        torch.testing.assert_close(got[0].inside, wanted)


def test_arguments_come_in_the_order_of_the_operator() -> None:
    class Exact(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            arguments.append((func, args[1:], kwargs))
            return super().__torch_dispatch__(func, types, args, kwargs)

    arguments: list[Any] = []
    x = Exact(torch.ones(2, 3))
    (
        x.sum(dim=1, keepdim=True),
        x.view(3, 2),
        x.narrow(1, 0, 2),
        x.to(torch.float64),
        x.sub(x, alpha=2),
    )
    assert arguments[0] == (aten.sum.dim_IntList, ([1], True), {})
    assert arguments[1] == (aten.view.default, ([3, 2],), {})
    assert arguments[2] == (aten.slice.Tensor, (1, 0, 2), {})
    assert arguments[3] == (aten._to_copy.default, (), {"dtype": torch.float64})
    assert arguments[4][2] == {"alpha": 2} and arguments[4][0] is aten.sub.Tensor


# What is differentiated: with two wrapped tensors, and with the tensors inside them.
FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b[0] - b * 2 + (3 - a),
    lambda a, b: a * b / (b + 1) + 2 / a,
    lambda a, b: a**2 + a**1.5 + a**b + 2**a,
    lambda a, b: a @ b.t() + F.linear(a, b, b[:, 0]),
    lambda a, b: torch.addmm(b[0, :2], a, b.t(), beta=2, alpha=3),
    lambda a, b: torch.bmm(a.view(1, 2, 3), b.view(1, 3, 2)) + a.expand(2, 2, 3) @ b.t(),
    lambda a, b: a.mv(b[0]) + b[0].dot(a[1]),
    lambda a, b: a.sum(1) + a.mean() + a.mean(0, keepdim=True).sum() + b.var() + b.var(1),
    lambda a, b: a.exp() + b.log() + a.sqrt() * b.rsqrt() + a.tanh() * b.sigmoid() + a.log1p(),
    lambda a, b: F.relu(a - b) + F.gelu(a) + F.gelu(b, approximate="tanh") + F.silu(a) + a.erf(),
    lambda a, b: F.softmax(a, 1) * F.log_softmax(b, 0),
    lambda a, b: F.layer_norm(a, (3,), b[0], b[1]) + F.layer_norm(b, (2, 3)),
    lambda a, b: F.cross_entropy(a, torch.tensor([0, -100])) + F.mse_loss(a, b),
    lambda a, b: F.cross_entropy(a, torch.tensor([0, 1]), torch.tensor([1.0, 2, 3]).double()),
    lambda a, b: a.view(3, 2).t().reshape(6) + b.T.contiguous().flatten(),
    lambda a, b: a[0] * b[:, 1:2] + a[None] * b[..., 0:2:2] + a[torch.tensor([0, 0])],
    lambda a, b: torch.cat([a, b], 1).sum(0) + torch.stack([a, b]).sum() + a.unbind(1)[0].sum(),
    lambda a, b: torch.maximum(a, b) + torch.minimum(a, b * 2) + a.clamp(0.5, 0.9) + a.abs(),
    lambda a, b: torch.where(torch.tensor([True, False, True]), a, b) + torch.lerp(a, b, 0.3),
    lambda a, b: a.split(2, 1)[0].sum() + b.chunk(2, 1)[1] + a.cumsum(1).sum(),
    lambda a, b: a.gather(1, torch.tensor([[0, 0], [1, 2]])) + b.index_select(1, torch.tensor([1])),
    lambda a, b: F.embedding(torch.tensor([[0, 1], [1, 1]]), a) + b.sin().sum() * b.cos().sum(),
    lambda a, b: a.to(torch.float32).to(torch.float64) + a.masked_fill(torch.ones(3) > 2, 0.0),
    lambda a, b: a.cumprod(1) + b.logsumexp(1, True) + torch.linalg.inv(a @ b.t()).sum(),
    lambda a, b: F.conv1d(a, b[None, :, :2], b[0, :1], padding=1) + a.repeat(2, 1).sum(),
    lambda a, b: F.batch_norm(a, None, None, b[0], b[1], True) + a.sort(1)[0] * b.topk(1)[0],
    lambda a, b: a.detach() * b + a.clone().squeeze(0).unsqueeze(0),
]


@pytest.mark.parametrize("index", range(len(FUNCTIONS)))
def test_derivatives_are_those_of_the_values(index: int) -> None:
    torch.manual_seed(index)
    function = FUNCTIONS[index]
    a, b = (x.requires_grad_() for x in (wrapped(2, 3), wrapped(2, 3)))
    inside = [x.inside.clone().requires_grad_() for x in (a, b)]
    wanted = torch.autograd.grad(function(*inside).square().sum(), inside, allow_unused=True)
    function(a, b).square().sum().backward()
    for x, grad in zip((a, b), wanted, strict=True):
        assert (x.grad is None) == (grad is None)
        if grad is not None:
            assert type(x.grad) is Wrapper
            torch.testing.assert_close(x.grad.inside, grad)


@pytest.mark.parametrize("name", ["mul", "cumsum", "sum", "to"])
def test_gradients_go_back_through_a_change_of_dtype(name: str) -> None:
    x = Wrapper(torch.rand(2, 3)).requires_grad_()
    functions: dict[str, Callable[[Any], Any]] = {
        "mul": lambda v: v * torch.ones(2, 3, dtype=torch.float64),
        "cumsum": lambda v: torch.cumsum(v, 1, dtype=torch.float64),
        "sum": lambda v: v.sum(1, dtype=torch.float64),
        "to": lambda v: v.to(torch.float64) * v,
    }
    inside = x.inside.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(functions[name](inside).sum(), inside)
    (grad,) = torch.autograd.grad(functions[name](x).sum(), x)
    assert type(grad) is Wrapper and grad.dtype is torch.float32
    torch.testing.assert_close(grad.inside, wanted)


def test_gradients_add_up_and_have_derivatives() -> None:
    x = wrapped(2, 3).requires_grad_()
    functions: list[Any] = [lambda v: (v**3).sum(), lambda v: v.cumprod(1).sum()]
    for function in functions:
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        inside = x.inside.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(inside), inside, create_graph=True)
        (wanted,) = torch.autograd.grad(first.square().sum(), inside)
        torch.testing.assert_close(second.inside, wanted)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert type(x.grad) is Wrapper and x.grad.inside.eq(5).all()
    types = []
    x.register_hook(lambda g: types.append(type(g)))
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert types == [Wrapper] and type(y.grad) is Wrapper


@pytest.mark.parametrize("name", ["add_", "mul_", "zero_", "copy_", "sigmoid_", "pow_", "div_"])
def test_writes_have_derivatives(name: str) -> None:
    def function(x: Any, y: Any) -> Any:
        z = x * 1
        arguments = {"zero_": (), "sigmoid_": (), "pow_": (2,)}.get(name, (y,))
        assert getattr(z, name)(*arguments) is z
        return (z * z).sum() + z.exp().sum()

    a, b = (x.requires_grad_() for x in (wrapped(2, 3), wrapped(2, 3)))
    inside = [x.inside.clone().requires_grad_() for x in (a, b)]
    wanted = torch.autograd.grad(function(*inside), inside, allow_unused=True)
    got = torch.autograd.grad(function(a, b), (a, b), allow_unused=True)
    for mine, other in zip(got, wanted, strict=True):
        assert (mine is None) == (other is None)
        if other is not None:
            torch.testing.assert_close(opened(mine), other)


def test_a_write_that_cannot_be_recorded_says_so() -> None:
    x = wrapped(2, 3).requires_grad_()
    y = x * 2
    with pytest.raises(NotImplementedError, match="a write into a view"):
        y[0].add_(1)
    with torch.no_grad():
        assert type(y.add_(1)) is Wrapper
    assert not (x > 1).requires_grad and not x.argmax().requires_grad


def test_derivatives_are_the_ops_own() -> None:
    def value(function: Callable[..., Any], *numbers: float) -> float:
        x = Wrapper(torch.tensor([numbers[0]])).requires_grad_()
        rest = [torch.tensor([number]) for number in numbers[1:]]
        (grad,) = torch.autograd.grad(function(x, *rest).sum(), x)
        return float(opened(grad))

    assert abs(value(lambda x: F.softplus(x, beta=2), -0.7785) - 0.174) < 1e-3
    assert value(torch.maximum, 1.0, 1.0) == value(torch.minimum, 1.0, 1.0) == 0.5
    assert value(torch.clamp, 1.0, 1.0, 2.0) == 0.5


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_a_layer_with_such_a_weight_is_trained(optimizer: str) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 2).double() for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    layers[1].weight = torch.nn.Parameter(Wrapper(layers[1].weight.detach().clone()))
    assert type(layers[1].weight) is Wrapper
    assert isinstance(layers[1].weight, torch.nn.Parameter) and layers[1].weight.requires_grad
    options = {"momentum": 0.9} if optimizer == "SGD" else {"amsgrad": True}
    for layer in layers:
        steps = getattr(torch.optim, optimizer)(
            layer.parameters(), lr=0.1, weight_decay=0.1, **options
        )
        for _ in range(3):
            steps.zero_grad()
            layer(torch.arange(6.0).double().view(2, 3)).square().sum().backward()
            steps.step()
    torch.testing.assert_close(layers[1].weight.inside, layers[0].weight.detach())
    torch.testing.assert_close(opened(layers[1].bias), layers[0].bias.detach())
    assert type(layers[1].float().weight) is Wrapper
    assert layers[1].weight.inside.dtype is torch.float32


def opened(x: Any) -> Tensor:
    return x.inside if isinstance(x, Wrapper) else x.detach()


def test_functions_of_programs_pass_it_on() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.saved_tensors[0]

    x = wrapped(2, 3).requires_grad_()
    Double.apply(x).sum().backward()
    torch.testing.assert_close(x.grad.inside, x.inside)


def test_it_is_copied_and_pickled() -> None:
    x = wrapped(2, 3).requires_grad_()
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
        assert type(made) is Wrapper and made.shape == (2, 3) and made.requires_grad
        torch.testing.assert_close(made.inside, x.inside)
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)["x"].inside, x.inside)


def test_nothing_reads_values_that_are_not_there() -> None:
    x = wrapped(2, 3)
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.numpy()
    assert x.data_ptr() == 0
    with pytest.raises(RuntimeError, match="not allocated yet"):
        x.untyped_storage()
    with (
        pytest.raises(NotImplementedError, match="no values of its own"),
        torch._C._DisableTorchDispatch(),
    ):
        x + 1
    with (
        pytest.raises(NotImplementedError, match="no values of its own"),
        torch._C._DisableTorchDispatch(),
    ):
        x.view(3, 2)


def test_who_is_asked_first_and_nobody_answers() -> None:
    class Silent(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked_types.append(types)
            return NotImplemented

    asked_types: list[Any] = []
    x, silent = wrapped(2), Silent(torch.ones(2).double())
    assert type(x + silent) is Wrapper and asked_types == [(Silent, Wrapper)]
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        silent + 1


def test_a_class_may_answer_with_plain_tensors() -> None:
    class Opening(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*tree_map(lambda x: x.inside if isinstance(x, cls) else x, args))

    x = torch.rand(2, 4, 3)
    layer = torch.nn.Linear(3, 2)
    weight = Opening(layer.weight.detach())
    torch.testing.assert_close(F.linear(x, weight, layer.bias), layer(x))
    assert torch.equal(weight[0, 1:], layer.weight[0, 1:])


def test_a_class_with_values_may_leave_the_operator_to_the_library() -> None:
    class Logging(Tensor):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            names.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    names: list[str] = []
    x = torch.ones(3, requires_grad=True)
    y = torch.Tensor._make_subclass(Logging, x.detach(), True)
    (y * 2).sum().backward()
    assert names == ["aten.mul.Tensor"] and y.grad.eq(2).all()


def test_functions_are_asked_for_before_operators() -> None:
    class Both(Wrapper):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            functions.append(func)
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    functions: list[Any] = []
    x = Both(torch.ones(3))
    assert asked(lambda: torch.neg(x)) == ["aten.neg.default"] and torch.neg in functions
    assert Wrapper.__torch_function__ is torch._C._disabled_torch_function_impl
    assert not torch.overrides.has_torch_function((wrapped(2),))


def test_a_class_may_record_inside_of_its_answer() -> None:
    class Learning(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            with torch.overrides.enable_reentrant_dispatch():
                inner = torch.ones(1, requires_grad=True)
                recorded.append(inner.exp().grad_fn is not None)
            return super().__torch_dispatch__(func, types, args, kwargs)

    recorded: list[bool] = []
    _ = Learning(torch.ones(2)) + 1
    assert recorded == [True]


@pytest.mark.parametrize("pack", [tuple, list])
def test_a_class_may_pass_its_arguments_on_in_any_sequence(pack):
    class Sub(torch.Tensor):
        @staticmethod
        def __new__(cls, x):
            return torch.Tensor._make_subclass(cls, x)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, pack(args), kwargs)

    x = torch.tensor([1.0, -2.0])
    assert torch.equal(Sub(x).neg(), x.neg())
    for disabled in (
        torch._C._disabled_torch_dispatch_impl,
        torch._C._disabled_torch_function_impl,
    ):
        assert torch.equal(disabled(torch.neg, (), pack((x,)), None), x.neg())
        with pytest.raises(TypeError, match="must be a dict"):
            disabled(torch.neg, (), (x,), [1])
        with pytest.raises(TypeError):
            disabled(torch.neg, (), 3)
