"""Optimizers: their formulas against NumPy, groups, state, hooks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn, optim

START = np.array([1.0, -2.0, 3.0])


def gradient(x: Any, step: int) -> Any:
    return x * [1.0, 0.5, 2.0] + 0.1 * step


def ours(make: Any, steps: int = 6) -> Any:
    """Where an optimizer gets to from START."""
    param = nn.Parameter(torch.tensor(START.tolist(), dtype=torch.float64))
    optimizer = make([param])
    for step in range(steps):
        param.grad = torch.tensor(gradient(param.detach().numpy(), step).tolist()).double()
        optimizer.step()
    return param.detach().numpy()


def sgd(lr: float, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, maximize: bool = False) -> Any:  # fmt: skip
    x, buffer = START.copy(), None
    for step in range(6):
        g = gradient(x, step) * (-1 if maximize else 1) + weight_decay * x
        if momentum:
            buffer = g.copy() if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        x = x - lr * g
    return x


def adam(lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
         weight_decay: float = 0, amsgrad: bool = False, maximize: bool = False,
         decoupled: bool = False) -> Any:  # fmt: skip
    x, m, v, largest = START.copy(), 0.0, 0.0, 0.0
    for step in range(6):
        g = gradient(x, step) * (-1 if maximize else 1)
        if decoupled:
            x = x * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * x
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        largest = np.maximum(largest, v)
        second = (largest if amsgrad else v) / (1 - betas[1] ** (step + 1))
        x = x - lr * m / (1 - betas[0] ** (step + 1)) / (np.sqrt(second) + eps)
    return x


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {"lr": 0.1, "momentum": 0.5, "dampening": 0.2, "maximize": True},
    ],
)
def test_sgd(options: dict[str, Any]) -> None:
    assert np.allclose(ours(lambda p: optim.SGD(p, **options)), sgd(**options))
    assert np.allclose(ours(lambda p: optim.SGD(p, **options, fused=True)), sgd(**options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True},
        {"lr": 0.1, "maximize": True},
    ],
)
def test_adam(options: dict[str, Any]) -> None:
    assert np.allclose(ours(lambda p: optim.Adam(p, **options)), adam(**options))
    decay = {"weight_decay": 0.01, **options}
    assert np.allclose(ours(lambda p: optim.AdamW(p, **decay)), adam(**decay, decoupled=True))


OTHERS: dict[str, dict[str, Any]] = {
    "RMSprop": {"lr": 0.05, "centered": True, "momentum": 0.5},
    "Adagrad": {"lr": 0.5, "lr_decay": 0.01},
    "Adadelta": {"lr": 10.0},
    "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1, "betas": (0.8, 0.9)},
    "Rprop": {"lr": 0.1},
    "ASGD": {"lr": 0.1},
    "Adafactor": {"lr": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.5},
    "Adam": {"lr": 0.1},
    "AdamW": {"lr": 0.1},
}


@pytest.mark.parametrize("name", OTHERS)
def test_every_optimizer_goes_down_a_bowl(name: str) -> None:
    param = nn.Parameter(torch.tensor([2.0, -3.0]))
    optimizer = getattr(optim, name)([param], **OTHERS[name])

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (param * param).sum()
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure).detach()) for _ in range(60)]
    assert losses[0] == 13 and losses[-1] < 4


@pytest.mark.parametrize("name", OTHERS)
def test_state_survives_a_checkpoint(name: str) -> None:
    def make() -> tuple[nn.Parameter, optim.Optimizer]:
        param = nn.Parameter(torch.tensor([2.0, -3.0]))
        return param, getattr(optim, name)([param], **OTHERS[name])

    def advance(param: nn.Parameter, optimizer: optim.Optimizer, steps: int) -> None:
        for _ in range(steps):
            param.grad = 2 * param.detach()
            optimizer.step()

    first, optimizer = make()
    advance(first, optimizer, 5)
    second, resumed = make()
    advance(second, resumed, 2)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    second.data.copy_(first.data)
    advance(first, optimizer, 3)
    advance(second, resumed, 3)
    assert torch.equal(first, second)


def test_lbfgs_finds_the_minimum_of_a_valley() -> None:
    for line_search in (None, "strong_wolfe"):
        x = nn.Parameter(torch.tensor([-1.0, 1.5], dtype=torch.float64))
        optimizer = optim.LBFGS([x], lr=1 if line_search else 0.1, line_search_fn=line_search)

        def closure(x: Any = x, optimizer: Any = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            loss = 5 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
            loss.backward()
            return loss

        for _ in range(20):
            optimizer.step(closure)
        assert np.allclose(x.detach().numpy(), [1, 1], atol=1e-3)
    with pytest.raises(ValueError, match="per-parameter options"):
        optim.LBFGS([{"params": [nn.Parameter(torch.ones(1))]} for _ in range(2)])


def test_groups_have_their_own_options() -> None:
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    a.grad, b.grad = torch.ones(1), torch.ones(1)
    optimizer.step()
    assert a.item() == pytest.approx(0.9) and b.item() == pytest.approx(0.5)
    c = nn.Parameter(torch.ones(1))
    optimizer.add_param_group({"params": [c], "momentum": 0.9})
    assert [group["momentum"] for group in optimizer.param_groups] == [0, 0, 0.9]
    optimizer.zero_grad()
    assert a.grad is None
    named = optim.SGD(nn.Linear(1, 1).named_parameters())
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


def test_parameters_without_gradient_are_left_alone() -> None:
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    for optimizer in (optim.SGD([a, b], lr=0.1, momentum=0.9), optim.Adam([a, b])):
        a.grad = torch.ones(1)
        optimizer.step()
        assert b.item() == 1 and list(optimizer.state_dict()["state"]) == [0]
    momentum = optim.SGD([a, b], lr=0.1, momentum=0.9)
    momentum.step()
    b.grad = torch.ones(1)
    momentum.step()
    assert b.item() == pytest.approx(0.9)


def test_state_dict_has_pytorch_s_layout() -> None:
    param = nn.Parameter(torch.ones(2))
    optimizer = optim.Adam([param])
    param.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["state"][0]["step"].dtype == torch.float32 and state["state"][0]["step"] == 1
    assert state["param_groups"][0]["params"] == [0]
    assert list(state["param_groups"][0])[:5] == ["lr", "betas", "eps", "weight_decay", "amsgrad"]


def test_loading_fits_the_state_to_the_parameters() -> None:
    param = nn.Parameter(torch.ones(2))
    optimizer = optim.SGD([param], momentum=0.9)
    param.grad = torch.ones(2)
    optimizer.step()
    wide = nn.Parameter(torch.ones(2, dtype=torch.float64))
    other = optim.SGD([wide], lr=7.0)
    other.load_state_dict(optimizer.state_dict())
    assert other.state[wide]["momentum_buffer"].dtype == torch.float64
    assert other.param_groups[0]["lr"] == 1e-3 and other.param_groups[0]["params"][0] is wide
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.SGD([param, wide]).load_state_dict(optimizer.state_dict())


def test_a_learning_rate_may_be_a_tensor() -> None:
    rate = torch.tensor(0.1, dtype=torch.float64)
    assert np.allclose(ours(lambda p: optim.SGD(p, lr=rate)), sgd(0.1))
    assert np.allclose(ours(lambda p: optim.Adam(p, lr=rate)), adam(0.1))


def test_a_differentiable_step_can_be_differentiated() -> None:
    for make in (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, differentiable=True),
        lambda p: optim.Adam(p, lr=0.1, differentiable=True),
    ):
        leaf = torch.tensor([1.0, 2.0], requires_grad=True)
        param = leaf.clone()
        param.retain_grad()
        optimizer = make([param])
        param.grad = (leaf * leaf).detach()
        optimizer.step()
        param.sum().backward()
        assert leaf.grad is not None


def test_step_hooks_run_around_the_step() -> None:
    param = nn.Parameter(torch.ones(1))
    optimizer, seen = optim.SGD([param], lr=0.1), []
    pre = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre"))
    post = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    optimizer.step()
    pre.remove()
    post.remove()
    optimizer.step()
    assert seen == ["pre", "post"]
    from flambeau.optim import optimizer as optimizer_file

    handle = optimizer_file.register_optimizer_step_pre_hook(lambda *a: seen.append("global"))
    optim.Adam([param]).step()
    handle.remove()
    assert seen[2:] == ["global"]


def test_state_dict_hooks() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))])
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, state: {k: v for k, v in state.items() if k != "more"}
    )
    state = optimizer.state_dict()
    assert state["more"] == 1
    optimizer.load_state_dict(state)


def test_optimizers_pickle_and_print() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.5)
    loaded = pickle.loads(pickle.dumps(optimizer))
    assert loaded.param_groups[0]["lr"] == 0.5
    loaded.step()
    assert repr(optimizer).splitlines()[:3] == ["SGD (", "Parameter Group 0", "    dampening: 0"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: optim.SGD(p), TypeError, "should be an iterable of Tensors or dicts"),
        (lambda p: optim.SGD([]), ValueError, "empty parameter list"),
        (lambda p: optim.SGD([3]), TypeError, "can only optimize Tensors"),
        (lambda p: optim.SGD([p * 2]), ValueError, "non-leaf"),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "ordered collections"),
        (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError, "more than one"),
        (lambda p: optim.SGD([p]).add_param_group(3), TypeError, "must be a dict"),
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
        (lambda p: optim.Adam([p], betas=(1.0, 0)), ValueError, "beta parameter at index 0"),
        (lambda p: optim.Adam([p], betas=(0.9, p)), ValueError, "index 1: "),
        (lambda p: optim.Adam([p], betas=(0.9, p / 2)), ValueError, "floats or both Tensors"),
        (lambda p: optim.Adam([p], lr=p, foreach=True), ValueError, "lr as a Tensor is not supp"),
        (
            lambda p: optim.Adam([p], betas=(p / 2, p / 2), foreach=True),
            ValueError,
            r"betas\[0\] as a Tensor is not supported for capturable=False and foreach=True",
        ),
        (lambda p: optim.Adam([p], fused=True, foreach=True), RuntimeError, "cannot be `True`"),
        (lambda p: optim.Optimizer([p], {}).step(), NotImplementedError, "^$"),
    ],
)
def test_mistakes(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(nn.Parameter(torch.ones(1)))


def test_third_party_optimizers_need_only_step() -> None:
    class Sign(optim.Optimizer):
        def __init__(self, params: Any, lr: float = 0.1) -> None:
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for param in group["params"]:
                    self.state[param]["calls"] = self.state[param].get("calls", 0) + 1
                    param.add_(param.grad.sign(), alpha=-group["lr"])

    param = nn.Parameter(torch.ones(1))
    optimizer = Sign([param])
    param.grad = torch.ones(1)
    optimizer.step()
    assert param.item() == pytest.approx(0.9) and optimizer.state[param]["calls"] == 1


@pytest.mark.parametrize(
    "name", ["Adam", "RAdam", "NAdam", "ASGD", "Adamax", "RMSprop", "Rprop", "Adadelta"]
)
def test_steps_for_capture_are_refused_where_nothing_is_captured(name: str) -> None:
    parameter = torch.randn(6, requires_grad=True)
    optimizer = getattr(torch.optim, name)([parameter], capturable=True)
    optimizer.step()  # there is no gradient, and nothing to do
    parameter.grad = torch.ones(6)
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must be"):
        optimizer.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_want_real_parameters_on_a_device(name: str) -> None:
    for place in (torch.ones(3, dtype=torch.complex64), torch.ones(3, device="meta")):
        parameter = torch.nn.Parameter(place)
        parameter.grad = torch.ones_like(place)
        optimizer = getattr(torch.optim, name)([parameter], fused=True)
        with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be float"):
            optimizer.step()
    optimizer = torch.optim.Adam([torch.ones(3)], foreach=True, differentiable=True)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        optimizer.step()


DIFFERENTIABLE = [
    (torch.optim.Adam, {"amsgrad": True}, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), 2),
    (torch.optim.AdamW, {"amsgrad": True}, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), 2),
    (torch.optim.NAdam, {}, ("exp_avg", "exp_avg_sq", "mu_product"), 1),
    (torch.optim.Adadelta, {}, ("square_avg", "acc_delta"), 2),
]


@pytest.mark.parametrize(("kind", "options", "names", "steps"), DIFFERENTIABLE)
def test_steps_can_be_differentiated_by_the_state(kind, options, names, steps) -> None:
    torch.manual_seed(0)

    def make(name: str) -> torch.Tensor:
        shape = () if name == "mu_product" else (3,)
        return (torch.rand(shape, dtype=torch.float64) * 0.5 + 0.3).requires_grad_()

    def run(weight, grad, *state):
        weight = weight.clone()
        weight.grad = grad
        optimizer = kind([weight], lr=0.1, differentiable=True, **options)
        own = dict(zip(names, (value.clone() for value in state), strict=True))
        optimizer.state[weight].update(own, step=torch.tensor(10.0, dtype=torch.float64))
        for _ in range(steps):
            optimizer.step()
        return weight, *own.values()

    assert torch.autograd.gradcheck(run, [make(name) for name in ("weight", "grad", *names)])


def test_lbfgs_goes_on_where_there_was_nowhere_to_go() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.LBFGS([weight])
    del optimizer.param_groups[0]["maximize"]  # as in older checkpoints

    def closure():
        optimizer.zero_grad()
        loss = weight.sum() * 1e-6
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.step(closure)
    assert optimizer.state[weight]["n_iter"] == 2 and optimizer.state[weight]["t"] == 1


def test_groups_that_an_optimizer_refuses() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with pytest.raises(ValueError, match="cannot add param group with names to the optimizer"):
        optimizer.add_param_group({"params": [("w", torch.nn.Parameter(torch.ones(1)))]})
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        torch.optim.SparseAdam([weight], lr=torch.tensor([0.1, 0.2]))


def test_loading_adds_no_options_that_an_optimizer_has_not() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adafactor([weight])
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state_dict()["param_groups"] == groups


def test_lbfgs_takes_a_gradient_that_is_zero() -> None:
    optimizer = torch.optim.LBFGS([torch.nn.Parameter(torch.ones(2))], tolerance_grad=-1)
    assert float(optimizer.step(lambda: torch.tensor(3.0))) == 3


def test_adafactor_refuses_complex_parameters() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 3, dtype=torch.complex64))
    parameter.grad = torch.ones_like(parameter)
    with pytest.raises(RuntimeError, match="complex parameters"):
        torch.optim.Adafactor([parameter]).step()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "NAdam", "RMSprop", "Adagrad", "Rprop"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_parameter_moves_as_its_parts_do(kind: str, dtype: torch.dtype) -> None:
    whole = torch.nn.Parameter(torch.randn(3, 2, dtype=dtype))
    parts = torch.nn.Parameter(torch.view_as_real(whole.detach()).clone())
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizers = [getattr(torch.optim, kind)([p], lr=0.1, **options) for p in (whole, parts)]
    for _ in range(3):
        whole.grad = torch.randn_like(whole)
        parts.grad = torch.view_as_real(whole.grad)
        for optimizer in optimizers:
            optimizer.step()
    assert torch.allclose(torch.view_as_real(whole.detach()), parts)
