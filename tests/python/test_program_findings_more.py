"""More single rules that random programs, compared with PyTorch, have brought to light."""

from __future__ import annotations

import math

import pytest

import flambeau as torch

OVERLAP = "refer to a single memory location"


# Indices


def test_a_mask_of_several_dimensions_stands_beside_other_indices() -> None:
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    rows = torch.tensor([1, 0, 3, 2])
    assert x[mask, rows].tolist() == [
        x[0, 0, 1].tolist(), x[0, 2, 0].tolist(), x[1, 1, 3].tolist(), x[1, 2, 2].tolist()
    ]  # fmt: skip
    assert x[mask, 1:, 0].shape == (4, 3) and x[mask, :, rows].shape == (4, 4)
    assert x[mask, True].shape == (4, 4, 5) and x[None, mask, rows].shape == (1, 4, 5)
    x[mask, rows] = -1.0
    assert (x == -1).sum() == 20 and x[1, 1, 3].tolist() == [-1.0] * 5


def test_a_number_is_converted_before_index_tensors_are_broadcast() -> None:
    x = torch.zeros(3, 3)
    two, three = torch.tensor([True, True, False]), torch.tensor([True, True, True])
    with pytest.raises(RuntimeError, match="without overflow"):
        x[two, three] = 1j
    with pytest.raises(IndexError, match="shape of the mask"):
        x[torch.tensor([True, False])] = 1j
    with pytest.raises(IndexError, match="could not be broadcast"):
        x[two, three] = torch.tensor(1j)
    x[two] = 2 + 0j
    x[three, torch.tensor([2, 2, 2])] = 5 + 0j
    assert x.tolist() == [[2, 2, 5], [2, 2, 5], [0, 0, 5]]


def test_a_complex_number_without_imaginary_part_fills_real_masks() -> None:
    x = torch.zeros(2, dtype=torch.int16)
    x.masked_fill_(torch.tensor([True, False]), torch.tensor(-1.5 + 0j))
    assert x.tolist() == [-1, 0]
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill_(torch.tensor([True, False]), torch.tensor(1j))


def test_an_index_beyond_the_second_dimension_is_a_runtime_error() -> None:
    x = torch.zeros(4, 2)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.index_select(1, torch.tensor([3]))
    with pytest.raises(IndexError, match="out of bounds"):
        x.index_select(0, torch.tensor([4]))


def test_a_window_written_into_another_shape_of_itself_is_refused() -> None:
    x = torch.arange(12.0).as_strided((2, 3, 1, 2), (6, 2, 1, 1))
    with pytest.raises(RuntimeError, match=OVERLAP):
        x[None] = x
    x[...] = x


def test_a_slice_of_everything_is_a_step_where_it_is_the_whole_key() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    y = x * 1
    assert y[:].grad_fn.name() == "SliceBackward0"
    assert y[:, 0:3].grad_fn.name() == y[...].grad_fn.name() == "AliasBackward0"
    assert y[:, 1:].grad_fn.name() == y[-2:, :].grad_fn.name() == "SliceBackward0"


# Leaves that were given other memory


def test_a_leaf_with_another_shape_spreads_gradients_of_the_old_one() -> None:
    x = torch.ones(1, 3, requires_grad=True)
    before = x.clone()
    x.data = torch.ones(3, 3)
    before.sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 3
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [[6.0] * 3]


def test_a_leaf_with_another_dtype_has_an_accumulator_for_each() -> None:
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    before = x * 2
    x.data = torch.ones(3, dtype=torch.complex128)
    loss = before.sum() + x.sum().abs()
    assert torch.autograd.grad(loss, x, retain_graph=True)[0].tolist() == [1, 1, 1]
    assert torch.autograd.grad(loss, x, allow_unused=True)[0] is not None
    assert torch.autograd.grad((x.detach() * before).sum().abs(), x, allow_unused=True) == (None,)


def test_a_leaf_reshaped_unrecorded_keeps_its_new_shape_in_its_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    before = x.clone()
    with torch.no_grad():
        x.unsqueeze_(0)
    before.sum().backward()
    assert x.grad.shape == (1, 2)


