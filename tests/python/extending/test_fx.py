"""Programs as graphs: tracing, reading, changing and running them."""

from __future__ import annotations

import copy
import math
import operator
import pickle

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx, nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(torch.rand(3, 4))
        self.linear = nn.Linear(4, 5)
        self.register_buffer("shift", torch.ones(5))

    def forward(self, x, scale=2.0):
        hidden = self.linear(x + self.param).clamp(min=0.0, max=1.0)
        first, second = hidden.relu().chunk(2, dim=1)
        return F.relu(hidden + self.shift) * scale, torch.cat([first, second], dim=1)


def wrapped(x, n):
    if n > 1:
        return x * n
    return x if x.sum() > 0 else -x


fx.wrap("wrapped")
fx.wrap("len")


def test_a_traced_module_computes_the_same():
    net = Net()
    traced = fx.symbolic_trace(net)
    x = torch.rand(3, 4)
    for got, expected in zip(traced(x), net(x)):
        assert torch.equal(got, expected)
    assert traced(x, scale=1.0)[0].shape == (3, 5)
    traced.graph.lint()
    assert dict(traced.named_parameters()).keys() == dict(net.named_parameters()).keys()


def test_the_text_of_a_graph_is_pytorchs():
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.param = nn.Parameter(torch.rand(3, 4))
            self.linear = nn.Linear(4, 5)

        def forward(self, x):
            return self.linear(x + self.param).clamp(min=0.0, max=1.0)

    assert fx.symbolic_trace(Small()).code == (
        "\n\n\n"
        "def forward(self, x):\n"
        "    param = self.param\n"
        "    add = x + param;  x = param = None\n"
        "    linear = self.linear(add);  add = None\n"
        "    clamp = linear.clamp(min = 0.0, max = 1.0);  linear = None\n"
        "    return clamp\n"
        "    "
    )


def test_nodes_say_what_they_are():
    kinds = [(node.op, str(node.target)) for node in fx.symbolic_trace(Net()).graph.nodes]
    assert kinds[0] == ("placeholder", "x")
    assert ("get_attr", "param") in kinds and ("call_module", "linear") in kinds
    assert ("call_method", "clamp") in kinds and kinds[-1][0] == "output"


def test_functional_math_and_wrapped_calls_are_one_node_each():
    def function(x):
        y = F.interpolate(x, scale_factor=2)
        return wrapped(y, len(x)) + math.sqrt(x.size(0))

    graph = fx.symbolic_trace(function).graph
    called = [node.target for node in graph.nodes if node.op == "call_function"]
    assert F.interpolate in called and wrapped in called and math.sqrt in called and len in called
    x = torch.rand(2, 1, 4)
    assert torch.equal(fx.symbolic_trace(function)(x), function(x))


def test_control_flow_on_values_cannot_be_traced():
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: [row + 1 for row in x])
    # What tracing had put in place of functions is gone again.
    assert F.relu(torch.tensor(-1.0)).item() == 0.0 and "__call__" not in vars(nn.Module)


def test_a_graph_is_changed_and_compiled_again():
    traced = fx.symbolic_trace(lambda x: torch.add(x, 1).relu())
    for node in traced.graph.nodes:
        if node.target is torch.add:
            with traced.graph.inserting_after(node):
                new = traced.graph.call_function(torch.mul, (node.args[0], 3))
            node.replace_all_uses_with(new)
            traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    assert traced(torch.tensor([2.0])).item() == 6.0


def test_patterns_are_replaced():
    traced = fx.symbolic_trace(lambda x, w: torch.relu(x + w) + torch.relu(w + x))
    matches = fx.replace_pattern(
        traced, lambda a, b: torch.relu(a + b), lambda a, b: torch.sigmoid(a * b)
    )
    assert len(matches) == 2
    x, w = torch.rand(3), torch.rand(3)
    assert torch.allclose(traced(x, w), 2 * torch.sigmoid(x * w))


def test_dead_nodes_are_removed():
    def function(x):
        torch.neg(x)
        return x + 1

    graph = fx.symbolic_trace(function).graph
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [operator.add]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(next(iter(graph.nodes)))


def test_interpreters_and_transformers_take_nodes_over():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(
                torch.mul if target is operator.add else target, args, kwargs
            )

    net = fx.symbolic_trace(lambda x: (x + 3) - 1)
    assert Swap(net).transform()(torch.tensor(2.0)).item() == 5.0
    assert fx.Interpreter(net).run(torch.tensor(2.0)).item() == 4.0


def test_shapes_are_noted():
    from flambeau.fx.passes.shape_prop import ShapeProp

    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    ShapeProp(traced).propagate(torch.rand(3, 4))
    assert [
        tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes if n.op == "call_module"
    ] == [
        (3, 2),
        (3, 2),
    ]


def test_graph_modules_are_copied_and_pickled():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2), nn.ReLU()))
    x = torch.rand(3, 4)
    for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert torch.equal(other(x), traced(x)) and other.code == traced.code
        assert other.get_parameter("0.weight") is not traced.get_parameter("0.weight")


def test_stars_stay_whole():
    def function(x, *rest, flag=True, **options):
        return x + rest[0], options

    traced = fx.symbolic_trace(function)
    assert traced(1, 2, a=3) == (3, {"a": 3})


def test_concrete_arguments_decide():
    def function(x, negate):
        return -x if negate else x

    assert fx.symbolic_trace(function, {"negate": True})(torch.tensor(1.0)).item() == -1.0


def test_a_pattern_may_return_several_values():
    def function(x, y):
        difference = x - y
        return torch.sigmoid(difference) + torch.relu(difference) * 2

    def pattern(a, b):
        difference = a - b
        return torch.sigmoid(difference), torch.relu(difference)

    traced = fx.symbolic_trace(function)
    matches = fx.replace_pattern(traced, pattern, lambda a, b: (torch.exp(a), torch.abs(b)))
    traced.graph.lint()
    x, y = torch.rand(3), torch.rand(3)
    assert len(matches) == 1 and torch.equal(traced(x, y), torch.exp(x) + torch.abs(y) * 2)


def test_operators_that_write_are_statements():
    graph = fx.Graph()
    left, right = graph.placeholder("a"), graph.placeholder("b")
    graph.call_function(operator.imul, (left, right), {})
    graph.output(left)
    module = fx.GraphModule({}, graph)
    assert module(2, 3) == 6 and "a *= b" in module.code


def test_nodes_know_where_they_come_from():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x):
            return self.inner(x) + 1

    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    module = Outer()
    traced = fx.GraphModule(module, tracer.trace(module))
    for made in (traced, fx.Transformer(traced).transform()):
        linear, add = (n for n in made.graph.nodes if n.op.startswith("call"))
        stack = linear.meta["nn_module_stack"]
        assert list(stack) == ["inner", "inner.0"]
        assert stack["inner.0"] == ("inner.0", nn.Linear)
        assert "nn_module_stack" not in add.meta
        assert "test_fx.py" in add.stack_trace
    assert fx.symbolic_trace(module).graph.output_node().stack_trace is None


def test_tracers_and_modules_that_mention_themselves_are_copied():
    tracer = fx.Tracer()
    tracer.trace(nn.ReLU())
    assert isinstance(copy.deepcopy(tracer), fx.Tracer)
    traced = fx.symbolic_trace(nn.ReLU())
    traced.meta = {"self": traced}
    copied = copy.deepcopy(traced)
    assert copied is not traced and copied.meta["self"] is copied
