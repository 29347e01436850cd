"""torch.func and forward mode: derivatives of functions agree with each other and with formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import func
from flambeau.autograd import forward_ad


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(3, dtype=torch.float64)


def cubes(a: torch.Tensor) -> torch.Tensor:
    return (a**3).sum()


def test_gradients_of_gradients(x):
    assert torch.allclose(func.grad(cubes)(x), 3 * x**2)
    second = func.grad(lambda a: func.grad(cubes)(a).sum())(x)
    assert torch.allclose(second, 6 * x)
    assert torch.allclose(func.hessian(cubes)(x), torch.diag(6 * x))


def test_results_have_a_graph_only_where_the_program_has_one(x):
    assert not func.grad(cubes)(x).requires_grad
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    penalty = func.grad(lambda a: (a**2 * weight).sum())(x).pow(2).sum()
    penalty.backward()
    assert torch.allclose(weight.grad, 8 * x**2)


def test_forward_and_reverse_agree(x):
    def function(a):
        return torch.stack([a.sin().sum(), (a * a.flip(0)).sum(), a.prod()])

    rows, columns = func.jacrev(function)(x), func.jacfwd(function)(x)
    assert torch.allclose(rows, columns) and rows.shape == (3, 3)
    value, product = func.jvp(function, (x,), (torch.ones_like(x),))
    assert torch.allclose(product, rows.sum(1)) and torch.allclose(value, function(x))
    _, pull = func.vjp(function, x)
    assert torch.allclose(pull(torch.ones(3, dtype=torch.float64))[0], rows.sum(0))


def test_dual_numbers_carry_their_tangent(x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        primal, tangent = forward_ad.unpack_dual(dual.exp() * 2)
        assert forward_ad.unpack_dual(x).tangent is None
    assert torch.allclose(primal, 2 * x.exp()) and torch.allclose(tangent, 2 * x.exp())
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, x)


def test_vmap_runs_a_function_for_every_sample(x):
    batch = torch.randn(4, 3, dtype=torch.float64)
    assert torch.allclose(func.vmap(torch.dot, (0, None))(batch, x), batch @ x)
    assert torch.allclose(func.vmap(lambda a: a * 2, in_dims=1, out_dims=1)(batch), batch * 2)


def test_per_sample_gradients_of_a_module():
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    data, target = torch.randn(5, 3), torch.randn(5, 2)
    parameters = {name: value.detach() for name, value in net.named_parameters()}

    def loss(parameters, one, wanted):
        return ((func.functional_call(net, parameters, (one,)) - wanted) ** 2).sum()

    found = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, data, target)
    for index in range(5):
        net.zero_grad()
        ((net(data[index]) - target[index]) ** 2).sum().backward()
        assert torch.allclose(found["weight"][index], net.weight.grad, atol=1e-6)


def test_a_functional_call_leaves_the_module_as_it_was():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    new = {name: torch.zeros_like(value) for name, value in net.named_parameters()}
    with pytest.raises(RuntimeError):
        func.functional_call(net, new, (torch.ones(3, 7),))
    assert func.functional_call(net, new, torch.ones(3, 2)).abs().sum() == 0
    assert torch.equal(net[0].weight, before["0.weight"])
    with pytest.raises(RuntimeError, match="Missing key"):
        func.functional_call(net, {}, torch.ones(3, 2), strict=True)


def test_tied_parameters_are_replaced_under_all_their_names():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    identity = {"0.weight": torch.eye(2)}
    x = torch.ones(1, 2)
    assert torch.equal(func.functional_call(net, identity, (x,)), x)
    assert not torch.equal(func.functional_call(net, identity, (x,), tie_weights=False), x)


def test_batch_norm_without_running_statistics():
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    func.replace_all_batch_norm_modules_(net)
    net.eval()
    assert net(torch.randn(8, 2)).mean().abs() < 1e-6


def test_different_samples_draw_as_one_batch():
    x = torch.zeros(5, 7)
    torch.manual_seed(3)
    whole = [torch.randn(5, 7), torch.rand(5, 2)]
    torch.manual_seed(3)
    first, second = torch.vmap(
        lambda a: (a + torch.randn(7), torch.rand(2)), randomness="different"
    )(x)
    assert torch.equal(first, whole[0]) and torch.equal(second, whole[1])
    torch.manual_seed(3)
    mask = torch.empty(5, 7).bernoulli_(0.5)
    torch.manual_seed(3)
    kept = torch.vmap(torch.nn.functional.dropout, randomness="different")(x + 1)
    assert torch.equal(kept, mask * 2)


def test_a_forbidden_draw_leaves_the_generator_as_it_was():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.vmap(lambda a: a + torch.rand(2))(torch.zeros(3, 2))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_without_samples_has_the_shape_of_one_with_some():
    result = torch.vmap(lambda a: (a * 2, a.sum()), in_dims=1, out_dims=(1, 0))(torch.zeros(3, 0))
    assert result[0].shape == (3, 0) and result[1].shape == (0,)


def test_dual_numbers_can_be_written_to_and_differentiated() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    t = torch.ones(2, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        assert forward_ad.unpack_dual(dual).tangent is t
        tangent = forward_ad.unpack_dual((dual * dual).exp()).tangent
        by_x, by_t = torch.autograd.grad(tangent.sum(), (x, t))
        expected = (x * x).exp() * (2 + 4 * x * x)
        torch.testing.assert_close(by_x, expected.detach())
        torch.testing.assert_close(by_t, (2 * x * (x * x).exp()).detach())
        plain = forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        plain *= 2
        assert forward_ad.unpack_dual(plain).tangent.tolist() == [6.0, 6.0]
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            forward_ad.make_dual(torch.ones(2), dual)
        with pytest.raises(RuntimeError, match="different size than that of the original"):
            forward_ad.make_dual(torch.ones(2), torch.ones(3))


def test_functorch_as_older_programs_use_it() -> None:
    from flambeau.func import _functorch as functorch

    x = torch.randn(5, 3)
    linear = torch.nn.Linear(3, 2)
    function, params = functorch.make_functional(linear)
    assert torch.equal(function(params, x), linear(x))
    by_params = functorch.grad(lambda params: function(params, x).sum())(params)
    assert [grad.shape for grad in by_params] == [param.shape for param in params]
    models = [
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).eval() for _ in range(3)
    ]
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        functorch.make_functional(models[0])
    ensemble, params, buffers = functorch.combine_state_for_ensemble(models)
    outputs = functorch.vmap(ensemble, (0, 0, None))(params, buffers, x)
    for output, model in zip(outputs, models):
        torch.testing.assert_close(output, model(x))


def test_gradients_under_no_grad_are_constants() -> None:
    def shifted(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            shift = func.grad(lambda x: 0.25 * x**4)(x)
            _, value = func.grad_and_value(lambda x: x**3)(x)
        return x**3 - shift - value

    x = torch.tensor(1.5, requires_grad=True)
    slope = func.grad(shifted)(x)
    torch.testing.assert_close(slope.detach(), torch.tensor(3 * 1.5**2))
    torch.testing.assert_close(torch.autograd.grad(slope, x)[0], torch.tensor(6 * 1.5))
    output, product = func.vjp(torch.sin, x)
    with torch.no_grad():
        assert not func.grad(torch.sin)(x).requires_grad
        assert not func.vjp(torch.sin, x)[0].requires_grad
        assert not product(torch.ones(()))[0].requires_grad
        assert not func.jacrev(torch.sin)(x).requires_grad
        assert not func.jvp(torch.sin, (x,), (torch.ones(()),))[1].requires_grad
    assert output.requires_grad and product(torch.ones(()))[0].requires_grad


@pytest.mark.parametrize(
    ("primals", "tangents", "match"),
    [((), (), "at least one Tensor"), ((1.0,), (1.0,), "to only contain Tensors")],
)
def test_jvp_takes_tensors(primals, tangents, match) -> None:
    with pytest.raises(RuntimeError, match=match):
        func.jvp(torch.sin, primals, tangents)


def test_functorch_tells_of_the_newer_names() -> None:
    from flambeau.func import _functorch as functorch

    with pytest.warns(FutureWarning, match=r"Please use `torch\.func\.grad` instead"):
        derivative = functorch.grad(torch.sin)
    assert derivative(torch.tensor(0.0)).item() == 1.0
    with pytest.warns(FutureWarning, match=r"Please use `torch\.vmap` instead"):
        functorch.vmap(torch.sin)


class _Counting(torch.nn.Module):
    """A module with a parameter, a buffer that forward assigns, and a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(1, 1)
        self.register_buffer("count", torch.zeros(1))
        self.plain = torch.tensor([5.0])
        self.number = 0.0

    def forward(self, x):
        self.count = self.count + 1
        return x + self.count + self.plain + getattr(self, "extra", 0)