def test_a_leaf_view_whose_base_gets_a_history_is_no_leaf_any_more() -> None:
    base = torch.ones(3)
    view = base.view_as(base).requires_grad_()
    base.sub_(view)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        base.sum().backward()


def test_resizing_what_was_saved_is_noticed() -> None:
    x = torch.ones(2, requires_grad=True)
    matrix = torch.ones(2, 1)
    y = x @ matrix
    matrix.resize_(2, 1)
    y.sum().backward(retain_graph=True)
    matrix.resize_(20)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_data_of_another_shape_cannot_lead_a_product_astray() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    matrix = torch.ones(2, 2)
    for data in (torch.ones(1), torch.ones(5, 5), torch.ones(2, 2, dtype=torch.float64)):
        y = x @ matrix
        matrix.data = data
        with pytest.raises(RuntimeError):
            y.sum().backward()
        matrix.data = torch.ones(2, 2)


# Histories


def test_what_a_custom_function_saved_survives_detaching() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = torch.tensor([3.0], requires_grad=True)
    copy = x.clone()
    y = Square.apply(copy)
    copy.detach_()
    y.sum().backward()
    assert x.grad.item() == 6.0


def test_a_product_of_batches_keeps_views_that_detaching_leaves_alone() -> None:
    for multiply in (torch.matmul, lambda a, b: torch.nn.functional.linear(a, b.t())):
        x = torch.ones(2, 3, 1, requires_grad=True)
        w = torch.ones(1, 2, requires_grad=True)
        copy = x.clone()
        y = multiply(copy, w)
        copy.detach_()
        y.sum().backward()
        assert x.grad.tolist() == [[[2.0]] * 3] * 2 and w.grad.tolist() == [[6.0, 6.0]]


def test_a_view_strided_in_place_is_taken_from_what_it_was() -> None:
    x = torch.arange(8.0).reshape(4, 2).requires_grad_()
    view = (x * 1).narrow(-1, 1, 1)
    view.as_strided_((2,), (1,))
    assert view.tolist() == [1.0, 2.0]
    (view * view).sum().backward()
    assert x.grad.flatten().tolist() == [0.0, 2.0] + [0.0] * 6


def test_the_product_of_no_elements_has_a_second_derivative() -> None:
    x = torch.zeros(0, 3, requires_grad=True)
    grad = torch.autograd.grad(x.prod() ** 2, x, create_graph=True)[0]
    assert grad.shape == (0, 3) and grad.requires_grad


# Numbers


def test_log1p_near_minus_one_and_of_large_complex_numbers() -> None:
    z = torch.tensor([-1 + 1e-8j, -1.0001 + 1e-3j, 1e200 + 1e200j, 1e-20 + 3e-12j, -0.5 + 0.866j])
    z = torch.tensor(z.tolist(), dtype=torch.complex128)
    z[0], z[2] = -1 + 1e-8j, 1e200 + 1e200j
    found = z.log1p()
    assert found[0].real.item() == pytest.approx(math.log(1e-8), rel=1e-14)
    assert found[2].real.item() == pytest.approx(math.log(2) / 2 + 200 * math.log(10), rel=1e-14)
    assert found[3].real.item() == pytest.approx(1.00045e-20, rel=1e-3)


def test_gradients_of_extremes_do_not_multiply_by_zero() -> None:
    inf, nan = math.inf, math.nan
    for function, a, b, g, wanted in (
        (torch.maximum, 1.0, inf, inf, (0.0, inf)),
        (torch.minimum, 2.0, 2.0, inf, (inf, inf)),
        (torch.maximum, nan, 1.0, 1.0, (1.0, 1.0)),
        (torch.fmax, 2.0, 2.0, 1.0, (0.5, 0.5)),
        (torch.fmin, nan, 1.0, 1.0, (0.0, 1.0)),
        (torch.clamp, nan, 1.0, 1.0, (1.0, 1.0)),
    ):
        x, y = torch.tensor([a], requires_grad=True), torch.tensor([b], requires_grad=True)
        found = torch.autograd.grad(function(x, y), (x, y), torch.tensor([g]))
        assert tuple(t.item() for t in found) == wanted, (function, a, b, g)


