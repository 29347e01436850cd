"""Behaviour that the examples in PyTorch's documentation show, op by op."""

from __future__ import annotations

import io
import warnings

import pytest

import flambeau as torch


def packed(compute):
    """What an operation saves for backward, in its order."""
    kept = []

    def pack(tensor):
        kept.append(tensor.detach().clone())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compute()
    return kept


@pytest.mark.parametrize(
    "name",
    "mul div fmod remainder maximum minimum atan2 xlogy fmax fmin logaddexp hypot mm pow".split(),
)
def test_binary_ops_pack_the_other_operand_first(name):
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = torch.tensor([[0.5, 0.25], [2.0, 1.5]], requires_grad=True)
    first, second, *_ = packed(lambda: getattr(torch, name)(a, b))
    assert torch.equal(first, b) and torch.equal(second, a)


def test_products_with_a_sum_pack_operands_in_the_order_of_their_names():
    a, b, c = (torch.full((2, 2), x, requires_grad=True) for x in (1.0, 2.0, 3.0))
    for compute in (
        lambda: torch.addmm(c, a, b),
        lambda: torch.addcmul(c, a, b),
        lambda: torch.addcdiv(c, a, b),
        lambda: torch.nn.functional.linear(a, b),
        lambda: torch.mv(a, b[0]),
        lambda: torch.dot(a[0], b[0]),
    ):
        kept = packed(compute)
        assert [x.flatten()[0].item() for x in kept] == [1.0, 2.0]


def test_dim_order_says_what_is_ambiguous_in_pytorchs_words():
    with pytest.raises(RuntimeError, match=r"exact one of the given memory formats\.$"):
        torch.empty((1, 2, 3, 4)).dim_order(ambiguity_check=True)
    with pytest.raises(TypeError, match="must be a bool or a list of memory formats"):
        torch.empty(2).dim_order(ambiguity_check="ON")


def test_a_hook_after_accumulation_may_return_its_tensor_and_nothing_else():
    x = torch.ones(2, requires_grad=True)
    handle = x.register_post_accumulate_grad_hook(lambda p: p)
    x.sum().backward()
    handle.remove()
    for value, error in ((3, TypeError), (torch.zeros(2), RuntimeError)):
        handle = x.register_post_accumulate_grad_hook(lambda p, value=value: value)
        with pytest.raises(error):
            x.sum().backward()
        handle.remove()


@pytest.mark.parametrize("layout", ["bsr", "bsc"])
def test_blocks_of_batches_and_of_dense_elements(layout):
    dense = torch.zeros(4, 4, 1)
    dense[0, 0] = dense[1, 2] = dense[2, 1] = 1
    sparse = getattr(dense, f"to_sparse_{layout}")((2, 1), 1)
    assert sparse.values().shape == (3, 2, 1, 1)
    batches = torch.zeros(2, 4, 4)
    batches[:, 0, 0] = batches[:, 2, 3] = 1
    sparse = getattr(batches, f"to_sparse_{layout}")((2, 2))
    assert sparse.values().shape == (2, 2, 2, 2)
    assert torch.equal(sparse.to_dense(), batches)
    with pytest.raises(IndexError):
        getattr(torch.zeros(4), f"to_sparse_{layout}")((2, 2))
    with pytest.raises(RuntimeError, match="needs to be a tuple of size 2, but got 3"):
        getattr(dense, f"to_sparse_{layout}")((2, 2, 2))


def test_asarray_keeps_history_unless_told_otherwise():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x + 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.asarray(y) is y
        assert torch.asarray(y, copy=True).grad_fn is not None
        assert torch.asarray(x, dtype=torch.float64).grad_fn is not None
    assert torch.asarray(y, requires_grad=True) is y
    apart = torch.asarray(y, requires_grad=False)
    assert not apart.requires_grad and apart.data_ptr() == y.data_ptr()
    assert torch.asarray(x, requires_grad=False) is x and not x.requires_grad
    with pytest.raises(TypeError, match="'requires_grad' must be bool, not int"):
        torch.asarray(x, requires_grad=1)


def test_gradient_and_histogramdd_return_tuples():
    assert isinstance(torch.gradient(torch.arange(4.0)), tuple)
    result = torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2])
    assert isinstance(result, tuple) and result.hist is result[0]
    assert repr(result).startswith("torch.return_types.histogramdd(\nhist=tensor([[")


