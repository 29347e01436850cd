"""Nested tensors: both layouts, against what a loop over the components gives."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

import flambeau as torch
import flambeau.nn.functional as F

SIZES = (2, 4, 1)


def parts(width=3, sizes=SIZES):
    torch.manual_seed(0)
    return [torch.randn(n, width) for n in sizes]


@pytest.fixture
def jagged():
    return torch.nested.nested_tensor(parts(), layout=torch.jagged)


@pytest.fixture
def strided():
    return torch.nested.nested_tensor(parts())


def assert_components(nested, wanted):
    found = nested.unbind()
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b)


def test_a_jagged_tensor_says_its_sizes(jagged):
    assert jagged.is_nested and jagged.layout is torch.jagged and isinstance(jagged, torch.Tensor)
    assert jagged.dim() == 3 and len(jagged) == 3 and jagged.numel() == 21
    assert jagged.shape[0] == 3 and jagged.size(-1) == 3
    assert jagged.size(1) == (jagged * 2).size(1) != 4
    assert jagged.offsets().tolist() == [0, 2, 6, 7] and jagged.lengths() is None
    size = repr(jagged.size(1))
    shown = f"NestedTensor(size=(3, {size}, 3), offsets=tensor([0, 2, 6, 7]), contiguous=True)"
    assert repr(jagged) == shown
    with pytest.raises(RuntimeError, match="is no number"):
        jagged.size(1) * 2


def test_the_ragged_dimension_is_where_components_differ():
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(2, 5)], layout=torch.jagged)
    assert nested.size(1) == 2 and nested.values().shape == (2, 8)
    with pytest.raises(RuntimeError, match="single ragged dimension"):
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 5)], layout=torch.jagged)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1,
        lambda x: x * x - 2,
        lambda x: F.relu(x).cos(),
        lambda x: x.softmax(-1),
        lambda x: x.softmax(-2),
        lambda x: F.linear(x, torch.ones(5, 3), torch.ones(5)),
        lambda x: F.layer_norm(x, (3,), torch.ones(3), torch.zeros(3)),
        lambda x: x.sum(-1, keepdim=True),
        lambda x: F.gelu(x),
        lambda x: x.unsqueeze(-1).squeeze(-1),
        lambda x: x.unflatten(-1, (3, 1)).flatten(-2),
        lambda x: x.transpose(-1, -2),
        lambda x: x.to(torch.float64),
        lambda x: x.chunk(3, -1)[1],
        lambda x: x.masked_fill(x > 0, 0.0),
        lambda x: F.dropout(x, 0.0),
    ],
)
def test_an_operation_does_to_each_component_what_it_does_to_a_tensor(layout, compute):
    components = parts()
    nested = torch.nested.nested_tensor(components, layout=getattr(torch, layout))
    assert_components(compute(nested), [compute(x) for x in components])


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_gradients_reach_components_and_leaves(layout):
    components = [x.requires_grad_() for x in parts()]
    nested = torch.nested.as_nested_tensor(components, layout=getattr(torch, layout))
    (torch.nested.to_padded_tensor(nested * nested, 0.0)).sum().backward()
    for x in components:
        torch.testing.assert_close(x.grad, 2 * x.detach())
    leaf = torch.nested.nested_tensor(components, layout=getattr(torch, layout), requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad and leaf.grad is None
    (leaf * 3).sum().backward()
    assert leaf.grad.is_nested
    assert_components(leaf.grad, [torch.full_like(x, 3.0) for x in components])
    assert (leaf * 2).grad_fn.name() == ("MulBackward0" if layout == "jagged" else "CatBackward0")


def test_autograd_grad_gives_nested_gradients(jagged, strided):
    for leaf in (jagged.requires_grad_(), strided.requires_grad_()):
        (found,) = torch.autograd.grad((leaf * leaf).sum(), leaf)
        assert found.is_nested
        assert_components(found, [2 * x for x in parts()])


def test_reductions_along_and_across_the_ragged_dimension(jagged):
    components = parts()
    for name in ("sum", "mean", "amax", "amin"):
        wanted = torch.stack([getattr(x, name)(0) for x in components])
        torch.testing.assert_close(getattr(jagged, name)(1), wanted)
        together = torch.cat(components)
        torch.testing.assert_close(getattr(jagged, name)((0, 1)), getattr(together, name)(0))
    assert_components(jagged.sum(-1), [x.sum(-1) for x in components])
    torch.testing.assert_close(jagged.mean(), torch.cat(components).mean())
    with pytest.raises(RuntimeError, match="batch dimension but not the ragged"):
        jagged.sum(0)
    with pytest.raises(RuntimeError, match="ragged and non-batch"):
        jagged.sum((1, 2))


def test_dense_tensors_broadcast_with_jagged_ones(jagged):
    components = parts()
    for dense in (torch.arange(3.0), torch.arange(9.0).reshape(3, 1, 3), torch.randn(3, 4, 3)):
        rows = dense.expand(3, 4, 3)
        wanted = [x + row[: len(x)] for x, row in zip(components, rows)]
        assert_components(jagged + dense, wanted)
        assert_components(dense + jagged, wanted)
    other = torch.nested.nested_tensor(components, layout=torch.jagged)
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        jagged + other


def test_what_has_no_rule_is_refused(jagged, strided):
    for nested in (jagged, strided):
        with pytest.raises(NotImplementedError, match="std: not implemented for nested tensors"):
            nested.std(1)
        with pytest.raises(RuntimeError):
            nested.numpy()
        with pytest.raises(RuntimeError):
            nested.unbind(1)


def test_padding_and_back(jagged, strided):
    for nested in (jagged, strided):
        dense = nested.to_padded_tensor(-1.0)
        assert dense.shape == (3, 4, 3) and bool((dense[0, 2:] == -1).all())
        assert nested.to_padded_tensor(0.0, (3, 6, 3)).shape == (3, 6, 3)
    ragged = torch.nested.nested_tensor([torch.ones(2, 5), torch.ones(3, 4)])
    assert torch.nested.to_padded_tensor(ragged, 0.0).shape == (2, 3, 5)
    with pytest.raises(RuntimeError, match="less than NestedTensor padded size"):
        torch.nested.to_padded_tensor(ragged, 0.0, (2, 2, 5))


def test_jagged_tensors_over_given_values():
    values, offsets = torch.arange(10.0).reshape(5, 2), torch.tensor([0, 2, 5])
    a = torch.nested.nested_tensor_from_jagged(values, offsets)
    b = torch.nested.nested_tensor_from_jagged(values + 1, offsets)
    assert a.shape == b.shape and a.values().data_ptr() == values.data_ptr()
    assert_components(a + b, [2 * values[:2] + 1, 2 * values[2:] + 1])
    assert_components(
        torch.nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 3])), a.unbind()
    )
    holes = torch.nested.nested_tensor_from_jagged(values, offsets, torch.tensor([1, 2]))
    assert_components(holes, [values[:1], values[2:4]])
    assert not holes.is_contiguous() and holes.contiguous().offsets().tolist() == [0, 1, 3]
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths"):
        torch.nested.nested_tensor_from_jagged(values)


def test_narrow_and_masked_select():
    base = torch.arange(24.0).reshape(2, 4, 3)
    starts, lengths = torch.tensor([0, 1]), torch.tensor([2, 3])
    cut = torch.nested.narrow(base, 1, starts, lengths, layout=torch.jagged)
    assert_components(cut, [base[0, :2], base[1, 1:4]])
    assert cut.values().data_ptr() == base.data_ptr()
    mask = torch.tensor([[True, False, True], [False] * 3])
    chosen = torch.nested.masked_select(torch.arange(6.0).reshape(2, 3), mask)
    assert_components(chosen, [torch.tensor([0.0, 2.0]), torch.empty(0)])


@pytest.mark.parametrize("causal", [False, True])
def test_attention_over_components_of_different_lengths(causal):
    leaf = torch.nested.nested_tensor(parts(8), layout=torch.jagged, requires_grad=True)
    heads = leaf.unflatten(-1, (2, 4)).transpose(1, 2)
    found = F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal)
    found = found.transpose(1, 2).flatten(-2)
    wanted = []
    for x in parts(8):
        q = x.unflatten(-1, (2, 4)).transpose(0, 1)
        out = F.scaled_dot_product_attention(q, q, q, is_causal=causal)
        wanted.append(out.transpose(0, 1).flatten(-2))
    assert_components(found, wanted)
    found.sum().backward()
    assert math.isfinite(float(leaf.grad.values().sum()))


def test_matrix_products(jagged, strided):
    weight = torch.randn(3, 2)
    assert_components(jagged @ weight, [x @ weight for x in parts()])
    transposed = strided.transpose(1, 2)
    assert_components(torch.matmul(strided, transposed), [x @ x.t() for x in parts()])
    gram = torch.matmul(jagged.transpose(1, 2), jagged)
    torch.testing.assert_close(gram, torch.stack([x.t() @ x for x in parts()]))


def test_modules_take_jagged_tensors(jagged):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
    assert_components(model(jagged), [model(x) for x in parts()])
    tokens = torch.nested.nested_tensor([[1, 2], [0]], layout=torch.jagged)
    table = torch.nn.Embedding(3, 5)
    assert_components(table(tokens), [table(torch.tensor(x)) for x in ([1, 2], [0])])


def test_views_and_joins(jagged):
    components = parts()
    viewed = jagged.view(3, -1, 3, 1)
    assert viewed.shape == (3, jagged.size(1), 3, 1)
    assert_components(jagged.view(3, jagged.size(1), 3), components)
    assert_components(torch.cat([jagged, jagged], -1), [torch.cat([x, x], -1) for x in components])
    assert torch.stack([jagged, jagged], -1).shape == (3, jagged.size(1), 3, 2)
    assert torch.equal(jagged[1], components[1]) and torch.equal(jagged[-1, 0], components[2][0])


def test_copies_and_writes(jagged):
    for made in (copy.deepcopy(jagged), pickle.loads(pickle.dumps(jagged)), jagged.clone()):
        assert_components(made, parts())
    changed = jagged.clone()
    assert changed.mul_(2) is changed
    assert_components(changed, [2 * x for x in parts()])


def test_strided_tensors_print_their_components():
    nested = torch.nested.nested_tensor([[1.0, 2.0], [3.0]])
    assert repr(nested) == "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"
    with pytest.raises(RuntimeError, match="is irregular and does not have a size"):
        nested.size(1)


@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_attention_layers_take_nested_tensors(layout):
    layer = torch.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True).eval()
    nested = torch.nested.nested_tensor(parts(8), layout=getattr(torch, layout))
    assert_components(layer(nested), [layer(x[None])[0] for x in parts(8)])
    with pytest.raises(AssertionError, match="does not support NestedTensor with masks"):
        layer.self_attn(nested, nested, nested, attn_mask=torch.ones(4, 4))


def test_layouts_are_not_converted(strided):
    with pytest.raises(RuntimeError, match="Converting between nested tensor layouts"):
        torch.nested.as_nested_tensor(strided, layout=torch.jagged)


def test_nested_tensors_have_the_same_size_where_all_parts_have() -> None:
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    even = torch.nested.nested_tensor([torch.ones(3), torch.ones(3)])
    assert ragged.is_same_size(ragged * 2) and not ragged.is_same_size(even)


def test_strided_nested_tensors_are_joined_along_any_dimension() -> None:
    x = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)])
    assert [tuple(each.shape) for each in torch.cat([x, x], -1).unbind()] == [(2, 6), (1, 6)]
    assert [tuple(each.shape) for each in torch.cat([x, x]).unbind()] == [(2, 3), (1, 3)] * 2
    with pytest.raises(RuntimeError, match="Expected each tensor in given list to be nested"):
        torch.cat([x, torch.ones(2, 3)])


def test_nothing_is_filled_up_only_where_there_is_something() -> None:
    assert torch.nested.nested_tensor([]).to_padded_tensor(0.0).shape == (0,)
    one = torch.nested.nested_tensor([torch.ones(0), torch.ones(2)])
    assert one.to_padded_tensor(3.0).tolist() == [[3, 3], [1, 1]]
    with pytest.raises(RuntimeError, match="non-zero numel"):
        torch.nested.nested_tensor([torch.ones(0, 2)]).to_padded_tensor(0.0)


# --- What PyTorch's tests showed ------------------------------------------------------------------
PIECES = [(2, 3), (4, 3), (1, 3)]


def _example(layout=torch.strided):
    return torch.nested.nested_tensor([torch.randn(s) for s in PIECES], layout=layout)


@pytest.mark.parametrize("product", [torch.bmm, torch.matmul])
def test_each_component_has_its_matrix_of_a_batch(product):
    nested, batch = _example(), torch.randn(3, 3, 2)
    found = product(nested, batch)
    for mine, x, matrix in zip(found.unbind(), nested.unbind(), batch):
        assert torch.allclose(mine, x @ matrix)
    with pytest.raises(RuntimeError, match="batch of 3 matrices"):
        product(nested, torch.randn(2, 3, 2))


def test_a_dense_batch_is_no_operand_beside_a_strided_one():
    with pytest.raises(RuntimeError, match="Expected both self and other to be nested"):
        _example() * torch.ones(3, 1, 1)


def test_some_of_the_components():
    nested = _example()
    part = nested.narrow(0, 1, 2)
    assert [tuple(x.shape) for x in part.unbind()] == PIECES[1:]
    assert torch.equal(part.unbind()[1], nested.unbind()[2])
    for wrong in ((1, 0, 1), (0, 2, 2), (0, -1, 1)):
        with pytest.raises(RuntimeError, match="narrow"):
            nested.narrow(*wrong)


def test_parts_of_the_last_dimension_and_offsets():
    nested = _example()
    one, two = nested.split_with_sizes([1, 2], -1)
    assert torch.equal(one.unbind()[1], nested.unbind()[1][:, :1])
    assert torch.equal(two.unbind()[1], nested.unbind()[1][:, 1:])
    assert nested._nested_tensor_strides().tolist() == [[3, 1]] * 3
    assert nested._nested_tensor_storage_offsets().tolist() == [0, 6, 18]
    assert nested.cpu() is nested and nested.float() is nested and nested.double() is not nested
    assert nested.share_memory_() is nested and nested.is_shared()


def test_chunks_of_a_jagged_batch_and_no_stack_of_it():
    nested = _example(torch.jagged)
    first, second = nested.chunk(2, 0)
    assert [tuple(x.shape) for x in (*first.unbind(), *second.unbind())] == PIECES
    with pytest.raises(RuntimeError, match="dim=0"):
        torch.stack([nested, nested])


def test_ops_of_jagged_tensors_that_keep_their_components(jagged):
    components = parts()
    assert_components(torch.atleast_3d(jagged), components)
    assert_components(jagged.mT, [x.mT for x in components])
    assert_components(torch.diff(jagged), [torch.diff(x) for x in components])
    for found, x in zip(torch.unbind(jagged), components):
        assert torch.equal(found, x)
    other = jagged.clone().copy_(jagged * 2)
    assert_components(other, [x * 2 for x in components])
    assert_components(other.fill_(3), [torch.full_like(x, 3.0) for x in components])
    assert_components(torch.special.ndtr(jagged), [torch.special.ndtr(x) for x in components])
    whole, exponent = torch.frexp(jagged)
    assert whole.is_nested and exponent.is_nested
    for refused in (torch.cumsum, torch.flip, torch.argsort):
        with pytest.raises(NotImplementedError):
            refused(jagged, (2,) if refused is torch.flip else 2)


def test_strided_tensors_take_what_the_registry_says(strided):
    components = parts()
    for name in ("abs", "neg", "sgn", "cos", "tanh", "relu", "isinf", "logical_not", "isreal"):
        function = getattr(torch, name)
        assert_components(function(strided), [function(x) for x in components])
    for refused in ("exp", "log1p", "floor", "sigmoid", "atan", "mean", "amax", "cumsum"):
        with pytest.raises(NotImplementedError, match="not implemented for nested tensors"):
            getattr(strided, refused)()
    assert_components(torch.vstack([strided, strided]), components + components)
    assert_components(strided.mT, [x.mT for x in components])
    with pytest.raises(RuntimeError, match="last dimension"):
        strided.sum(1)


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda x: x.movedim(3, 1), (3, None, 4)),
        (lambda x: x.permute(0, 3, 1, 2), (3, None, 4)),
        (lambda x: x.swapdims(1, 2), (4, None, 3)),
        (lambda x: x[..., None, 0], (None, 4, 1)),
        (lambda x: x[:, :, 1:3], (None, 2, 3)),
        (lambda x: torch.diagonal(x, 0, 2, 3), (None, 3)),
        (lambda x: x.unflatten(2, (2, 2)), (None, 2, 2, 3)),
        (lambda x: torch.stack([x, x], 1), (2, None, 4, 3)),
        (lambda x: x.split(3, 2)[1], (None, 1, 3)),
    ],
)
def test_shapes_of_jagged_tensors_change_as_those_of_components(change, shape):
    parts = [torch.randn(n, 4, 3) for n in (2, 5)]
    found = change(torch.nested.as_nested_tensor(parts, layout=torch.jagged))
    assert found._ragged_idx == 1 + shape.index(None)
    for part, got in zip(parts, found.unbind(), strict=True):
        assert got.shape == tuple(len(part) if size is None else size for size in shape)
        assert torch.equal(got, change(part[None])[0])


def test_neither_the_batch_nor_the_ragged_dimension_is_cut():
    jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    for change, kind, where in (
        (lambda x: x.transpose(0, 1), ValueError, "dim=0"),
        (lambda x: x.unsqueeze(0), RuntimeError, "dim=0"),
        (lambda x: x[1:], RuntimeError, "dim=0"),
        (lambda x: x[:, 1:], RuntimeError, "the ragged dim"),
        (lambda x: torch.cat([x, x], 1), RuntimeError, "the ragged dim"),
        (lambda x: x.flatten(1, 2), RuntimeError, "the ragged dim"),
    ):
        with pytest.raises(kind, match=f"not supported for NestedTensor on {where}"):
            change(jagged)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.parametrize("function", [F.softsign, F.tanhshrink, lambda x: F.softmin(x, -1)])
def test_activations_that_are_compositions_take_components(layout, function):
    found = function(torch.nested.nested_tensor(parts(), layout=layout))
    for part, got in zip(parts(), found.unbind(), strict=True):
        assert torch.allclose(got, function(part))
