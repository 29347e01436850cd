"""What nodes have saved, seen from outside: `_saved_*`, SavedTensor and its hooks."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flambeau as torch


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def test_inputs_are_found_by_the_names_of_arguments() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    node = (x * y).grad_fn
    assert node._saved_self is x
    assert node._saved_other is y
    node = torch.mm(x.reshape(1, 2), y.reshape(2, 1)).grad_fn
    assert node._saved_self.shape == (1, 2)
    assert node._saved_mat2.shape == (2, 1)


def test_an_argument_that_nobody_needs_is_none() -> None:
    x, y = leaf(1.0, 2.0), torch.tensor([3.0, 4.0])
    node = (x * y).grad_fn
    assert node._saved_self is None
    assert node._saved_other is y


def test_the_same_tensor_twice_has_both_names() -> None:
    x = leaf(2.0)
    node = (x * x).grad_fn
    assert node._saved_self is x
    assert node._saved_other is x


def test_an_output_keeps_its_history() -> None:
    y = leaf(1.0, 2.0).exp()
    saved = y.grad_fn._saved_result
    assert torch.equal(saved, y)
    assert saved.grad_fn is y.grad_fn


def test_dir_lists_what_is_saved() -> None:
    x = leaf(1.0, 2.0)
    names = dir((x / x).grad_fn)
    assert {"_saved_self", "_saved_other", "_raw_saved_self", "name"} <= set(names)
    assert len([name for name in names if name.startswith("_saved_")]) == 2
    assert not [name for name in dir((x + x).grad_fn) if name.startswith("_saved_")]
    indices = torch.tensor([1, 0])
    assert torch.equal(x.gather(0, indices).grad_fn._saved_index, indices)


def test_unknown_names_are_attribute_errors() -> None:
    node = leaf(1.0).exp().grad_fn
    assert not hasattr(node, "_saved_nothing")
    with pytest.raises(AttributeError, match="_saved_weight"):
        node._saved_weight  # noqa: B018


def test_looking_runs_no_hooks() -> None:
    unpacked = []

    def unpack(value: torch.Tensor) -> torch.Tensor:
        unpacked.append(value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = leaf(1.0).exp()
    assert "_saved_result" in dir(y.grad_fn)
    assert not unpacked
    y.grad_fn._saved_result  # noqa: B018
    assert len(unpacked) == 1


def test_after_backward_they_are_gone() -> None:
    y = leaf(1.0).exp()
    raw = y.grad_fn._raw_saved_result
    y.backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        y.grad_fn._saved_result  # noqa: B018
    with pytest.raises(RuntimeError, match="after it has been freed"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_a_write_is_noticed() -> None:
    y = leaf(1.0).exp()
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.grad_fn._saved_result  # noqa: B018


def test_hooks_on_a_single_saved_tensor() -> None:
    x = leaf(3.0)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t * 10)
    assert y.grad_fn._saved_self.item() == 60.0
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 63.0


def test_hooks_that_are_refused() -> None:
    x = leaf(3.0)
    raw = x.exp().grad_fn._raw_saved_result
    with pytest.raises(TypeError, match="callables"):
        raw.register_hooks(1, lambda t: t)
    raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="already been set"):
        raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="value None"):
        (x * torch.ones(1)).grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="in place"):
        x.exp().grad_fn._raw_saved_result.register_hooks(lambda t: t.add_(1), lambda t: t)
    with pytest.raises(RuntimeError, match="is forbidden"):
        torch.autograd.SavedTensor()


def test_custom_functions_show_what_they_saved() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(x, None)
            return x * 2

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad * ctx.saved_tensors[0]

    x = leaf(3.0)
    y = Twice.apply(x)
    raw = y.grad_fn._raw_saved_tensors
    assert len(raw) == 2
    raw[0].register_hooks(lambda t: t, lambda t: t + 1)
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 4.0
    with pytest.raises(RuntimeError, match="freed"):
        y.grad_fn._raw_saved_tensors  # noqa: B018


def test_a_hook_added_by_an_unpack_hook_runs_in_the_same_pass() -> None:
    x = leaf(3.0)

    def unpack(value: torch.Tensor) -> torch.Tensor:
        y.grad_fn.register_hook(lambda out, in_: (out[0] * (5 if in_ == (None,) else 0),))
        return value

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp()
    y.backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 5 * x.detach().exp())


def test_pre_hooks_see_what_is_asked_for_without_changing_it() -> None:
    log = []
    b = leaf(1.0).clone()
    b.grad_fn.register_prehook(lambda grads: (log.append("node"), (grads[0] * 2,))[1])
    b.register_hook(lambda grad: (log.append("tensor"), grad * 3)[1])
    assert torch.autograd.grad(b.sum(), b, retain_graph=True)[0].item() == 3.0
    assert log == ["tensor"]
    b.sum().backward(inputs=(b,))
    assert b.grad is not None
    assert b.grad.item() == 3.0
    assert log == ["tensor", "tensor", "node"]


def test_the_dtype_of_a_leafs_gradient_can_be_chosen() -> None:
    x = leaf(1.0, 2.0)
    assert x.grad_dtype is torch.float32
    y = (x * 2).sum()
    x.grad_dtype = torch.bfloat16
    y.backward()
    assert x.grad is not None
    assert x.grad.dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match="already a gradient"):
        x.grad_dtype = torch.float64
    x.grad = None
    with pytest.raises(RuntimeError, match="grad_dtype"):
        x.grad = torch.ones(2)
    x.grad_dtype = None
    x.grad = torch.ones(2, dtype=torch.float64)
    assert x.grad_dtype is None
    with pytest.raises(RuntimeError, match="leaf"):
        (x * 2).grad_dtype = torch.float64
    with pytest.raises(RuntimeError, match="dtype or None"):
        x.grad_dtype = 3


def look_at_all(node: torch.autograd.graph.Node | None) -> int:
    """Reads everything that a graph has saved."""
    count, seen, waiting = 0, set(), [node]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith(("_saved_", "_raw_saved_")):
                getattr(node, name)
                count += 1
        waiting.extend(source for source, _ in node.next_functions)
    return count


@pytest.mark.parametrize("kind", ["lstm", "convolution", "attention"])
def test_looking_changes_nothing(kind: str) -> None:
    def build() -> tuple[list[torch.Tensor], torch.Tensor]:
        torch.manual_seed(0)
        if kind == "lstm":
            layer, x = torch.nn.LSTM(4, 6, 2, dropout=0.3), torch.randn(5, 3, 4)
            return list(layer.parameters()), layer(x)[0].sum()
        if kind == "convolution":
            layer = torch.nn.Sequential(
                torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2)
            )
            return list(layer.parameters()), layer(torch.randn(2, 3, 8, 8)).sum()
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32)
        return list(layer.parameters()), layer(torch.randn(5, 3, 16)).sum()

    params, out = build()
    expected = torch.autograd.grad(out, params)
    params, out = build()
    state = torch.get_rng_state()
    assert look_at_all(out.grad_fn) > 5
    assert torch.equal(state, torch.get_rng_state())
    for one, two in zip(expected, torch.autograd.grad(out, params)):
        assert torch.equal(one, two)


def test_looking_at_what_was_overwritten_is_safe() -> None:
    indices = torch.tensor([1, 0])
    node = leaf(1.0, 2.0).gather(0, indices).grad_fn
    indices.fill_(1 << 40)
    assert "_saved_index" in dir(node)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        node._saved_index  # noqa: B018


def test_a_program_may_end_while_hooks_are_set() -> None:
    program = (
        "import flambeau as torch\n"
        "torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x).__enter__()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_saved_variables_is_an_older_name() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_variables[0]

    x = leaf(3.0)
    with pytest.warns(DeprecationWarning, match="saved_variables"):
        Square.apply(x).sum().backward()
    assert x.grad.item() == 6