def test_fake_quantization_passes_gradients_inside_its_grid():
    x = torch.tensor([-0.5, 0.01, 0.25, 30.0, float("nan")], requires_grad=True)
    y = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
    assert torch.allclose(y, torch.tensor([0.0, 0.0, 0.2, 25.5, 0.0]))
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0, 0]
    scale, zero = torch.tensor([0.1]), torch.tensor([0])
    assert torch.equal(torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255), y)
    rows = torch.tensor([[0.26, -1.0], [0.26, -1.0]])
    steps, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 1], dtype=torch.int32)
    found = torch.fake_quantize_per_channel_affine(rows, steps, zeros, 0, 0, 255)
    assert torch.allclose(found, torch.tensor([[0.3, 0.0], [0.2, -0.2]]))


def test_fake_quantization_refuses_what_is_no_grid():
    x = torch.ones(2, 3)
    whole = torch.zeros(2, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="`zero_point` must be between"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 300, 0, 255)
    with pytest.raises(RuntimeError, match="`quant_min` should be less than or"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 5, 4)
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.fake_quantize_per_tensor_affine(torch.arange(3), 0.1, 0, 0, 255)
    with pytest.raises(RuntimeError, match="Zero-point must be Int32, Float or Half, found Long"):
        torch.fake_quantize_per_channel_affine(x, torch.ones(2), whole.long(), 0, 0, 255)
    with pytest.raises(RuntimeError, match="not consistent with input tensor"):
        torch.fake_quantize_per_channel_affine(x, torch.ones(2), whole, 1, 0, 255)
    with pytest.raises(IndexError):
        torch.fake_quantize_per_channel_affine(x, torch.ones(2), whole, 2, 0, 255)


def test_lstsq_ranks_each_matrix_once():
    a, b = torch.randn(1, 3, 2), torch.randn(2, 3, 2)
    found = torch.linalg.lstsq(a, b, driver="gelsd")
    assert found.solution.shape == (2, 2, 2)
    assert found.rank.shape == (1,) and found.singular_values.shape == (1, 2)


def test_rearrange_splits_merges_and_reorders():
    x = torch.arange(24.0).reshape(2, 3, 4)
    rearrange = torch.func.rearrange
    assert torch.equal(rearrange(x, "a b c -> c (a b)"), x.reshape(6, 4).t())
    assert torch.equal(rearrange(x, "a b (c d) -> d a b c", c=2)[1, 0, 0], x[0, 0, 1::2])
    assert torch.equal(rearrange(x, "a ... -> ... a"), x.movedim(0, -1))
    assert rearrange(x, "a ... -> (a ...) 1").shape == (24, 1)
    assert rearrange([x, x], "n a b c -> (n a) b c").shape == (4, 3, 4)
    for pattern in ("a b -> b a", "a b c -> a b", "a b c", "a a b -> a b", "a (b (c)) -> a b c"):
        with pytest.raises(ValueError):
            rearrange(x, pattern)


def test_skip_data_saves_and_loads_without_contents():
    tensor, file = torch.ones(2, 3), io.BytesIO()
    with torch.serialization.skip_data():
        torch.save(tensor, file)
    file.seek(0)
    assert torch.equal(torch.load(file), torch.zeros(2, 3))
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    with torch.serialization.skip_data():
        assert torch.load(file).shape == (2, 3)


def test_sparse_gradcheck_varies_stored_values():
    gradcheck = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    x = torch.tensor([[0, 1], [2, 3]], dtype=torch.float64).to_sparse_coo().requires_grad_()
    assert gradcheck(lambda x: x.to_sparse_csr(), x)


def test_creation_is_never_taken_over_by_subclasses():
    ignored = torch.overrides.get_ignored_functions()
    assert {torch.Tensor.as_subclass, torch.zeros, torch.Tensor.new_ones} <= ignored


def test_generic_events_and_streams():
    event = torch.Event()
    assert event.device.type == "cuda" and event.query()
    assert repr(event) == "torch.Event device_type=cuda, device_index=-1, event_flag=0, event_id=0"
    with pytest.raises(RuntimeError, match="cpu backend doesn't support events"):
        torch.Event("cpu").record()
    assert torch.Stream("cpu").query()
    assert issubclass(torch.cuda.Stream, torch.Stream) and issubclass(torch.cuda.Event, torch.Event)


def test_thread_safe_generator_is_the_default_one_outside_of_threads():
    assert torch.random.thread_safe_generator() is None
