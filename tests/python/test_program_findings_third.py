"""Single rules that a third lot of random programs, compared with PyTorch, has brought to light."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch

# Powers


@pytest.mark.parametrize("exponent", [1e300, 1e39])
def test_the_gradient_of_a_power_beyond_the_dtype_is_computed_in_it(exponent: float) -> None:
    x = torch.tensor([-0.5, 1.0, 2.0], requires_grad=True)
    y = x**exponent
    assert y.tolist() == [0.0, 1.0, math.inf] and type(y.grad_fn).__name__ == "PowBackward0"
    (g,) = torch.autograd.grad(y.sum(), x)
    assert g.dtype == torch.float32 and g.isnan().tolist() == [True, False, False]
    (g,) = torch.autograd.grad((x.double() ** exponent).sum(), x)
    assert g[0] == 0  # double precision holds the exponent
    assert (torch.tensor([-1.0]) ** 16777217).item() == -1  # an odd one


@pytest.mark.parametrize("exponent", [1, 1.0, True])
def test_the_gradient_of_a_first_power_has_a_history(exponent: float) -> None:
    x = torch.tensor([-0.5, 0.0, 2.0], requires_grad=True)
    y = x**exponent
    assert type(y.grad_fn).__name__ == "PowBackward0"
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert g.requires_grad and g.tolist() == [1.0] * 3
    (second,) = torch.autograd.grad(g.sum(), x)
    assert second.tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_roots_and_small_powers_are_computed_by_their_formulas(dtype: torch.dtype) -> None:
    x = torch.tensor([-math.inf, -0.0, 4.0, 0.37], dtype=dtype)
    assert str((x**0.5).tolist()[:3]) == "[nan, -0.0, 2.0]"
    assert str((x**-0.5).tolist()[:3]) == "[nan, -inf, 0.5]"
    assert torch.equal(x**3, x * x * x) and torch.equal(x**-1, x.reciprocal())
    assert torch.equal(x**-2, (x * x).reciprocal())
    assert (x.half() ** 0.5)[0] == math.inf  # halves have no formula of their own
    y = torch.tensor([-4.0 + 0j]) ** 0.5
    assert y.real == 0
    x = torch.tensor([4.0, 0.25], dtype=dtype, requires_grad=True)
    assert torch.autograd.grad((x**0.5).sum(), x)[0].tolist() == [0.25, 1.0]


def test_the_least_exponent_has_a_gradient() -> None:
    x = torch.tensor([2.0, 1.0], requires_grad=True)
    (g,) = torch.autograd.grad((x ** -(2**63)).sum(), x)
    assert g[0] == 0 and g[1] == -(2.0**63)


def test_strides_beyond_all_memory_are_refused() -> None:
    with pytest.raises(RuntimeError):
        torch.as_strided_copy(torch.arange(5), [2], [2**63 - 1])


def test_the_step_of_nan_is_zero() -> None:
    x = torch.tensor([math.nan, -1.0, 0.0, 2.0])
    assert x.heaviside(torch.tensor(5.0)).tolist() == [0.0, 0.0, 5.0, 1.0]


# Which of two errors is told


def test_a_leaf_is_looked_at_before_all_but_the_first_mask() -> None:
    leaf = torch.zeros(2, 3, requires_grad=True)
    fitting, other = torch.zeros(2, dtype=torch.bool), torch.zeros(9, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf[fitting, other] = 1
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf[torch.tensor([0.5])] = 1
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf[other] = torch.tensor(1.0)
    with pytest.raises(IndexError, match="The shape of the mask"):
        leaf[other, fitting] = 1
    for scan in (leaf.cumsum_, leaf.cumprod_):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            scan(9)


def test_cross_entropy_of_nothing_is_counted_before_its_dtype_is_refused() -> None:
    for dtype in (torch.int64, torch.bool, torch.complex64):
        with pytest.raises(ValueError, match="batch_size"):
            torch.nn.functional.cross_entropy(
                torch.zeros(5, 0, dtype=dtype), torch.zeros(0, dtype=torch.int64)
            )
        with pytest.raises(NotImplementedError, match="not implemented for"):
            torch.nn.functional.cross_entropy(
                torch.zeros(5, 3, dtype=dtype), torch.zeros(0, dtype=torch.int64)
            )


# Indices


def test_every_ellipsis_skips_the_dimensions_that_no_index_names() -> None:
    x = torch.arange(24).reshape(2, 3, 4)
    assert x[..., ...].tolist() == x.tolist()
    assert x[..., 0, ...].tolist() == x[..., 0].tolist()
    assert x[1, ..., ...].tolist() == x[1].tolist()
    for key in ((..., ..., 0), (..., ..., None), (..., ..., torch.tensor([0]))):
        with pytest.raises(IndexError):
            x[key]
    x[..., ...] = 7
    assert (x == 7).all()


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_the_extreme_of_no_complex_numbers_changes_nothing(reduce: str) -> None:
    x, none = torch.full((3,), 1 + 2j), torch.zeros(0, dtype=torch.int64)
    source = torch.zeros(0, dtype=torch.complex64)
    for include_self in (True, False):
        out = x.scatter_reduce(0, none, source, reduce, include_self=include_self)
        assert out.tolist() == [1 + 2j] * 3
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        x.scatter_reduce(0, torch.tensor([0]), x, reduce)
    rows = torch.zeros(0, 3, dtype=torch.complex64)
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        rows.index_reduce(1, torch.tensor([0, 1, 2]), rows, reduce)
    kept = x.reshape(1, 3).index_reduce(1, none, source.reshape(1, 0), reduce)
    assert kept.tolist() == [[1 + 2j] * 3]


# Custom functions


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] * 2, None


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_tensor_that_a_function_has_written_loses_its_grad() -> None:
    leaf = torch.ones(3, requires_grad=True)
    for make in (torch.Tensor.clone, lambda x: x.clone()[:], lambda x: torch.ones(3)):
        x = make(leaf)
        x.grad = torch.ones(3)
        _Doubled.apply(x, leaf)
        assert x.grad is None
    plain = torch.ones(3)
    plain.grad = torch.ones(3)
    _Doubled.apply(plain)
    assert plain.grad is not None  # nothing was recorded
    kept = leaf.clone()
    kept.retain_grad()
    _Doubled.apply(kept).sum().backward()
    assert kept.grad is not None and kept.grad.tolist() == [1.0] * 3


# Gradients


def test_gradients_of_real_tensors_are_real_before_they_are_summed() -> None:
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    y = torch.ones(2, 3, dtype=torch.complex128) - x.clone()
    (g,) = torch.autograd.grad(y.abs().sum() + y.real.sum(), x)
    assert g.stride() == (1,) and g.dtype == torch.float64


def test_a_median_that_was_overwritten_has_no_owner() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x.median()
    y.data.mul_(5)
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [0.0] * 3


def test_an_empty_diagonal_of_a_leaf_is_not_filled() -> None:
    leaf = torch.zeros(3, 2, requires_grad=True)
    for empty in (leaf[3:], leaf[:, 2:], leaf[3:][:, 2:]):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            empty.fill_diagonal_(1)
    assert torch.zeros(7, 2).fill_diagonal_(1, wrap=True).sum() == 5
    assert torch.zeros(2, 0).fill_diagonal_(1, wrap=True).shape == (2, 0)


def test_the_median_of_no_bools_is_nan_taken_for_true() -> None:
    for median in (torch.median, torch.nanmedian):
        assert median(torch.zeros(0, dtype=torch.bool)).item() is True
        assert median(torch.zeros(0, dtype=torch.uint8)).item() == 0


# Results into out=, and of one sample


def test_the_size_of_complex_numbers_goes_into_any_real_precision_or_into_complex_numbers() -> None:
    x = torch.tensor([3 + 4j, 0j])
    for dtype in (torch.float64, torch.float32, torch.float16, torch.complex64):
        out = torch.empty(2, dtype=dtype)
        assert torch.abs(x, out=out) is out and out.tolist() == [5, 0]
    assert torch.abs(x, out=x[...]).tolist() == [5 + 0j, 0j] == x.tolist()
    for source, dtype in (
        (x, torch.complex128), (x, torch.int64), (x.real, torch.float64), (x.real, torch.complex64),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            torch.absolute(source, out=torch.empty(2, dtype=dtype))


def test_the_result_of_a_single_sample_keeps_its_layout() -> None:
    x = torch.arange(12.0).reshape(3, 4, 1).transpose(0, 2)
    y = torch.func.vmap(lambda t: t * 2)(x)
    assert y.shape == (1, 4, 3) and y.stride()[1:] == (1, 4) and y.tolist() == (x * 2).tolist()


def test_the_gradient_of_nothing_that_was_gathered_has_a_history() -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    for index in (torch.zeros(0), torch.zeros(0, 9, dtype=torch.int64), torch.zeros(2, 0).long()):
        y = x.gather(0, index)
        (g,) = torch.autograd.grad(y.sum() * y.sum(), x, create_graph=True)
        assert g.requires_grad and g.tolist() == x.tolist()


def test_outputs_that_are_none_are_seen_before_inputs_that_are_missing() -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        torch.autograd.grad(0, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_powers_of_a_number_beyond_the_dtype_have_gradients(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -2.0], dtype=dtype, requires_grad=True)
    (1e300**x).sum().backward()
    assert x.grad is not None
    assert abs(x.grad[0].item() - 300 * math.log(10)) < 0.5 and x.grad[1].item() == 0


def test_powers_of_zero_and_of_negative_numbers_in_the_complex_plane() -> None:
    x = torch.zeros(2, dtype=torch.float64)
    y = torch.tensor([1 + 0j, -1 + 1j], dtype=torch.complex128, requires_grad=True)
    (x**y).abs().sum().backward()
    assert y.grad is not None and y.grad[0] == 0 and not y.grad[1].isfinite()
    z = torch.tensor([1.5 + 0j], requires_grad=True)
    (g,) = torch.autograd.grad(((-2) ** z).abs().sum(), z)
    assert g.isfinite().all()


# Losses and distances of what is seldom measured


def test_squared_errors_of_bools_have_gradients() -> None:
    x = torch.tensor([1.0, 0.5], requires_grad=True)
    flags = torch.tensor([True, False])
    for loss in (torch.nn.functional.mse_loss(x, flags), torch.nn.functional.mse_loss(flags, x)):
        (g,) = torch.autograd.grad(loss, x)
        assert g.tolist() == [0.0, 0.5]


def test_points_without_coordinates_are_no_distance_apart_in_half_precision() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.zeros(3, 0, dtype=dtype)
        assert torch.cdist(x, x).tolist() == [[0.0] * 3] * 3


def test_a_half_takes_a_number_beyond_it_at_indices() -> None:
    x = torch.zeros(1, 2, dtype=torch.float16)
    x[torch.tensor([True]), torch.tensor([1])] = 2**40
    assert x.tolist() == [[0.0, math.inf]]
    with pytest.raises(RuntimeError, match="without overflow"):
        x[torch.tensor([[True, False]])] = 2**40


def test_a_product_of_nothing_that_was_scattered_has_a_gradient() -> None:
    x, y = torch.zeros(2, 0, requires_grad=True), torch.zeros(0, requires_grad=True)
    out = x.clone().scatter_reduce_(0, torch.zeros(2, 0).long(), y, "prod")
    out.sum().backward()
    assert x.grad is not None and x.grad.shape == (2, 0)
    assert y.grad is not None and y.grad.shape == (0,)


def test_an_integral_over_equal_steps_counts_half_of_its_ends() -> None:
    assert torch.trapezoid(torch.tensor([1.0, 2.0, 4.0]), dx=0.5).item() == 2.25
    assert torch.trapezoid(torch.tensor([math.nan])).isnan()
    wide = torch.tensor([200, 100, 20], dtype=torch.uint8)
    assert torch.trapezoid(wide).item() == 210


@pytest.mark.filterwarnings("ignore:Use of masked_fill_")
def test_expanded_integers_refuse_numbers_that_are_none() -> None:
    x = torch.zeros(1, 3, dtype=torch.int64).expand(2, 3)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill_(torch.ones(2, 3, dtype=torch.bool), math.nan)
    assert x.sum() == 0
