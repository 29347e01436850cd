"""Single rules that a fourth lot of random programs, compared with PyTorch, brought to light."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

F = torch.nn.functional


@pytest.mark.parametrize("name", ["sin", "cos", "log", "atan", "sinh", "asinh", "log1p", "exp2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_elements_have_equal_results_wherever_they_stand(name: str, dtype: Any) -> None:
    values = torch.linspace(0.1, 2.9, 23, dtype=dtype)
    function = getattr(torch, name)
    alone = torch.stack([function(value) for value in values])
    for count in (1, 5, 16, 23):
        assert torch.equal(function(values[:count]), alone[:count])
        assert torch.equal(function(values.repeat(3)), alone.repeat(3))
    assert torch.equal(function(values.repeat(2, 1).t()), alone.repeat(2, 1).t())


def test_einsum_without_a_sum_promotes_and_with_one_does_not() -> None:
    half, single = torch.ones(2, dtype=torch.float16), torch.full((3,), 2.0)
    assert torch.einsum("i,j->ij", half, single).dtype is torch.float32
    assert torch.einsum("i,j->", half, single).item() == 12
    assert torch.einsum("ij,jk->ik", half[:, None], single[None]).dtype is torch.float32
    flags = torch.tensor([[False], [True]])
    assert torch.einsum("...i,...i->...", flags, flags).tolist() == [False, True]
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        torch.einsum("ij,jk->ik", torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64))


def test_vmap_of_what_returns_its_argument_gives_the_argument() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    same, total = torch.func.vmap(lambda t: (t, t.sum()))(x)
    assert same is x and total.tolist() == [2, 2, 2]
    one = torch.ones(1, requires_grad=True)
    assert torch.func.vmap(lambda t: (t, t.sum()))(one)[0] is one
    assert torch.func.vmap(lambda t: t, out_dims=1)(x).shape == (2, 3)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


@pytest.mark.parametrize("use", [lambda t: t.argsort(), lambda t: t.isclose(t), lambda t: t + 1])
def test_a_view_whose_history_is_lost_cannot_be_used(use: Any) -> None:
    x = Same.apply(torch.ones(2, 1, requires_grad=True))
    view = x.view(2)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified inplace"):
        use(view)
    assert view.allclose(view.detach())


def test_a_leaf_is_not_written_to_through_a_conjugated_view_whatever_the_index() -> None:
    x = torch.ones(1, 2, dtype=torch.complex64, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.mH[torch.tensor([False]), :] = torch.ones(1, dtype=torch.complex64)


def gradient(function: Any, x: Any, g: Any) -> Any:
    return torch.autograd.grad(function(x), x, g)[0]


@pytest.mark.parametrize("function", [F.elu, F.selu, F.hardswish, F.hardsigmoid, F.hardtanh,
                                      F.hardshrink, torch.logit, F.relu6])  # fmt: skip
def test_gradients_lie_as_those_that_come_in(function: Any) -> None:
    x = torch.rand(2, 3, 4, requires_grad=True)
    for g in (torch.rand(4, 3, 2).permute(2, 1, 0), torch.rand(3, 2, 4).transpose(0, 1)):
        assert gradient(function, x, g).stride() == g.stride()
        assert torch.allclose(
            gradient(function, x, g), gradient(function, x, g.contiguous()), equal_nan=True
        )
    transposed = torch.rand(4, 3, 2).permute(2, 1, 0).requires_grad_()
    assert gradient(function, transposed, torch.ones(()).expand(2, 3, 4)).stride() == (1, 2, 6)


def test_gradients_of_relu_lie_as_its_result() -> None:
    x = torch.rand(4, 3, 2).permute(2, 1, 0).requires_grad_()
    assert gradient(torch.relu, x, torch.rand(2, 3, 4)).stride() == (1, 2, 6)


def test_gradients_at_zero_do_not_hide_infinite_ones() -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    infinite = torch.tensor([torch.inf, torch.inf])
    copied = gradient(lambda t: torch.copysign(t, -1.0), x, infinite)
    assert copied[0].isnan() and copied[1] == -torch.inf
    assert gradient(torch.sinc, x, infinite)[0] == 0


def test_dense_results_of_sparse_tensors_can_be_written_to() -> None:
    x = torch.eye(2, requires_grad=True)
    dense = x.to_sparse().to_dense()
    with torch.no_grad():
        dense.mul_(2)
    dense.mul_(3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[3, 0], [0, 3]]


def test_batches_of_rows_are_multiplied_by_a_sparse_matrix() -> None:
    x = torch.arange(12.0).view(2, 2, 3)
    matrix = torch.tensor([[1.0, 0, 0], [0, 0, 2], [0, 3, 0]])
    assert torch.equal(x @ matrix.to_sparse(), x @ matrix)


@pytest.mark.parametrize("weight", [torch.float64, torch.float16, torch.int64])
def test_normalizations_refuse_parameters_of_other_dtypes(weight: Any) -> None:
    x, scale = torch.rand(2, 3), torch.ones(3, dtype=weight)
    for call in (lambda: F.layer_norm(x, (3,), scale), lambda: F.group_norm(x, 1, scale)):
        with pytest.raises(RuntimeError, match="mixed dtype"):
            call()
    half = x.bfloat16()
    assert F.layer_norm(half, (3,), torch.ones(3)).dtype is torch.bfloat16
    with pytest.raises(RuntimeError, match="mixed dtype"):
        F.layer_norm(half, (3,), torch.ones(3, dtype=torch.bfloat16), torch.ones(3))


def test_a_bool_is_a_number_where_one_is_asked_for() -> None:
    x = torch.full((2,), 0.5)
    assert F.pad(x, (1, 0), value=True).tolist() == [1, 0.5, 0.5]
    assert torch.allclose(x, x + 0.1, rtol=True)
    assert F.dropout(x, True).tolist() == [0, 0]
    with pytest.raises(TypeError):
        x.sum(True)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: F.avg_pool2d(torch.ones(2, 3), 1), IndexError),
        (lambda: F.batch_norm(torch.ones(3), None, None, training=True), IndexError),
        (lambda: torch.fft.fft2(torch.ones(3, dtype=torch.bfloat16)), IndexError),
        (lambda: torch.baddbmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2)), IndexError),
        (lambda: torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2)), IndexError),
        (lambda: torch.ones(()).mv(torch.ones(2)), IndexError),
        (lambda: F.embedding_bag(torch.tensor([0]), torch.ones(2), torch.tensor([0])), ValueError),
        (lambda: F.interpolate(torch.ones(2, 3), scale_factor=2, mode="bilinear", antialias=True),
         ValueError),
        (lambda: F.multi_margin_loss(torch.ones(2, 2, dtype=torch.int16), torch.tensor([0, 1])),
         NotImplementedError),
        (lambda: torch.nn.AdaptiveLogSoftmaxWithLoss(3, 4, [2])(torch.ones(3), torch.tensor([1])),
         RuntimeError),
    ],
)  # fmt: skip
def test_wrong_calls_raise_what_pytorch_raises(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_one_average_can_be_asked_of_any_plane() -> None:
    x = torch.arange(6.0).view(2, 3)
    assert F.adaptive_avg_pool2d(x, 1).tolist() == [[2.5]]


def test_an_image_with_channels_last_keeps_them_there_for_what_follows() -> None:
    x = torch.rand(5, 5, 1, 1).transpose(0, -1)
    assert x.exp().stride() == (25, 1, 25, 5)
    assert torch.stack([x.exp() + 1] * 2).stride()[2] == 1


def test_a_window_on_no_memory_is_the_same_window_where_it_has_the_same_base() -> None:
    x = torch.zeros(0, 5)
    assert x[:].is_set_to(x) and x[:].is_set_to(x[...])
    assert not x[:].is_set_to(torch.zeros(0, 5)) and not x.t().is_set_to(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_of_one_index_behind_others_go_to_their_own_rows(dtype: Any) -> None:
    x = torch.zeros(3, 4, 3, dtype=dtype, requires_grad=True)
    g = torch.arange(1.0, 10).view(3, 1, 3).to(dtype)
    for index in (torch.tensor([True, False, False, False]), torch.tensor([0])):
        assert torch.equal(torch.autograd.grad(x[:, index], x, g)[0][:, :1], g)
        part = torch.autograd.grad(x[:, index, :2], x, g[..., :2])[0]
        assert torch.equal(part[:, :1, :2], g[..., :2])


def test_lists_are_written_to_as_a_whole_or_not_at_all() -> None:
    x, leaf = torch.zeros(2), torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        torch._foreach_add_([x, leaf], 1.0)
    assert x.tolist() == [0, 0]
    with torch.no_grad():
        torch._foreach_add_([x, leaf], 1.0)
    assert x.tolist() == leaf.tolist() == [1, 1]


def test_products_and_inverses_of_too_few_dimensions_are_refused() -> None:
    with pytest.raises(RuntimeError, match="at least 1D"):
        torch.ones(()).to_sparse() @ torch.ones(())
    with pytest.raises(RuntimeError, match="dimensions"):
        torch.linalg.tensorinv(torch.ones(()))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64])
def test_derivatives_of_what_is_constantly_one_are_zero(dtype: Any) -> None:
    x = torch.tensor([0.0, 2.0], dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad((x ** torch.zeros(2, dtype=dtype)).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x)[0]
    assert first.tolist() == second.tolist() == [0, 0]


def test_padding_of_a_weight_without_dimensions_is_no_question_of_its_size() -> None:
    with pytest.raises(RuntimeError, match="must be 2-D"):
        F.embedding(torch.tensor([0]), torch.tensor(3), padding_idx=0)


def test_a_dimension_of_one_broadcasts_with_nothing_in_tensordot() -> None:
    assert torch.tensordot(torch.zeros(1, 0), torch.zeros(1, 0), 1).shape == (1, 0)
    assert torch.equal(torch.tensordot(torch.ones(2, 0), torch.ones(1, 4), 1), torch.zeros(2, 4))
    assert torch.tensordot(torch.ones(2, 3), torch.ones(1, 4), 1).tolist() == [[3.0] * 4] * 2


def test_a_triangular_system_is_read_in_the_dtype_of_its_matrix() -> None:
    a = 5 * torch.eye(2)
    for dtype in (torch.bool, torch.int64, torch.float64):
        b = torch.tensor([[5, 0], [10, 5]]).to(dtype)
        x = torch.linalg.solve_triangular(a, b, upper=False)
        assert x.dtype == torch.float32 and torch.equal(x, b.float() / 5)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.linalg.solve_triangular(a, a.to(torch.complex64), upper=False)


def test_the_largest_of_no_singular_values_has_no_history() -> None:
    x = torch.zeros(5, 0, 3, requires_grad=True)
    assert torch.linalg.matrix_norm(x, 2).tolist() == [0.0] * 5
    assert not torch.linalg.matrix_norm(x, 2).requires_grad
    assert not torch.linalg.matrix_norm(x, float("inf")).requires_grad
    assert torch.linalg.matrix_norm(x, 1).requires_grad
    assert torch.linalg.matrix_norm(x, "nuc").requires_grad


def test_recurrent_layers_take_complex_numbers() -> None:
    x = torch.randn(1, 5, 3, dtype=torch.complex128, requires_grad=True)
    for layer in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
        output = layer(3, 2, dtype=torch.complex128)(x)[0]
        (grad,) = torch.autograd.grad(output.abs().sum(), x)
        assert output.shape == (1, 5, 2) and grad.abs().min() > 0
    net = torch.nn.RNN(3, 2, dtype=torch.complex128)
    bias = net.bias_ih_l0 + net.bias_hh_l0
    torch.testing.assert_close(net(x)[0], (x @ net.weight_ih_l0.mT + bias).tanh())


def test_which_error_tells_of_what_has_no_dimensions() -> None:
    with pytest.raises(IndexError, match="no dimensions"):
        torch.tensordot(torch.tensor(1.0), torch.tensor(2.0), ([0], [0]))
    with pytest.raises(IndexError, match="no dimensions"):
        torch.linalg.householder_product(torch.ones(2, 2), torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="pad_sequence"):
        torch.nn.utils.rnn.pad_sequence([torch.tensor(1.0)])
    with pytest.raises(RuntimeError, match="to be at least 1 at dimension 0"):
        torch.nn.functional.conv_transpose1d(torch.zeros(1, 0, 3), torch.zeros(0, 2, 2))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_gradients_by_a_complex_factor(name: str) -> None:
    x, a, b = (torch.randn(3, dtype=torch.complex128, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda *t: getattr(torch, name)(*t, value=2 - 1j), (x, a, b))


@pytest.mark.parametrize("equation", ["...->...", "ij->ij", "ij"])
def test_einsum_of_one_operand_is_a_view_of_it(equation: str) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    same = torch.einsum(equation, x)
    assert same is not x and not same.is_leaf and same.data_ptr() == x.data_ptr()


def test_hooks_on_several_gradients_come_where_a_pass_ends_at_inner_tensors() -> None:
    b, d = (torch.ones(1, requires_grad=True).clone() for _ in range(2))
    seen: list[Any] = []
    torch.autograd.graph.register_multi_grad_hook((d, b), lambda grads: seen.append(list(grads)))
    (b * 2).sum().backward(inputs=[b], retain_graph=True)
    (b * 2 + d).sum().backward(inputs=[b, d])
    assert seen == [[None, torch.tensor([2.0])], [torch.tensor([1.0]), torch.tensor([2.0])]]
