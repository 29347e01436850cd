"""Single rules that random programs, compared with PyTorch, have brought to light."""

from __future__ import annotations

import math

import pytest

import flambeau as torch

LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"


@pytest.fixture
def x() -> torch.Tensor:
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)


# Views and histories


def test_a_view_made_while_its_leaf_wanted_a_gradient_stays_one(x) -> None:
    view, part = x.diagonal(), x.unbind()[0]
    x.requires_grad_(False)
    with pytest.raises(RuntimeError, match=LEAF):
        view[:] = -1.5
    x.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been"):
        _ = part.grad_fn


def test_a_view_of_what_was_cut_off_has_no_way_back(x) -> None:
    copy = x.clone()
    view = copy.view(4)
    copy.detach_()
    copy.mul_(2)
    assert view.requires_grad and view.grad_fn is not None
    view.sum().backward()
    assert x.grad is None


def test_a_saved_tensor_must_not_be_detached_in_place(x) -> None:
    copy = x.clone()
    total = copy.logsumexp(0).sum()
    copy.detach_()
    with pytest.raises(RuntimeError, match="detached in-place"):
        total.backward()


def test_a_leaf_of_another_shape_keeps_the_gradient_in_the_shape_that_was_used() -> None:
    leaf = torch.tensor(2.0, requires_grad=True)
    copy = leaf.clone()
    with torch.no_grad():
        leaf.unsqueeze_(0)
    (copy + leaf.sum()).backward()
    assert leaf.shape == (1,) and leaf.grad is not None
    assert leaf.grad.shape == () and leaf.grad.item() == 2


@pytest.mark.parametrize("write", [
    lambda t, other: t.lerp_(other, 0.25), lambda t, other: t.addcmul_(other, other),
    lambda t, other: t.addcdiv_(other, other), lambda t, other: t.addmm_(other, other),
])  # fmt: skip
def test_what_no_gradient_needs_is_not_saved(write, x) -> None:
    copy, other = x.clone(), torch.ones(2, 2, dtype=torch.float64)
    write(copy, other)
    other.mul_(2)
    for _ in range(2):
        copy.sum().backward()


def test_other_memory_has_no_derivative_but_a_place_in_the_history(x) -> None:
    copy, plain = x.clone(), torch.zeros(3, dtype=torch.float64)
    copy.set_(plain)
    assert copy.shape == (3,) and copy.requires_grad
    with pytest.raises(NotImplementedError, match="set_"):
        copy.sum().backward()
    plain.set_(x.exp())
    assert plain.requires_grad and not plain.is_leaf


def test_a_window_that_moves_keeps_its_gradient(x) -> None:
    copy = x.clone()
    copy.as_strided_((2,), (1,), 1)
    assert copy.tolist() == [2, 3]
    (copy * torch.tensor([5.0, 7.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 5], [7, 0]]


def test_a_view_with_other_memory_leaves_its_base_alone(x) -> None:
    copy = x.clone()
    view = copy[0].expand(3, 2)
    view.data = torch.ones(50, 2, dtype=torch.float64)
    copy.mul_(2)
    assert view.requires_grad and view.shape == (50, 2)


def test_integers_take_values_with_a_history_through_any_view(x) -> None:
    whole = torch.zeros(2, 2, dtype=torch.int64)
    with torch.no_grad():
        view = whole[...]
    view[...] = x
    assert whole.tolist() == [[1, 2], [3, 4]] and not whole.requires_grad


def test_nothing_is_written_if_the_other_operand_is_refused(x) -> None:
    part, target = x.unbind()[1], torch.zeros(2, dtype=torch.float64)
    with torch.no_grad():
        x[:0].zero_()
    for write in (target.add_, target.copy_):
        with pytest.raises(RuntimeError, match="its base or another view of its base"):
            write(part)
        assert target.tolist() == [0, 0]


def test_one_of_several_views_may_be_copied_within_their_base(x) -> None:
    copy = x * 2
    first = copy.unbind()[0]
    copy[1] = first
    copy.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[4, 4], [0, 0]]
    with pytest.raises(RuntimeError, match="its base or another view of its base"):
        first.sum().backward()


def test_a_leaf_that_got_a_history_takes_no_gradient() -> None:
    leaf = torch.tensor([1.0], requires_grad=True)
    total = (leaf * 2).sum()
    leaf.detach_()
    leaf.copy_(torch.ones(1, requires_grad=True) * 3)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        total.backward()


