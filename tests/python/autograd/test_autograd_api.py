"""autograd.grad and autograd.backward: arguments, results and errors."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import backward, grad


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_grad_of_a_scalar(x) -> None:
    assert grad((x * x).sum(), x)[0].tolist() == [2.0, 4.0, 6.0]
    assert x.grad is None


def test_grad_outputs_weight_the_outputs(x) -> None:
    (g,) = grad([x * x, x], x, [torch.ones(3), torch.full((3,), 10.0)])
    assert g.tolist() == [12.0, 14.0, 16.0]


def test_a_dict_of_inputs_gives_a_dict(x) -> None:
    found = grad((x * x).sum(), {"x": x})
    assert list(found) == ["x"] and found["x"].tolist() == [2.0, 4.0, 6.0]


def test_unused_inputs(x) -> None:
    z = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        grad((x * x).sum(), [x, z])
    assert grad((x * x).sum(), [x, z], allow_unused=True)[1] is None
    zeros = grad((x * x).sum(), [x, z], materialize_grads=True)[1]
    assert zeros.tolist() == [0.0, 0.0] and not zeros.requires_grad
    with pytest.raises(ValueError, match="allow_unused=False"):
        grad((x * x).sum(), z, allow_unused=False, materialize_grads=True)


def test_second_derivatives(x) -> None:
    (first,) = grad((x**3).sum(), x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [6.0, 12.0, 18.0]


def test_batched_gradients_give_the_rows_of_the_jacobian(x) -> None:
    (rows,) = grad(x * x, x, torch.eye(3), is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]


def test_retain_graph(x) -> None:
    y = (x * x).sum()
    grad(y, x, retain_graph=True)
    grad(y, x)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        grad(y, x)


def test_backward_adds_to_grad(x) -> None:
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0, 5.0]
    backward([x.sum(), x.sum()])
    assert x.grad.tolist() == [7.0, 7.0, 7.0]


def test_backward_into_chosen_inputs(x) -> None:
    z = torch.ones(3, requires_grad=True)
    (x * z).sum().backward(inputs=[z])
    assert x.grad is None and z.grad.tolist() == [1.0, 2.0, 3.0]


def test_edges_stand_for_tensors(x) -> None:
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    assert grad((y * y).sum(), edge)[0].tolist() == [4.0, 8.0, 12.0]
    assert torch.autograd.graph.get_gradient_edge(x).node.variable is x
    assert (
        grad(torch.autograd.graph.get_gradient_edge(x * 2), x, torch.ones(3))[0].tolist()
        == [2.0] * 3
    )


ERRORS = (
    ("grad(x * 2, x)", RuntimeError, "implicitly created only for scalar outputs"),
    (
        "grad((x * 1j).sum(), x)",
        RuntimeError,
        "only for real scalar outputs but got torch.complex64",
    ),
    ("grad(x.sum(), [])", RuntimeError, "cannot be empty"),
    ("grad(x * 2, x, torch.ones(2))", RuntimeError, r"Mismatch in shape: grad_output\[0\]"),
    ("grad(x * 2, x, torch.ones(3, dtype=torch.complex64))", RuntimeError, "same dtype"),
    ("grad(x * 2, x, [3])", TypeError, "either Tensors or None, but got int"),
    ("grad(torch.ones(3).sum(), x)", RuntimeError, "does not require grad"),
    ("grad(x.sum(), torch.ones(3))", RuntimeError, "does not require grad"),
    ("backward(x * 2)", RuntimeError, "implicitly created only for scalar outputs"),
    ("backward(x.sum(), inputs=[])", RuntimeError, "cannot be empty"),
    ("torch.ones(2).sum().backward()", RuntimeError, "does not require grad"),
    (
        "torch.autograd.graph.get_gradient_edge(torch.ones(2))",
        RuntimeError,
        "does not require gradients",
    ),
)


@pytest.mark.parametrize("code, kind, message", ERRORS, ids=[code for code, _, _ in ERRORS])
def test_errors(code, kind, message, x) -> None:
    with pytest.raises(kind, match=message):
        eval(code, {"torch": torch, "grad": grad, "backward": backward, "x": x})


def test_variable_is_a_name_for_tensors() -> None:
    x = torch.ones(2)
    v = torch.autograd.Variable(x, requires_grad=True)
    assert type(v) is torch.Tensor and v.requires_grad and v.data_ptr() == x.data_ptr()
    assert isinstance(x, torch.autograd.Variable)
    with pytest.raises(TypeError, match="has to be a tensor"):
        torch.autograd.Variable(3)


def test_what_is_asked_for_is_taken_before_hooks_where_the_pass_goes_on() -> None:
    x = torch.ones(2, requires_grad=True)

    def hooked() -> torch.Tensor:
        z = x * 3
        z.register_hook(lambda g: g * 5)
        return z

    z = hooked()
    assert [g.tolist() for g in torch.autograd.grad(z.sum(), [z, x])] == [[1, 1], [15, 15]]
    z = hooked()
    assert torch.autograd.grad(z.sum(), z)[0].tolist() == [5, 5]


def test_a_leaf_that_is_set_to_other_memory_takes_gradients_of_its_new_shape() -> None:
    leaf = torch.nn.Parameter(torch.ones(5))
    kept = []
    for size in (4, 3):
        with torch.no_grad():
            leaf.set_(leaf[1:])
        leaf.grad = None
        kept.append(torch.cat((leaf, leaf)))  # graphs of the older shapes stay alive
        kept[-1].sum().backward()
        assert leaf.grad.tolist() == [2.0] * size


def test_multithreading_is_a_setting_and_a_context() -> None:
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
    torch.autograd.set_multithreading_enabled(False)
    assert not torch.autograd.is_multithreading_enabled()
    torch.autograd.set_multithreading_enabled(True)


def test_zeros_can_stand_for_missing_gradients_of_tensors_beside_edges() -> None:
    x, y = torch.rand(2, requires_grad=True).clone(), torch.rand(2, requires_grad=True).clone()
    edge_x, edge_y = (torch.autograd.graph.get_gradient_edge(t) for t in (x, y))
    out = x.clone()
    found = torch.autograd.grad(out.sum(), (edge_x, y), materialize_grads=True)
    assert found[0].tolist() == [1, 1] and found[1].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="cannot be used when the given input is a GradientEdge"):
        torch.autograd.grad(out.sum(), (x, edge_y), materialize_grads=True)