def test_bounds_without_dimensions_are_tensors() -> None:
    flags = torch.tensor(False)
    assert flags.clamp_(min=torch.tensor(True)).item() is True
    assert torch.clip(torch.arange(3), max=torch.tensor([1, 1, 1])).tolist() == [0, 1, 1]


def test_a_weight_without_dimensions_is_a_number() -> None:
    x = torch.ones(2, dtype=torch.float64)
    for weight in (torch.tensor(2), torch.tensor(2.0), torch.tensor(2, dtype=torch.uint8)):
        assert torch.lerp(x, x * 3, weight).tolist() == [5.0, 5.0]
    assert torch.lerp(x, x * 3, torch.tensor(1j)).tolist() == [1 + 2j, 1 + 2j]
    with pytest.raises(RuntimeError, match="weight"):
        torch.lerp(x, x, torch.ones(2))


def test_forward_derivatives_want_floating_numbers() -> None:
    x = torch.tensor([1, -3])
    with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
        torch.func.jvp(torch.sin, (x,), (x,))
    with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
        torch.func.jvp(torch.sin, (x.double(),), (x,))


def test_numbers_are_copied_with_all_their_digits() -> None:
    x = torch.zeros(1, dtype=torch.float64)
    assert x.copy_(0.1).item() == 0.1 and x.copy_(1e300).item() == 1e300


def test_products_are_made_in_the_dtype_that_they_are_written_to() -> None:
    x = torch.tensor([100, 100], dtype=torch.int8)
    assert torch.prod(x, 0, out=torch.empty(0, dtype=torch.float16)).item() == 10000.0
    assert torch.prod(x, 0, out=torch.empty(0, dtype=torch.bool)).item() is True
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.prod(x, 0, dtype=torch.float32, out=torch.empty(0, dtype=torch.int64))


def test_values_that_fit_nowhere() -> None:
    mask = torch.tensor([True, False])
    assert torch.where(mask, torch.ones(2, dtype=torch.float16), 1e300)[1].item() == math.inf
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.zeros(2, dtype=torch.uint8).masked_fill_(mask, torch.tensor(-1.5))
    with pytest.raises(IndexError, match="too many indices"):
        torch.zeros(()).index_put_((torch.tensor(True),), torch.tensor(1.0))


def test_transforms_of_nothing_keep_their_history() -> None:
    x = torch.zeros(0, 3, requires_grad=True)
    doubled = torch.func.vmap(lambda row: row * 2)(x)
    assert doubled.shape == (0, 3) and doubled.requires_grad
    jacobian = torch.func.jacrev(torch.sin)(x.flatten())
    assert jacobian.shape == (0, 0) and jacobian.requires_grad


def test_a_view_by_a_custom_function_may_be_written_into_its_base() -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = torch.tensor([2.0], requires_grad=True)
    copy = x.clone()
    copy.mul_(Same.apply(copy).detach() + Same.apply(copy))
    view = Same.apply(copy)
    copy.add_(view)
    assert copy.item() == 16.0


@pytest.mark.parametrize("shape", [(3,), (2, 1), (4, 1, 3), (1,), (4, 2, 1)])
def test_short_rows_are_written_in_place_once(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64, torch.int16, torch.float16):
        x = torch.zeros(4, 2, 3, dtype=dtype)
        assert x.add_(torch.ones(shape, dtype=dtype)).flatten().tolist() == [1] * 24


@pytest.mark.parametrize("call", [
    lambda a: torch.nn.functional.grid_sample(a[None, None], torch.zeros(1, 1, 1, 2)),
    lambda a: torch.mode(a, 0)[0], lambda a: torch.mode(a, 1, True)[0],
])  # fmt: skip
def test_results_are_no_views_of_what_nobody_sees(call) -> None:
    a = torch.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)
    result = call(a)
    result *= 2
    result.sum().backward()
    assert a.grad is not None and a.grad.sum() > 0