def test_a_retained_gradient_is_that_before_hooks_of_the_node(x) -> None:
    y = x.exp()
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.retain_grad()
    y.register_hook(lambda grad: grad * 3)
    y.sum().backward()
    assert y.grad is not None and y.grad.tolist() == [[3, 3], [3, 3]]


def test_indices_beside_values_take_no_gradient(x) -> None:
    for values in (x.max(0)[0], x.cummax(1)[0], x.sort()[0], x.median(0)[0]):
        lengths: list[int] = []
        values.grad_fn.register_prehook(lambda grads, seen=lengths: seen.append(len(grads)))
        values.sum().backward()
        assert lengths == [1]


def test_hooks_of_a_leaf_run_even_if_it_wants_no_gradient_any_more(x) -> None:
    seen: list[object] = []
    copy = x.clone()
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad))
    x.requires_grad_(False)
    copy.sum().backward()
    assert seen == [None]


def test_hooks_after_accumulation_return_nothing(x) -> None:
    x.register_post_accumulate_grad_hook(lambda t: t.clone())
    with pytest.raises(RuntimeError, match="should return None"):
        x.sum().backward()


@pytest.mark.parametrize("loss", [
    lambda x, i: torch.nn.functional.ctc_loss(x.log_softmax(2), i, [4, 3], [2, 2]),
    lambda x, i: torch.nn.functional.embedding_bag(i, x[0]).sum(),
])  # fmt: skip
def test_what_is_looked_up_must_not_change(loss) -> None:
    x = torch.ones(4, 2, 3, dtype=torch.float64, requires_grad=True)
    index = torch.ones(2, 2, dtype=torch.int64)
    total = loss(x, index)
    index.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


# Derivatives


def test_a_gradient_that_is_no_number_stays_with_its_element(x) -> None:
    (x.min() * math.nan).backward()
    assert x.grad is not None and x.grad[1].tolist() == [0, 0] and x.grad[0, 1].item() == 0
    assert math.isnan(x.grad[0, 0].item())


def test_distinct_values_have_no_derivative(x) -> None:
    values = x.unique()
    assert values.requires_grad
    with pytest.raises(NotImplementedError, match="unique"):
        values.sum().backward()


def test_transforms_refuse_integers() -> None:
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype"):
        torch.func.grad(torch.sum)(torch.ones(2, dtype=torch.int64))


def test_the_second_derivative_of_a_complex_size_is_zero_at_zero() -> None:
    z = torch.tensor([0j, 3 + 4j], dtype=torch.complex128, requires_grad=True)
    (first,) = torch.autograd.grad(z.abs().sum(), z, create_graph=True)
    assert first.tolist() == [0, 0.6 + 0.8j]
    (second,) = torch.autograd.grad(first.real.sum(), z)
    assert second[0].item() == 0
    assert abs(second[1].item() - (0.128 - 0.096j)) < 1e-12


def test_gradients_lie_in_memory_as_the_forward_step_says(x) -> None:
    for graph in (False, True):
        (grad,) = torch.autograd.grad(x.logcumsumexp(0).sum(), x, create_graph=graph)
        assert grad.stride() == (2, 1)
    z = torch.ones(2, 3, dtype=torch.complex64).t().requires_grad_()
    assert torch.autograd.grad(z.abs().sum(), z)[0].stride() == (2, 1)


# Results into out=


@pytest.mark.parametrize("name", ["add", "sub", "mul", "pow", "fmod", "div", "eq"])
def test_what_is_also_read_is_not_resized(name) -> None:
    column, row = torch.ones(3, 1), torch.ones(3)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        getattr(torch, name)(column, row, out=column)
    assert column.shape == (3, 1)


def test_a_resized_output_follows_the_layout_of_the_operands() -> None:
    a = torch.ones(2, 3).t()
    for name in ("add", "mul", "eq", "atan2", "pow"):
        for dtype in (torch.float32, torch.float64):
            out = getattr(torch, name)(a, a, out=torch.empty(0, dtype=dtype))
            assert out.shape == (3, 2) and out.stride() == (1, 3), (name, dtype)
    assert torch.exp(a, out=torch.empty(0)).stride() == (1, 3)
    assert torch.exp(a, out=torch.empty(3, 2)).stride() == (2, 1)


