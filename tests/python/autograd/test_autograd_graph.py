"""Hooks on several gradients, on saved tensors, and on nodes; anomaly mode."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import graph


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_nodes_show_the_graph(x) -> None:
    node = (x * 2).grad_fn
    assert isinstance(node, graph.Node) and not isinstance(3, graph.Node)
    assert node.name() == "MulBackward0"
    leaf, index = node.next_functions[0]
    assert leaf.variable is x and index == 0
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}


def test_node_hooks(x) -> None:
    seen = []
    y = x.exp()
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs[0].tolist()))
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (torch.ones(3),))
    y.sum().backward(retain_graph=True)
    assert seen == [[10.0, 10.0, 10.0]] and x.grad.tolist() == [1.0, 1.0, 1.0]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == (x.detach().exp() * 10).tolist()


def test_saved_tensors_hooks_see_what_is_saved(x) -> None:
    packed = []

    def pack(tensor):
        packed.append(tensor.tolist())
        return len(packed) - 1

    with graph.saved_tensors_hooks(pack, lambda index: torch.tensor(packed[index])):
        y = x * x
    z = x * x
    y.sum().backward()
    z.sum().backward()
    assert packed == [[1.0, 2.0, 3.0]] * 2
    assert x.grad.tolist() == [4.0, 8.0, 12.0]


def test_errors_in_saved_tensors_hooks(x) -> None:
    with graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t), pytest.raises(ZeroDivisionError):
        x * x
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x * x
    with pytest.raises(TypeError, match="expected to be a Tensor"):
        y.sum().backward()


def test_saved_tensors_hooks_can_be_forbidden(x) -> None:
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        x * x
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        x * x


def test_save_on_cpu(x) -> None:
    with graph.save_on_cpu():
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_saved_tensors_may_be_written_where_that_is_allowed(x) -> None:
    y = x * 1
    with graph.allow_mutation_on_saved_tensors():
        z = y * y
        y.add_(1)
        z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def test_multi_grad_hook_for_all(x) -> None:
    seen = []
    a = torch.ones(3, requires_grad=True)
    y, z = x * a, x * a
    handle = graph.register_multi_grad_hook((x, a, y, z), seen.append)
    y.sum().backward(retain_graph=True)
    assert [g is None for g in seen[0]] == [False, False, False, True]
    y.sum().backward(inputs=(x,), retain_graph=True)
    assert [g is None for g in seen[1]] == [False, True, False, True]
    handle.remove()
    y.sum().backward()
    assert len(seen) == 2


def test_multi_grad_hook_for_any(x) -> None:
    seen = []
    y = x * 2
    graph.register_multi_grad_hook((x, y), seen.append, mode="any")
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((x,), seen.append, mode="some")


def test_increment_version(x) -> None:
    y = x * 1
    z = y * y
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="increment_version"):
        graph.increment_version(3)


class NanBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * float("nan")


def test_anomaly_mode_finds_nan_and_its_origin(x) -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        detect = torch.autograd.detect_anomaly()
    with (
        detect,
        pytest.warns(UserWarning, match="test_anomaly_mode_finds_nan_and_its_origin"),
        pytest.raises(RuntimeError, match=r"NanBackward.*returned nan values in its 0th output"),
    ):
        NanBackward.apply(x).sum().backward()
    NanBackward.apply(x).sum().backward()


def test_set_detect_anomaly_restores(x) -> None:
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        NanBackward.apply(x).sum().backward()
    with torch.autograd.set_detect_anomaly(False):
        NanBackward.apply(x).sum().backward()


def test_hooks_of_an_accumulator_run_around_the_accumulation():
    leaf = torch.ones(3, requires_grad=True)
    accumulator = leaf.view_as(leaf).grad_fn.next_functions[0][0]
    order = []

    def before(gradients):
        order.append("before")
        return (gradients[0] * 2,)

    def after(gradients_in, gradients_out):
        order.append("after")
        assert gradients_in == () and gradients_out[0].tolist() == leaf.grad.tolist()

    accumulator.register_prehook(before)
    accumulator.register_hook(after)
    leaf.register_post_accumulate_grad_hook(lambda tensor: order.append("accumulated"))
    leaf.sum().backward()
    assert order == ["before", "accumulated", "after"]
    assert leaf.grad.tolist() == [2, 2, 2]


def test_hooks_of_a_node_do_not_run_where_the_pass_ends():
    leaf = torch.ones(2, requires_grad=True)
    middle = leaf * 2
    calls = []
    middle.grad_fn.register_prehook(lambda gradients: calls.append(1))
    torch.autograd.grad((middle * 3).sum(), middle)
    assert calls == []
    torch.autograd.grad((middle * 3).sum(), leaf)
    assert calls == [1]


def test_a_node_can_be_called(x) -> None:
    node = (x**2).grad_fn
    assert node.name() == "PowBackward0"
    assert node(torch.ones(3)).tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        node(torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError, match="expected Variable argument, got str"):
        node("one")


def test_the_engine_under_its_old_name(x) -> None:
    log: list[str] = []
    engine = torch.autograd.Variable._execution_engine
    x.register_hook(lambda grad: engine.queue_callback(lambda: log.append("end")))
    x.sum().backward()
    assert log == ["end"]


def test_pack_hooks_see_no_numbers(x) -> None:
    packed: list[torch.Tensor] = []
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        2 * x, x / 2, x.clamp(0, 1), x**3
    assert all(tensor is x for tensor in packed) and len(packed) == 2


def test_pack_hooks_must_not_write(x) -> None:
    hooks = graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t)
    with hooks, pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        x.exp()


def test_mutation_on_saved_tensors_has_one_context(x) -> None:
    with graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        loss = (y * y).sum()
        y.zero_()
        with pytest.raises(RuntimeError, match="cannot be nested"):
            graph.allow_mutation_on_saved_tensors().__enter__()
        loss.backward(retain_graph=True)
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors'"):
        loss.backward()


def test_hooks_on_what_has_no_gradient(x) -> None:
    with pytest.raises(AssertionError, match="to require a grad"):
        graph.register_multi_grad_hook((x, torch.ones(1)), print)


class Descent(torch.autograd.Function):
    """Backward calls backward of itself until its number is below zero."""

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.below = x.detach().requires_grad_() - 1
        return ctx.below.detach()

    @staticmethod
    def backward(ctx, grad):
        if ctx.below < 0:
            if ctx.below == -1:
                raise ValueError("the bottom")
            return grad
        with torch.enable_grad():
            Descent.apply(ctx.below).sum().backward()
        return grad


def test_backward_inside_of_backward_at_any_depth() -> None:
    x = torch.tensor(1500.5, requires_grad=True)
    Descent.apply(x).backward()
    assert x.grad == 1
    with pytest.raises(ValueError, match="the bottom"):
        Descent.apply(torch.tensor(300.0, requires_grad=True)).backward()


def test_unsafe_chunks_may_be_written_into() -> None:
    x = torch.arange(6.0, requires_grad=True)
    first, second = (x * 1).unsafe_chunk(2)
    first.mul_(second)
    first.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0, 5.0, 0.0, 1.0, 2.0]


def test_versions() -> None:
    x = torch.ones(2)
    x.resize_(3)
    x.resize_as_(torch.ones(4))
    assert x._version == 2
    with torch.autograd._unsafe_preserve_version_counter(x):
        x.mul_(2)
    assert x._version == 2


def test_the_data_of_a_tensor_cannot_be_deleted(x) -> None:
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del x.data


def test_only_the_gradients_that_are_asked_for_are_computed() -> None:
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    q = torch.tensor([1.5, 2.5], requires_grad=True)
    y = torch.special.zeta(x, q)  # whose derivative by the first argument is not known
    (slope,) = torch.autograd.grad(y.sum(), q, retain_graph=True)
    torch.testing.assert_close(slope, -x.detach() * torch.special.zeta(x.detach() + 1, q.detach()))
    with pytest.raises(NotImplementedError, match="zeta"):
        y.sum().backward()