def test_overwriting_a_solution_is_noticed() -> None:
    a, b = (torch.eye(2) * 2).requires_grad_(), torch.ones(2, requires_grad=True)
    x = torch.linalg.solve(a, b)
    with torch.no_grad():
        x.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_of_no_elements() -> None:
    assert torch.zeros(0, dtype=torch.int8).median().item() == 0
    assert torch.zeros(0, dtype=torch.int32).median().item() == -(2**31)
    nothing = torch.zeros(1, 0)[torch.tensor([False]), torch.tensor([0])]
    assert nothing.shape == (0,)
    assert torch.cumsum(torch.zeros(2, 0), 1, out=torch.empty(0, dtype=torch.bool)).shape == (2, 0)


def test_convolutions_of_nothing_but_batches_and_channels_are_refused() -> None:
    conv = torch.nn.functional.conv1d
    with pytest.raises(RuntimeError, match="Only zero batch or zero channel"):
        conv(torch.zeros(1, 5, 0), torch.zeros(1, 5, 1), padding=1)
    with pytest.raises(RuntimeError, match="kernel size should be greater than zero"):
        conv(torch.zeros(1, 5, 3), torch.zeros(1, 5, 0))
    assert conv(torch.zeros(0, 5, 3), torch.zeros(1, 5, 1)).shape == (0, 1, 3)


def test_nothing_can_be_divided_by_zero() -> None:
    nothing = torch.zeros(1, 0, dtype=torch.int32)
    assert (nothing // 0).shape == (nothing % torch.tensor(0)).shape == (1, 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.ones(1, dtype=torch.int32) // 0


def test_small_losses_of_large_logits_are_not_rounded_away() -> None:
    logits = torch.tensor([[80.0, 93.0], [-8.0, 8.1]], requires_grad=True)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([1, 1]), reduction="none")
    exact = torch.nn.functional.cross_entropy(
        logits.detach().double(), torch.tensor([1, 1]), reduction="none"
    )
    assert torch.allclose(loss.double(), exact, rtol=0.2, atol=0)
    loss.sum().backward()
    assert logits.grad is not None
    assert torch.allclose(logits.grad.sum(1), torch.zeros(2), atol=1e-7)
    assert (logits.grad[:, 1] < 0).all()


def test_assertions_are_traced() -> None:
    class Checked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._assert(x.shape[0] == 2, "two rows, please")
            return x * 2

    traced = torch.fx.symbolic_trace(Checked())
    assert traced(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="two rows"):
        traced(torch.ones(3))


def test_row_numbers_of_sparse_matrices_and_back() -> None:
    begins = torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 4)
    assert begins.tolist() == [0, 2, 2, 3, 3]
    columns = torch.tensor([1, 2, 0])
    back = torch._convert_indices_from_csr_to_coo(begins, columns, out_int32=True)
    assert back.tolist() == [[0, 0, 2], [1, 2, 0]] and back.dtype == torch.int32
    pairs = torch._convert_indices_from_csr_to_coo(
        torch.tensor([[0, 2, 3], [0, 1, 3]]), torch.tensor([[1, 2, 0], [0, 1, 1]]), transpose=True
    )
    assert pairs.tolist() == [[0, 0, 0, 1, 1, 1], [1, 2, 0, 0, 1, 1], [0, 0, 1, 0, 1, 1]]


def test_the_environment_is_asked_by_commands() -> None:
    from flambeau.utils import collect_env

    assert collect_env.run("echo a; exit 3") == (3, "a", "")
    assert collect_env.run(["echo", "x"]) == (0, "x", "")
    answers = {"gcc --version": (0, "gcc (Some 1.2) 12.3\nmore", ""), "nvidia-smi -L": (9, "", "")}
    run = answers.__getitem__
    assert collect_env.get_gcc_version(run) == "(Some 1.2) 12.3"  # type: ignore[arg-type]
    assert collect_env.get_gpu_info(run) is None  # type: ignore[arg-type]


def test_no_module_is_split_over_processes() -> None:
    split = torch.distributed.fsdp.FSDPModule
    assert not isinstance(torch.nn.Linear(1, 1), split)
    with pytest.raises(NotImplementedError, match="does not split"):
        split()
