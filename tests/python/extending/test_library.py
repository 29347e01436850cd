"""Operators that programs register: their schemas, kernels, derivatives and errors."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import Tensor
from flambeau._library import _schema
from flambeau.library import Library, custom_op, infer_schema, opcheck


@custom_op("flambeau_test::scaled_sin", mutates_args=())
def scaled_sin(x: Tensor, scale: float = 2.0, *, flag: bool = False) -> Tensor:
    return torch.sin(x) * scale


@scaled_sin.register_fake
def _(x, scale=2.0, *, flag=False):
    return torch.empty_like(x)


def _setup(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def _backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * x.cos() * ctx.scale, None


scaled_sin.register_autograd(_backward, setup_context=_setup)


def test_a_custom_op_computes_and_differentiates():
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.equal(scaled_sin(x, 3.0), x.sin() * 3.0)
    assert torch.equal(torch.ops.flambeau_test.scaled_sin.default(x), x.sin() * 2.0)
    assert torch.autograd.gradcheck(lambda v: scaled_sin(v, 3.0), x)


def test_a_custom_op_tells_shapes_on_the_meta_device():
    assert scaled_sin(torch.empty(2, 3, device="meta")).shape == (2, 3)


def test_opcheck_finds_wrong_shapes_and_hidden_writes():
    assert opcheck(scaled_sin, (torch.ones(2), 2.0)) == {
        "test_schema": "SUCCESS",
        "test_autograd_registration": "SUCCESS",
        "test_faketensor": "SUCCESS",
    }

    @custom_op("flambeau_test::liar", mutates_args=())
    def liar(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    liar.register_fake(lambda x: x.new_empty(7))
    with pytest.raises(RuntimeError, match="writes into its argument 'x'"):
        opcheck(liar, (torch.ones(2),), test_utils="test_schema")
    with pytest.raises(RuntimeError, match=r"shape \(2,\)"):
        opcheck(liar, (torch.ones(2),), test_utils="test_faketensor")


def test_an_op_without_a_rule_says_so_in_backward():
    @custom_op("flambeau_test::plain", mutates_args=())
    def plain(x: Tensor, others: list[Tensor]) -> tuple[Tensor, Tensor]:
        return x + others[0], x * 2

    x = torch.ones(2, requires_grad=True)
    first, _ = plain(x, [x])
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        first.sum().backward()


def test_gradients_of_lists_are_lists():
    @custom_op("flambeau_test::total", mutates_args=())
    def total(tensors: list[Tensor], weight: float) -> Tensor:
        return sum(t * weight for t in tensors)

    def setup(ctx, inputs, output):
        ctx.count, ctx.weight = len(inputs[0]), inputs[1]

    total.register_autograd(
        lambda ctx, grad: ([grad * ctx.weight] * ctx.count, None), setup_context=setup
    )
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    total([a, b], 3.0).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [3.0, 3.0]


def test_a_library_defines_operators_and_their_kernels():
    library = Library("flambeau_test_lib", "DEF")
    library.define("pair(Tensor x, int[] sizes=[1, 2], *, Tensor? z=None) -> (Tensor, Tensor)")
    library.impl("pair", lambda x, sizes, z=None: (x + len(sizes), x), "CPU")
    first, second = torch.ops.flambeau_test_lib.pair(torch.ones(1))
    assert (first.item(), second.item()) == (3.0, 1.0)
    with pytest.raises(RuntimeError, match="already a kernel registered"):
        library.impl("pair", lambda x: x, "CPU")
    with pytest.raises(RuntimeError, match="twice"):
        library.define("pair(Tensor x) -> Tensor")


def test_calls_are_checked_against_the_schema():
    x = torch.ones(1)
    for call, message in (
        (lambda: scaled_sin(), "missing value for argument 'x'"),
        (lambda: scaled_sin(x, 1.0, 2.0), "expected at most 2 argument"),
        (lambda: scaled_sin(x, other=1), "Unknown keyword argument 'other'"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(AttributeError, match="'_OpNamespace' 'nobody' object has no attribute"):
        _ = torch.ops.nobody.nothing


def test_aten_names_are_this_librarys_functions():
    assert torch.ops.aten.add.Tensor(torch.ones(2), 2).tolist() == [3.0, 3.0]
    assert torch.ops.aten.linalg_vector_norm(torch.ones(4)).item() == 2.0


def test_compiled_libraries_are_refused_in_the_way_that_packages_expect():
    with pytest.raises(OSError, match="compiled against PyTorch"):
        torch.ops.load_library("/nowhere/_C.so")


def test_what_is_registered_before_an_operator_is_defined_is_kept():
    torch.library.register_fake("flambeau_test_late::op", lambda x: x.new_empty(3))
    library = Library("flambeau_test_late", "DEF")
    library.define("op(Tensor x) -> Tensor")
    assert torch.ops.flambeau_test_late.op(torch.empty(1, device="meta")).shape == (3,)


@pytest.mark.parametrize(
    "text",
    [
        "ns::op(Tensor x, float y=2.0, *, bool flag=False) -> Tensor",
        "ns::op(Tensor(a!) x, int[] sizes=[1, 2]) -> ()",
        'ns::op(str how="a, b") -> (Tensor, Tensor[])',
    ],
)
def test_schemas_are_read_and_written(text):
    assert str(_schema.parse("", text)) == text


def test_schemas_are_inferred_from_annotations():
    def function(x: Tensor, y: Tensor | None, n: int, *, how: str = "a") -> tuple[Tensor, int]:
        raise NotImplementedError

    assert infer_schema(function, mutates_args={"x"}) == (
        '(Tensor(a0!) x, Tensor? y, SymInt n, *, str how="a") -> (Tensor, SymInt)'
    )
    with pytest.raises(ValueError, match="must have a type annotation"):
        infer_schema(lambda x: x, mutates_args=())


def test_operators_are_recorded_by_tracing():
    traced = torch.fx.symbolic_trace(lambda x: torch.ops.flambeau_test.scaled_sin(x, 3.0) + 1)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets[0] is torch.ops.flambeau_test.scaled_sin
    x = torch.ones(2)
    assert torch.equal(traced(x), x.sin() * 3.0 + 1)


def test_parts_of_a_program_are_named_for_the_profiler():
    part = torch.ops.profiler._record_function_enter("a part")
    torch.ops.profiler._record_function_exit(part)


def test_operators_can_be_copied():
    import copy

    again = copy.copy(torch.ops.aten.sin)
    assert torch.equal(again(torch.ones(2)), torch.ones(2).sin())
    assert str(again.default) == "aten.sin.default"


def test_operators_are_defined_as_they_once_were():
    library = Library("flambeau_older", "FRAGMENT")

    @torch.library.define(library, "twice(Tensor x) -> Tensor")
    def twice(x):
        return x * 2

    torch.library.impl_abstract("flambeau_older::twice", func=lambda x: torch.empty_like(x))
    assert torch.equal(torch.ops.flambeau_older.twice(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.ops.flambeau_older.twice(torch.empty(3, device="meta")).shape == (3,)


def test_an_operator_around_a_triton_kernel_refuses_only_when_the_kernel_runs() -> None:
    @torch.library.triton_op("flambeau_test::triton_add", mutates_args={})
    def add(x: Tensor, use_kernel: bool = False) -> Tensor:
        if use_kernel:
            torch.library.wrap_triton(object())[(1,)](x)
        return x + 1

    assert add(torch.ones(2)).tolist() == [2, 2]
    assert torch.ops.flambeau_test.triton_add(torch.ones(1)).tolist() == [2]
    with pytest.raises(NotImplementedError, match="does not run Triton kernels"):
        add(torch.ones(2), True)


def test_a_rule_is_told_which_arguments_want_a_gradient():
    seen = []

    @custom_op("flambeau_test::picky", mutates_args=())
    def picky(xs: list[Tensor], y: Tensor, scale: float) -> Tensor:
        return xs[0] * xs[1] * y * scale

    def setup(ctx, inputs, output):
        seen.append(ctx.needs_input_grad)
        ctx.mark = "kept"

    def backward(ctx, grad):
        assert ctx.mark == "kept" and ctx.needs_input_grad == seen[0]
        return [None, grad], None, None

    picky.register_autograd(backward, setup_context=setup)
    x = torch.ones(2, requires_grad=True)
    picky([torch.ones(2), x], torch.ones(2), 2.0).sum().backward()
    assert seen == [([False, True], False, False)]
    assert torch.equal(x.grad, torch.ones(2))
