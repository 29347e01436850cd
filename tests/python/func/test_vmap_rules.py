"""Every rule by which vmap computes all samples at once gives what the samples give one by one,
values and gradients; what could not be the same for all is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.func import functional_call, grad, jacrev, stack_module_state
from flambeau.utils._pytree import tree_leaves
from flambeau.utils.checkpoint import checkpoint

COUNT = 5
SECOND = torch.randn(3, 4, dtype=torch.float64)
ROW = torch.randn(4, dtype=torch.float64)

INTEGRAL = set("bitwise_not bitwise_and bitwise_or bitwise_xor".split())
BINARY = set(
    """add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow
    __radd__ __rsub__ __rmul__ __rtruediv__ __rpow__ __rmod__ rsub atan2 hypot maximum
    minimum fmax fmin eq ne lt le gt ge not_equal less less_equal greater greater_equal
    logical_and logical_or logical_xor xlogy logaddexp heaviside copysign bitwise_and
    bitwise_or bitwise_xor""".split()
)
WITH_ARGUMENTS: dict[str, Callable[..., Any]] = {
    "clamp": lambda a: a.clamp(0.2, 0.8) + a.clamp(max=a.new_ones(())),
    "clip": lambda a: a.clip(0.2),
    "clamp_min": lambda a: a.clamp_min(0.4),
    "clamp_max": lambda a: a.clamp_max(0.4),
    "lerp": lambda a: torch.lerp(a, a[0], 0.3) + torch.lerp(a, SECOND, a),
    "addcmul": lambda a: torch.addcmul(a, a, ROW, value=2),
    "addcdiv": lambda a: torch.addcdiv(ROW, a, a + 1),
    "where": lambda a: torch.where(a > 0.5, a, ROW) + torch.where(a > 0.5, a[0], 2.0),
    "masked_fill": lambda a: (
        a.masked_fill(a > 0.5, 3.0)
        + a.masked_fill(a < 0.3, a.sum())
        + a.clone().masked_fill_(a < 0.3, a.sum())
    ),
    "threshold": lambda a: F.threshold(a, 0.4, 0.1),
    "hardtanh": lambda a: F.hardtanh(a, -0.5, 0.5),
    "leaky_relu": lambda a: F.leaky_relu(a - 0.5, 0.2),
    "logit": lambda a: torch.logit(a, 1e-3),
    "nan_to_num": lambda a: torch.nan_to_num(a.log() / a.new_zeros(())),
    "floor_divide": lambda a: torch.floor_divide(a.detach(), 0.3),
    "__floordiv__": lambda a: a.detach() // 0.3 + a.detach() // a.detach()[0],
    "heaviside": lambda a: torch.heaviside(a.detach() - 0.5, ROW),
    "log_sigmoid": lambda a: F.logsigmoid(a),
    "softsign": lambda a: F.softsign(a),
    "tanhshrink": lambda a: F.tanhshrink(a),
    "_nn_gelu": lambda a: F.gelu(a) + F.gelu(a, approximate="tanh"),
    "gelu": lambda a: F.gelu(a),
}


def pointwise_case(name: str) -> Callable[..., Any]:
    if name in WITH_ARGUMENTS:
        return WITH_ARGUMENTS[name]
    if name in BINARY:
        made = (lambda a: a > 0.5) if name in INTEGRAL else (lambda a: a + 0.1)
        method = getattr(torch.Tensor, name, None) or getattr(torch, name)

        def call(a: torch.Tensor) -> Any:
            x = made(a)
            return method(x, x[0]), method(x[1], x), method(x[0, 0], x)

        return call
    function = getattr(torch.Tensor, name, None) or getattr(F, name, None) or getattr(torch, name)
    if name in INTEGRAL:
        return lambda a: function(a > 0.5)
    return lambda a: function(a)


SAMPLES: dict[str, Callable[..., Any]] = {
    name: pointwise_case(name) for name in sorted(BINARY | INTEGRAL | set(WITH_ARGUMENTS))
}
SAMPLES |= {
    ".shape": lambda a: a * a.shape[1] + torch.zeros(a.shape, dtype=torch.float64),
    ".ndim": lambda a: a * a.ndim,
    ".dtype": lambda a: a + torch.ones((), dtype=a.dtype),
    ".device": lambda a: a + torch.ones((), dtype=torch.float64, device=a.device),
    ".requires_grad": lambda a: a * int(a.requires_grad),
    ".layout": lambda a: a * (a.layout == torch.strided),
    ".is_cuda": lambda a: a * (not a.is_cuda),
    ".is_sparse": lambda a: a * (not a.is_sparse),
    "size": lambda a: a * a.size(1) + a.size()[0] + a.size(dim=-1),
    "dim": lambda a: a * a.dim(),
    "ndimension": lambda a: a * a.ndimension(),
    "numel": lambda a: a / a.numel(),
    "nelement": lambda a: a / a.nelement(),
    "is_floating_point": lambda a: a * a.is_floating_point(),
    "is_complex": lambda a: a * (not a.is_complex()),
    "__len__": lambda a: a * len(a),
    "element_size": lambda a: a * a.element_size(),
    "to": lambda a: a.to(torch.float32) + a.to("cpu").float(),
    "zeros_like": lambda a: torch.zeros_like(a) + a,
    "ones_like": lambda a: torch.ones_like(a[0]) + a,
    "full_like": lambda a: torch.full_like(a, 2.0) * a,
    "empty_like": lambda a: a + 0 * torch.empty_like(a).nan_to_num(0, 0, 0),
    "new_zeros": lambda a: a.new_zeros(4) + a,
    "new_ones": lambda a: a.new_ones(3, 1) + a,
    "new_full": lambda a: a.new_full((4,), 2.0) * a,
    "new_empty": lambda a: a + a.new_empty(0).sum(),
    "type_as": lambda a: a.type_as(torch.ones(1)) + torch.ones(4).type_as(a.float()),
    "dropout": lambda a: F.dropout(a, 0.5, training=False),
    "max": lambda a: (a.max(), a.max(1), a.max(dim=0, keepdim=True), torch.max(a, ROW)),
    "min": lambda a: (a.min(), a.min(-1), torch.min(a, dim=0)),
    "softmax": lambda a: F.softmax(a, 0) + a.softmax(-1),
    "log_softmax": lambda a: F.log_softmax(a, dim=1),
    "softmin": lambda a: F.softmin(a, 1),
    "cumsum": lambda a: a.cumsum(0) + a.cumsum(dim=-1),
    "cumprod": lambda a: a.cumprod(1),
    "logcumsumexp": lambda a: a.logcumsumexp(0),
    "sort": lambda a: (a.sort(), a.sort(0), a.sort(dim=1, descending=True)),
    "argsort": lambda a: (a.argsort(), a.argsort(0)),
    "topk": lambda a: (a.topk(2), a.topk(2, 0), a.topk(1, dim=1, largest=False)),
    "flip": lambda a: (a.flip(0), a.flip([0, 1]), a.flip(-1)),
    "unbind": lambda a: (*a.unbind(), *a.unbind(1)),
    "norm": lambda a: (a.norm(), a.norm(dim=1), a.norm(1, 0, True), F.normalize(a)),
    "view": lambda a: a.view(4, 3) + a.view(-1)[0],
    "reshape": lambda a: a.reshape(2, -1) + a.reshape((12,))[1],
    "view_as": lambda a: a.view_as(torch.zeros(4, 3)),
    "reshape_as": lambda a: a.reshape_as(torch.zeros(6, 2)) + SECOND.reshape_as(a.t()).sum(),
    "expand_as": lambda a: a[0].expand_as(a) + ROW.expand_as(a),
    "expand": lambda a: a.expand(2, 3, 4) + a[:, :1].expand(-1, 4),
    "flatten": lambda a: (
        a.flatten(),
        a.flatten(0, -1),
        a.unsqueeze(1).flatten(1),
        a[0, 0].flatten(),
    ),
    "unsqueeze": lambda a: (a.unsqueeze(0), a.unsqueeze(-1), a.unsqueeze(2), a.unsqueeze(dim=-3)),
    "squeeze": lambda a: (a[:1].squeeze(), a[:1].squeeze(0), a[:, :1].squeeze(-1), a.squeeze(0)),
    "transpose": lambda a: a.transpose(0, 1) + a.transpose(-1, 0),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "swapdims": lambda a: a.swapdims(1, 0),
    "select": lambda a: a.select(0, 1) + a.select(1, -1).sum(),
    "narrow": lambda a: a.narrow(1, 1, 2),
    "diagonal": lambda a: a.diagonal(1, 0, 1),
    "permute": lambda a: a.permute(1, 0) + a.unsqueeze(0).permute((2, 1, 0))[:, :, 0],
    "movedim": lambda a: a.movedim(0, 1) + a.movedim([0, 1], [1, 0]),
    "moveaxis": lambda a: a.moveaxis(-1, 0),
    "t": lambda a: a.t() @ a[:, 0].t(),
    ".T": lambda a: a.T,
    ".mT": lambda a: a.unsqueeze(0).mT[0] + a.mT,
    "adjoint": lambda a: a.adjoint(),
    "cat": lambda a: (torch.cat([a, SECOND]), torch.cat((a, a), -1), torch.cat([a, a], dim=1)),
    "concat": lambda a: torch.concat([a, a], 1),
    "stack": lambda a: (
        torch.stack([a, SECOND]),
        torch.stack([a, a], -1),
        torch.stack([a, a], dim=1),
    ),
    "chunk": lambda a: (*a.chunk(2), *a.chunk(2, 1)),
    "split": lambda a: (*a.split(2), *a.split([1, 3], dim=1)),
    "tril": lambda a: a.tril(1),
    "triu": lambda a: a.triu(),
    "__getitem__": lambda a: (a[0], a[1:, ::2], a[..., -1], a[:, None], a[1, 2]),
    "matmul": lambda a: (
        a @ a.t(),
        a @ ROW,
        ROW @ a.t(),
        a[0] @ a[1],
        SECOND.t() @ a,
        a @ SECOND.t(),
        a.t().unsqueeze(0) @ a,
        a[0] @ SECOND.t(),
    ),
    "mm": lambda a: a.mm(a.t()),
    "bmm": lambda a: a.unsqueeze(0).bmm(a.t().unsqueeze(0)),
    "mv": lambda a: a.mv(a[0]) + SECOND.mv(a[0]),
    "dot": lambda a: a[0].dot(a[1]) + ROW.dot(a[0]),
    "vdot": lambda a: a[0].vdot(ROW),
    "inner": lambda a: torch.inner(a[0], a[1]),
    "__rmatmul__": lambda a: a.t().__rmatmul__(a),
    "outer": lambda a: torch.outer(a[0], a[1]) + torch.outer(ROW, a[0]),
    "ger": lambda a: torch.ger(a[0], ROW),
    "linear": lambda a: (
        F.linear(a, SECOND),
        F.linear(a[0], SECOND, ROW[:3]),
        F.linear(ROW, a, a[:, 0]),
        F.linear(a.unsqueeze(0), a),
    ),
    "layer_norm": lambda a: (
        F.layer_norm(a, (4,)),
        F.layer_norm(a, (4,), ROW, ROW),
        F.layer_norm(a, [3, 4], a),
        F.layer_norm(a, (4,), a[0], a[1]),
    ),
    "conv1d": lambda a: (
        F.conv1d(a, SECOND[:, :3, None] * 1.0),
        F.conv1d(a, a[:2, None, :3].expand(2, 3, 3)),
        F.conv1d(a.unsqueeze(0), a[:, :3, None], a[:, 0]),
    ),
    "conv2d": lambda a: (
        F.conv2d(a.unsqueeze(0), SECOND[None, None, :2, :2], stride=2),
        F.conv2d(a[None, None], a[None, None, :2, :2], padding=1),
        F.conv2d(SECOND[None, None], a[None, None, :2, :2]),
        F.conv2d(torch.stack([a, a])[None], a[None, None, :2, :2].expand(2, 1, 2, 2), groups=2),
    ),
    "conv3d": lambda a: F.conv3d(a[None, None], SECOND[None, None, None, :1, :2]),
    "max_pool2d": lambda a: F.max_pool2d(a.unsqueeze(0), 2) + F.max_pool2d(a[None, None], 2)[0],
    "avg_pool2d": lambda a: F.avg_pool2d(a.unsqueeze(0), (3, 2)),
    "adaptive_avg_pool2d": lambda a: F.adaptive_avg_pool2d(a.unsqueeze(0), 2),
    "embedding": lambda a: F.embedding((a * 3).long().clamp(0, 2), SECOND) * a.sum(),
    "mse_loss": lambda a: (
        F.mse_loss(a, SECOND),
        F.mse_loss(a, a * 2, reduction="none"),
        F.mse_loss(a[0, 0], a[0, 1], reduction="sum"),
    ),
    "l1_loss": lambda a: F.l1_loss(a, SECOND, reduction="sum"),
    "binary_cross_entropy_with_logits": lambda a: F.binary_cross_entropy_with_logits(
        a, SECOND.sigmoid()
    ),
    "cross_entropy_loss": lambda a: (
        F.cross_entropy(a, torch.tensor([0, 3, 1])),
        F.cross_entropy(a[0], (a[0, 0] * 3).long()),
        F.cross_entropy(a, torch.tensor([0, -100, 1])),
        F.cross_entropy(a, (a[:, 0] * 3).long(), reduction="sum"),
        F.cross_entropy(a, torch.tensor([0, 3, 1]), reduction="none"),
    ),
}
for _name in "sum mean prod amax amin logsumexp var std nansum".split():
    SAMPLES[_name] = lambda a, f=_name: (
        *([] if f == "logsumexp" else [getattr(a, f)(), getattr(a[0, 0], f)()]),
        getattr(a, f)(0),
        getattr(a, f)(dim=-1, keepdim=True),
        *([] if f == "prod" else [getattr(a, f)((0, 1))]),
    )
for _name in "all any argmax argmin count_nonzero".split():
    SAMPLES[_name] = lambda a, f=_name: (
        getattr(a > 0.5 if f in ("all", "any") else a, f)(),
        getattr(a > 0.5 if f in ("all", "any") else a, f)(1),
    )
# Scalars of samples have no variance, and a few methods have no function of that name on tensors.
for _name in ("var", "std"):
    SAMPLES[_name] = lambda a, f=_name: (getattr(a, f)(), getattr(a, f)(0), getattr(a, f)((0, 1)))


def batch() -> torch.Tensor:
    torch.manual_seed(2)
    return (torch.rand(COUNT, 3, 4, dtype=torch.float64) * 0.9 + 0.05).requires_grad_()


def compared(function: Callable[..., Any]) -> None:
    """vmap calls the function once, and gives what the samples give."""
    calls = 0

    def counted(a: torch.Tensor) -> Any:
        nonlocal calls
        calls += 1
        return function(a)

    x, y = batch(), batch()
    found = tree_leaves(torch.vmap(counted)(x))
    assert calls == 1, f"called {calls} times"
    rows = [tree_leaves(function(y[i])) for i in range(COUNT)]
    assert len(found) == len(rows[0])
    for value, *parts in zip(found, *rows):
        torch.testing.assert_close(value, torch.stack(parts), equal_nan=True)
    graded = [(v, p) for v, *p in zip(found, *rows) if v.requires_grad and v.is_floating_point()]
    if graded:
        total = sum((v.nan_to_num() * (k + 1)).sum() for k, (v, _) in enumerate(graded))
        wanted = sum(
            (torch.stack(p).nan_to_num() * (k + 1)).sum() for k, (_, p) in enumerate(graded)
        )
        one = torch.autograd.grad(total, x, allow_unused=True)[0]
        two = torch.autograd.grad(wanted, y, allow_unused=True)[0]
        assert (one is None) == (two is None)
        if one is not None:
            torch.testing.assert_close(one, two, equal_nan=True)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_rule_gives_what_samples_give(name):
    compared(SAMPLES[name])


def write(a: torch.Tensor) -> torch.Tensor:
    b = a.clone()
    b[0] = 7
    return b.mul_(2)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a[torch.tensor([2, 0])],
        write,
        lambda a: torch.einsum("ij,kj->ik", a, a),
        lambda a: a + a.new_tensor([1.0, 2, 3, 4]),
        lambda a: a + (a.new_tensor([1.0, 2, 3, 4]) - torch.ones(4)),
        lambda a: a + a.float(),
        lambda a: torch.linalg.inv(a @ a.t() + torch.eye(3)),
        lambda a: torch.vmap(lambda r: r.sum())(a),
        lambda a: torch.vmap(torch.vmap(torch.sin), in_dims=1, out_dims=1)(a),
        lambda a: a.clone().fill_(a[0, 1]),
        lambda a: torch.ones(3, 4).index_select(1, (a[0] * 3).long()) + a,
    ],
)
def test_functions_of_several_ops_give_what_samples_give(function):
    x = batch().detach()
    found = torch.vmap(function)(x)
    torch.testing.assert_close(found, torch.stack([function(x[i]) for i in range(COUNT)]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: a if a.sum() > 6 else -a, "in some data-dependent control flow"),
        (lambda a: a * a.sum().item(), r"calling \.item\(\) on a Tensor"),
        (lambda a: float(a[0, 0]) * a, r"calling \.item\(\) on a Tensor"),
        (lambda a: a.nonzero(), "can output dynamic shape. Attempted to vmap over aten::nonzero"),
        (lambda a: a.unique(), "can output dynamic shape. Attempted to vmap over aten::_unique2"),
        (lambda a: a.masked_select(a > 0.5), "dynamic shape"),
        (lambda a: a[a > 0.5], "dynamic shape"),
        (lambda a: torch.add(a, 1, out=torch.empty(3, 4)), "not implemented for aten::add.out"),
        (lambda a: torch.ones(3, 4).add_(a), r"add_\(self, \*extra_args\) is not possible"),
        (lambda a: torch.ones(3, 4).copy_(a), "This happened due to `other` being vmapped over"),
        (lambda a: a + torch.ones(7), "must match the size of tensor b"),
        (lambda a: a.requires_grad_(), r"attempting to call Tensor\.requires_grad_\(\)"),
        (lambda a: a.sum().backward(), r"backward\(\) called inside a functorch transform"),
        (lambda a: torch.equal(a, a), "vmap"),
        (lambda a: torch.rand(2), "randomness error mode"),
        (lambda a: a.clone().uniform_(), "randomness error mode"),
        (lambda a: a.tolist(), "vmap"),
    ],
)
def test_what_has_another_answer_for_each_sample_is_refused(function, message):
    with pytest.raises(RuntimeError, match=message):
        torch.vmap(function)(batch().detach())


def test_samples_are_shown_with_all_that_is_behind_them():
    shown = []
    torch.vmap(lambda a: (shown.append(repr(a)), a)[1])(torch.tensor([[1.0, 2], [3, 4]]))
    assert shown == [
        "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[1., 2.],\n            [3., 4.]])\n)"
    ]


def test_an_op_without_a_rule_is_called_for_each_sample_and_says_so():
    before = torch._C._vmap_fallbacks().get("histc", 0)
    with pytest.warns(UserWarning, match="There is a performance drop .* aten::histc"):
        found = torch.vmap(lambda a: a.histc(4, 0, 1))(batch().detach())
    assert torch._C._vmap_fallbacks()["histc"] == before + 1
    assert found.shape == (COUNT, 4)


class Square(torch.autograd.Function):
    """A custom function: its rules know nothing of batches."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Doubled(torch.autograd.Function):
    """The same, with a rule that is made for it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * x * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, scale = ctx.saved_tensors
        return 2 * x * g * scale, (g * x * x).sum()


def test_custom_functions_have_rules_of_their_own_or_ask_for_one():
    with pytest.raises(RuntimeError, match="it must override the setup_context staticmethod"):
        torch.vmap(Square.apply)(torch.ones(3, 2))
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    compared(lambda a: Doubled.apply(a, scale))
    x = torch.rand(3, 2, dtype=torch.float64)
    found = torch.vmap(grad(lambda a: Doubled.apply(a, scale).sum()))(x)
    torch.testing.assert_close(found, 6 * x)
    total = torch.vmap(lambda a: Doubled.apply(a, scale))(x).sum()
    torch.testing.assert_close(torch.autograd.grad(total, scale)[0], (x * x).sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda a: checkpoint(torch.square, a, use_reentrant=False),
        lambda a: torch.autograd.grad(((b := a * 1) ** 3).sum(), b, create_graph=True)[0],
    ],
)
def test_derivatives_inside_of_samples(function):
    compared(function)
    x = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    slope = grad(lambda a: function(a).sum())
    torch.testing.assert_close(torch.vmap(slope)(x), torch.stack([slope(row) for row in x]))


def test_arguments_are_never_written_twice():
    x = torch.ones(4, 2)
    torch.vmap(lambda a: (a * 2, a.add_(1)))(x)
    assert (x == 2).all()


@pytest.mark.parametrize(
    "part",
    [
        lambda a: a.add_(1),
        lambda a: a.add_(1)[0],
        lambda a: a.add_(1).t(),
        lambda a: a[:, 1:].add_(1),
        lambda a: a.add_(1).diagonal(),
    ],
)
@pytest.mark.parametrize("in_dim", [0, 1])
def test_what_is_a_part_of_an_argument_written_to_stays_one(part, in_dim):
    x = torch.arange(12.0).reshape(2, 3, 2) if in_dim == 0 else torch.arange(12.0).view(3, 2, 2)
    copy = x.clone()
    found = torch.vmap(part, in_dims=in_dim)(x)
    wanted = torch.stack([part(sample) for sample in copy.unbind(in_dim)])
    assert torch.equal(found, wanted) and torch.equal(x, copy)
    found.fill_(-1)
    assert (x == -1).any()


def test_parts_with_a_history_have_gradients():
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    y = x * 1
    torch.vmap(lambda a: a.mul_(2)[0])(y).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2, 0]] * 3


@pytest.mark.parametrize(
    ("transpose", "shape"),
    [
        (lambda a: a.t_(), (2, 4, 3)),
        (lambda a: a.unsqueeze_(0), (2, 1, 3, 4)),
        (lambda a: a[:1].squeeze_().zero_() + a.transpose_(0, 1)[:, 0], (2, 4, 3)),
    ],
)
def test_samples_transposed_in_place_transpose_their_batch(transpose, shape):
    x = torch.arange(24.0).reshape(2, 3, 4)
    expected = [sample.clone() for sample in x]
    for sample in expected:
        transpose(sample)
    torch.vmap(transpose)(x)
    assert x.shape == shape
    assert torch.equal(x, torch.stack(expected))


def test_errors_are_those_of_a_sample():
    with pytest.raises(RuntimeError, match="size of tensor a"):
        torch.vmap(lambda a: a + torch.ones(7))(torch.ones(3, 2))
    with pytest.raises(IndexError, match="out of range"):
        torch.vmap(lambda a: a.sum(3))(torch.ones(3, 2))
    with pytest.raises(ZeroDivisionError):
        torch.vmap(lambda a: a * (1 // 0))(torch.ones(3, 2))


def test_a_function_that_fails_is_called_once():
    calls = []

    def fails(a: torch.Tensor) -> torch.Tensor:
        calls.append(a)
        try:
            return a.sum() + torch.ones(2) @ torch.ones(3)
        except LookupError:
            raise AssertionError("another error") from None

    with pytest.raises(RuntimeError):
        torch.vmap(fails)(torch.ones(3, 2))
    assert len(calls) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda a: torch.cat([a, a], axis=1),
        lambda a: torch.stack(tensors=[a, a], dim=2),
        lambda a: a.unsqueeze(1).squeeze(axis=1),
        lambda a: torch.max(a, axis=1).values,
        lambda a: torch.sum(input=a, axis=0, keepdims=True),
        lambda a: torch.split(a, 2, axis=1)[1],
        lambda a: torch.chunk(a, chunks=2, dim=1)[0],
        lambda a: torch.matmul(a, other=a.mT),
        lambda a: torch.where(condition=a > 0.5, input=a, other=a * 2),
        lambda a: a.transpose(dim0=0, dim1=1),
        lambda a: F.linear(a, weight=SECOND),
        lambda a: torch.add(input=a, other=ROW, alpha=2),
        lambda a: torch.sort(a, axis=0).values,
    ],
)
def test_arguments_have_their_names_in_a_batch_too(function):
    x = batch().detach()
    found = torch.vmap(function)(x)
    torch.testing.assert_close(found, torch.stack([function(x[i]) for i in range(COUNT)]))


def test_a_sample_that_was_kept_says_so():
    kept = []
    torch.vmap(lambda a: (kept.append(a), a)[1])(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="outside of vmap"):
        kept[0] + 1


def test_gradients_of_each_sample_by_shared_parameters():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)
    ).double()
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.randint(0, 3, (6,))
    calls = 0

    def loss(values: Any, a: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return F.cross_entropy(functional_call(net, values, (a,)), label)

    found = torch.vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    assert calls == 1
    for i in range(6):
        alone = grad(loss)(parameters, x[i], y[i])
        for name, gradient in alone.items():
            torch.testing.assert_close(found[name][i], gradient)
    jacobians = torch.vmap(jacrev(lambda a: net(a)))(x)
    torch.testing.assert_close(jacobians[2], jacrev(lambda a: net(a))(x[2]))
    twice = torch.vmap(grad(lambda a: grad(lambda b: net(b).pow(3).sum())(a).sum()))(x)
    alone = grad(lambda a: grad(lambda b: net(b).pow(3).sum())(a).sum())(x[1])
    torch.testing.assert_close(twice[1], alone)


def test_an_ensemble_of_models_is_one_call():
    torch.manual_seed(0)
    models = [
        torch.nn.Sequential(torch.nn.Conv2d(1, 2, 2), torch.nn.ReLU(), torch.nn.Flatten(0))
        for _ in range(3)
    ]
    parameters, buffers = stack_module_state(models)
    x = torch.randn(1, 4, 4)
    found = torch.vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    torch.testing.assert_close(found, torch.stack([m(x) for m in models]))


def test_values_that_fit_no_sample_are_refused():
    x = torch.zeros(2, 3, 4)
    index = torch.zeros(2, 5, dtype=torch.int64)

    def put(x, index, values):
        return x.clone().index_put_((index, index), values, True)

    with pytest.raises(RuntimeError, match="shape mismatch"):
        torch.vmap(put)(x, index, torch.ones(2, 5, 1))