def test_a_functional_call_replaces_any_tensor_and_hands_assignments_back():
    net, x = _Counting(), torch.zeros(1)
    assert func.functional_call(net, {"plain": torch.zeros(1)}, x) == 1
    assert net.plain == 5 and net.count == 1
    given = {"count": torch.tensor([7.0])}
    assert func.functional_call(net, given, x) == 13
    assert given["count"] == 8 and net.count == 1
    assert func.functional_call(net, {"extra": torch.ones(1)}, x) == 8
    assert not hasattr(net, "extra")


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"count": 3}, TypeError, "3 is not an instance of torch.Tensor"),
        ({"number": torch.ones(1)}, TypeError, "attribute `number`: 0.0 is not an instance of"),
        ({"inner": torch.ones(1)}, TypeError, "attribute `inner`"),
        ({"count.x": torch.ones(1)}, TypeError, "submodule `count`"),
        ({"absent.x": torch.ones(1)}, AttributeError, "_Counting has no attribute `absent`"),
        ({"": torch.ones(1)}, KeyError, "empty string"),
    ],
)
def test_a_functional_call_refuses_names_and_values_that_are_no_tensors(values, error, message):
    net = _Counting()
    with pytest.raises(error, match=message):
        func.functional_call(net, {"plain": torch.zeros(1), **values}, torch.zeros(1))
    assert net.plain == 5 and net.count == 0