def test_some_results_are_not_converted_on_their_way_out() -> None:
    t = torch.ones(2, 2)
    for name in ("abs", "triu", "round"):
        with pytest.raises(RuntimeError):
            getattr(torch, name)(t, out=torch.empty(0, dtype=torch.float64))
    with pytest.raises(RuntimeError):
        torch.clamp(t, 0, 1, out=torch.empty(0, dtype=torch.float64))
    assert torch.exp(t, out=torch.empty(0, dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(TypeError):
        torch.stack([t, t], out=torch.empty(0, dtype=torch.int64))


def test_an_output_in_the_memory_of_its_operand() -> None:
    column = torch.tensor([[1.0], [2.0]])
    with pytest.warns(UserWarning, match="was resized"):
        assert torch.neg(column, out=column.t()).tolist() == [[-1], [-2]]
    assert column.tolist() == [[-1], [-2]]


def test_spread_operands_say_how_the_result_lies() -> None:
    row = torch.ones(1, 2, 1)
    assert (row + row.permute(1, 2, 0)).stride() == (1, 2, 4)
    assert (row + torch.ones(2, 1, 1)).stride() == (2, 1, 1)
    assert (torch.ones(3, 4) + torch.ones(4)).stride() == (4, 1)


# Indexing and empty tensors


def test_indices_that_lead_nowhere_are_not_looked_at() -> None:
    t = torch.zeros(3, 2, 2)
    far = torch.tensor([5, 5])
    assert t[:, far, 2:2].shape == (3, 2, 0)
    t[:, far, 2:2] = -1
    t[:0].index_fill_(1, far, 1.0)
    with pytest.raises(RuntimeError):
        t[:0].index_select(1, far)
    with pytest.raises(IndexError):
        torch.zeros(3, 0)[:, torch.tensor([0])]


def test_dimensions_of_size_one_leave_the_order_of_an_indexed_result_alone() -> None:
    t = torch.zeros(8).as_strided((1, 1, 2), (1, 1, 1))
    assert t[:, [0, -1]].stride() == (4, 2, 1)
    assert t[[0, -1]].stride() == (2, 1, 1)


def test_softmax_of_no_integers_is_empty() -> None:
    for dtype in (torch.int64, torch.bool):
        for softmax in (torch.softmax, torch.log_softmax):
            result = softmax(torch.zeros(0, 3, dtype=dtype), -1)
            assert result.shape == (0, 3) and result.dtype == dtype
    with pytest.raises(NotImplementedError):
        torch.zeros(1, 3, dtype=torch.int64).softmax(-1)


def test_sums_over_nothing_have_every_dtype() -> None:
    none = torch.zeros(2, 0, dtype=torch.bool)
    assert (none @ none.t()).tolist() == [[False, False]] * 2
    with pytest.raises(IndexError):
        torch.tensor(1.0).take_along_dim(torch.tensor(0), 0)


def test_a_single_element_needs_no_order() -> None:
    z = torch.tensor(2 + 1j)
    assert z.cummax(0)[0].item() == 2 + 1j and z.kthvalue(1)[1].item() == 0
    byte = torch.tensor(3, dtype=torch.uint8)
    assert byte.cumprod_(0).item() == 3 and byte.dtype == torch.uint8
    assert torch.tensor([2, 3], dtype=torch.int32).cumprod_(0).tolist() == [2, 6]
    assert torch.tensor(True).cumsum_(0).item() is True
    assert torch.zeros(0, dtype=torch.uint8).cumprod_(0).numel() == 0
    with pytest.raises(IndexError):
        byte.repeat_interleave(2, 0)
    with pytest.raises(IndexError):
        byte.diag_embed()


def test_positions_are_looked_for_before_values_are_converted() -> None:
    t = torch.zeros(1, 3)
    with pytest.raises(IndexError):
        t[torch.tensor([True, True, True])] = 1j
    with pytest.raises(RuntimeError):
        t[torch.tensor([True])] = 1j
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.zeros(2, dtype=torch.uint8).index_fill_(0, torch.tensor([0]), torch.tensor(-0.5))
    with pytest.raises(RuntimeError, match="without rows"):
        torch.nn.functional.embedding(torch.tensor([0]), torch.zeros(0, 2))
    with pytest.raises(RuntimeError, match="memory location"):
        torch.cat([t[:], t], out=t)


def test_a_mask_takes_a_number_as_the_dtype_does() -> None:
    flags = torch.zeros(2, dtype=torch.bool)
    flags[torch.tensor([True, False])] = 1j
    assert flags.tolist() == [True, False]
    flags[torch.tensor([True, True])] = torch.tensor([1j])
    assert flags.tolist() == [True, True]
    byte = torch.zeros(2, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="without overflow"):
        byte[torch.tensor([True, False])] = torch.tensor([-1.5])


def test_what_is_real_is_its_own_conjugate(x) -> None:
    assert x.conj_physical() is x
    (grad,) = torch.autograd.grad(x.angle().sum(), x, create_graph=True)
    assert grad.abs().sum().item() == 0 and not grad.requires_grad


def test_an_empty_view_keeps_its_history(x) -> None:
    none = x[3:1, 1:1]
    with torch.no_grad():
        none.exp_()
    (grad,) = torch.autograd.grad(none.sum(), x)
    assert grad.tolist() == [[0, 0], [0, 0]]


def test_losses_take_bools() -> None:
    guess, flags = torch.tensor([True, False]), torch.tensor([0.5, 0.5])
    assert torch.nn.functional.smooth_l1_loss(guess, flags).item() == 0.125
    assert torch.nn.functional.huber_loss(flags, guess).item() == 0.125


def test_log_softmax_keeps_what_is_close_to_zero() -> None:
    row = torch.tensor([2.945, -8.617], dtype=torch.bfloat16)
    assert math.isclose(row.log_softmax(0)[0].item(), -9.5e-6, rel_tol=0.05)


@pytest.mark.parametrize(("equation", "strides"), [
    ("ij,jk->ik", (5, 1)), ("ij,jk->ki", (3, 1)), ("bij,bjk->kib", (3, 1, 15)),
    ("bij,jk->bki", (15, 1, 5)), ("i,j->ji", (3, 1)), ("ij,kl->kilj", (72, 24, 4, 1)),
])  # fmt: skip
def test_contractions_come_in_the_order_of_the_output(equation, strides) -> None:
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5, "l": 6}
    operands = [
        torch.ones([sizes[label] for label in labels])
        for labels in equation.split("->")[0].split(",")
    ]
    assert torch.einsum(equation, *operands).stride() == strides


def test_steps_have_no_derivative(x) -> None:
    y = x.heaviside(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="heaviside"):
        y.sum().backward()


def test_devices_have_the_names_of_dlpack() -> None:
    kind, index = torch.ones(1).__dlpack_device__()
    assert isinstance(kind, torch.utils.dlpack.DLDeviceType)
    assert kind.name == "kDLCPU" and index == 0


def test_products_with_vectors_are_no_views(x) -> None:
    for product in (x[0] @ x, x[0].detach() @ x.detach(), x[None] @ x[0]):
        assert not product._is_view()
        product.detach_()


def test_functions_of_nn_are_taken_over_as_a_whole() -> None:
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, len(args), sorted(kwargs or {})

    functional = torch.nn.functional
    assert functional.relu(Duck()) == (functional.relu, 1, ["inplace"])
    assert functional.dropout(Duck(), 0.1) == (functional.dropout, 1, ["inplace", "p", "training"])
    assert functional.layer_norm(torch.ones(2), [2], weight=Duck())[1:] == (
        2, ["bias", "eps", "weight"],
    )  # fmt: skip


def test_functions_of_nn_refuse_and_promote_as_pytorch_does() -> None:
    functional = torch.nn.functional
    alike = functional.cosine_similarity(torch.ones(3), torch.tensor(2.0, dtype=torch.float64), 0)
    assert alike.dtype == torch.float64
    for mode in ("replicate", "reflect"):
        with pytest.raises(RuntimeError, match="non-zero dimensions"):
            functional.pad(torch.zeros(0, 5), (1, 1), mode=mode)
    with pytest.raises(IndexError):
        functional.unfold(torch.ones(2, 2), 1)
    with pytest.raises(NotImplementedError):
        functional.unfold(torch.ones(1, 2, 2, dtype=torch.int64), 1)
    with pytest.raises(RuntimeError, match=LEAF.split(" of ", 1)[1]):
        torch.zeros(0, 5, requires_grad=True).fill_diagonal_(1)