def test_strict_names_what_is_missing_and_what_is_too_much():
    with pytest.raises(RuntimeError) as caught:
        func.functional_call(_Counting(), {"plain": torch.zeros(1)}, torch.zeros(1), strict=True)
    assert str(caught.value) == (
        "Error(s) in reparametrizing for _Counting:\n\tUnexpected key(s): 'plain'."
        "\n\tMissing key(s): 'count', 'inner.bias', 'inner.weight'."
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: torch.vmap(lambda a: a, out_dims="first")(x), "must be an int, None or a"),
        (lambda x: torch.vmap(lambda a: a, out_dims=None)(x), "when out_dim is None"),
        (lambda x: torch.vmap(lambda a: (a, a), out_dims=(0, None))(x), "when out_dim is None"),
        (lambda x: torch.vmap(lambda a: a, in_dims=(None,))(x), "at least one Tensor to vmap"),
    ],
)
def test_vmap_refuses_dimensions_that_do_not_fit_what_is_returned(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.ones(3, 2))


def test_vmap_does_not_write_the_results_of_all_samples_into_one():
    shared, x = torch.ones(2), torch.ones(3, 2)
    with pytest.raises(RuntimeError, match="not being vmapped over"):
        torch.vmap(lambda a, b: a.add_(b), in_dims=(None, 0))(shared, x)
    with pytest.raises(RuntimeError, match="not being vmapped over"):
        torch.vmap(lambda b: torch.ones(2).add_(b))(x)


@pytest.mark.parametrize("forward", ["jvp", "jacfwd", "dual"])
def test_tangents_notice_writes_to_what_they_were_computed_from(forward):
    leaf = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def tangent(x: torch.Tensor) -> torch.Tensor:
        if forward == "jvp":
            return torch.func.jvp(lambda t: t.exp() * t, (x,), (torch.ones_like(x),))[1]
        if forward == "jacfwd":
            return torch.func.jacfwd(lambda t: t.exp() * t)(x)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            return forward_ad.unpack_dual(dual.exp() * dual)[1]

    x = leaf.clone()
    (right,) = torch.autograd.grad(tangent(x).sum(), leaf)
    torch.testing.assert_close(right, torch.full_like(leaf, 3 * math.e))
    product = tangent(x)
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_functions_of_tangents_may_write_into_their_arguments():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True).clone()
    value, tangent = torch.func.jvp(lambda t: t.mul_(2) * t, (x,), (torch.ones_like(x),))
    assert value.tolist() == [4, 4] and tangent.tolist() == [8, 8] and x.tolist() == [2, 2]
    leaf = torch.ones(2, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(leaf.clone(), torch.ones(2))
        value, tangent = forward_ad.unpack_dual(dual.mul_(2) * dual)
    assert value.tolist() == [4, 4] and tangent.tolist() == [8, 8]


def test_vjp_wants_results_that_have_a_derivative() -> None:
    with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors"):
        torch.func.vjp(lambda t: tuple(t.max(0)), torch.randn(3))


def test_vmap_of_backward_runs_it_once() -> None:
    """Products with a Jacobian, for many vectors at once, make one pass through the graph."""
    passes = 0

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            nonlocal passes
            passes += 1
            return g * 2

    w = torch.randn(3, 4, requires_grad=True)
    y = Twice.apply(w).tanh()
    rows = torch.randn(5, 3, 4)
    found = torch.autograd.grad(y, w, rows, is_grads_batched=True, retain_graph=True)[0]
    assert passes == 1
    want = [torch.autograd.grad(y, w, row, retain_graph=True)[0] for row in rows]
    torch.testing.assert_close(found, torch.stack(want))
    passes = 0
    again = torch.vmap(lambda row: torch.autograd.grad(y, w, row, retain_graph=True)[0])(rows)
    assert passes == 1
    torch.testing.assert_close(again, found)


def test_vmap_of_a_vjp_gives_the_rows_of_the_jacobian() -> None:
    x = torch.randn(4, 3)

    def function(x: Any) -> Any:
        return torch.softmax(x, 1).sum(0)

    _, products = torch.func.vjp(function, x)
    (rows,) = torch.vmap(products)(torch.eye(3))
    torch.testing.assert_close(rows, torch.func.jacrev(function)(x))
    torch.testing.assert_close(rows, torch.func.jacrev(function, chunk_size=2)(x))
    torch.testing.assert_close(rows, torch.func.jacfwd(function)(x))


def test_backward_for_many_rows_falls_back_to_one_a_time() -> None:
    """A step that looks at values cannot take all samples at once."""

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 if g.sum().item() > 0 else g

    x = torch.ones(2, requires_grad=True)
    rows = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    found = torch.autograd.grad(Looks.apply(x), x, rows, is_grads_batched=True)[0]
    assert found.tolist() == [[2.0, 2.0], [-1.0, -1.0]]
