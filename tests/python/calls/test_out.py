"""What becomes of a tensor given by out=: its dtype, its shape, its place."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

X = torch.tensor([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])
SQUARE = torch.tensor([[2.0, 1.0], [1.0, 3.0]])

# Results of these go into any dtype that can hold them.
CASTING: dict[str, Callable[..., Any]] = {
    "sin": lambda out: torch.sin(X, out=out),
    "add": lambda out: torch.add(X, X, out=out),
    "arcsin": lambda out: torch.arcsin(X / 4, out=out),
    "cat": lambda out: torch.cat([X, X], out=out),
    "stack": lambda out: torch.stack([X, X], out=out),
    "mean": lambda out: torch.mean(X, 0, out=out),
    "outer": lambda out: torch.outer(X[0], X[0], out=out),
    "cumsum": lambda out: torch.cumsum(X, 0, out=out),
}
# These want their own.
EXACT: dict[str, Callable[..., Any]] = {
    "abs": lambda out: torch.abs(X, out=out),
    "clamp": lambda out: torch.clamp(X, 0, 1, out=out),
    "where": lambda out: torch.where(X > 0, X, X, out=out),
    "gather": lambda out: torch.gather(X, 1, torch.zeros(2, 1, dtype=torch.int64), out=out),
    "index_select": lambda out: torch.index_select(X, 0, torch.tensor([0]), out=out),
    "matmul": lambda out: torch.matmul(X, X.t(), out=out),
    "softmax": lambda out: torch.softmax(X, 1, out=out),
    "tril": lambda out: torch.tril(X, out=out),
    "linalg.inv": lambda out: torch.linalg.inv(SQUARE, out=out),
    "nonzero": lambda out: torch.nonzero(X, out=out),
}


@pytest.mark.parametrize("name", CASTING)
def test_results_are_cast(name: str) -> None:
    wanted = CASTING[name](None)
    out = torch.empty(0, dtype=torch.float64)
    CASTING[name](out)
    assert out.dtype == torch.float64
    assert torch.allclose(out, wanted.double())


@pytest.mark.parametrize(
    "name", [name for name in CASTING if name not in ("cat", "stack", "cumsum")]
)
def test_results_are_not_cast_to_lesser_kinds(name: str) -> None:
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        CASTING[name](torch.empty(0, dtype=torch.int64))


@pytest.mark.parametrize("name", EXACT)
def test_some_results_go_into_their_own_dtype_only(name: str) -> None:
    wanted = EXACT[name](None)
    out = torch.empty(0, dtype=wanted.dtype)
    EXACT[name](out)
    assert torch.equal(out, wanted)
    with pytest.raises(RuntimeError):
        EXACT[name](torch.empty(0, dtype=torch.float64))


def test_running_totals_are_made_in_the_dtype_of_out() -> None:
    out = torch.empty(0, dtype=torch.int64)
    assert torch.cumsum(X, 1, out=out).tolist() == [[1, -1, 2], [0, 4, 3]]


@pytest.mark.parametrize("name", [*CASTING, *EXACT])
def test_resizing_a_tensor_with_elements_is_told(name: str) -> None:
    call = {**CASTING, **EXACT}[name]
    wanted = call(None)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        call(torch.zeros(7, 5, dtype=wanted.dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(torch.empty(0, dtype=wanted.dtype))
        call(torch.zeros_like(wanted))


def test_new_tensors_are_resized_silently_but_by_counting() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.zeros(2, 3, out=torch.zeros(5))
        torch.randn(2, 3, out=torch.zeros(5))
    words = r"shape \[2\] is 2 which does not match the computed number of elements 4.*be resized"
    with pytest.warns(UserWarning, match=words):
        torch.arange(4, out=torch.zeros(2, dtype=torch.int64))
    with pytest.warns(UserWarning, match=words):
        torch.fft.fftfreq(4, out=torch.zeros(2))
    assert torch.fft.fftfreq(4, out=torch.zeros(2, 2)).tolist() == [[0, 0.25], [-0.5, -0.25]]
    assert torch.fft.rfftfreq(6, out=torch.zeros(2, 2)).shape == (2, 2)


@pytest.mark.parametrize("name", ["sin", "mul", "add", "cumsum", "softmax", "linalg.inv"])
def test_out_stands_on_the_device_of_the_inputs(name: str) -> None:
    calls = {**CASTING, **EXACT, "mul": lambda out: torch.mul(X, X, out=out)}
    with pytest.raises(RuntimeError, match="Expected out tensor to have device cpu"):
        calls[name](torch.empty(2, 3, device="meta"))


@pytest.mark.parametrize("name", ["sin", "abs", "special.bessel_j1", "signbit"])
def test_out_stands_on_the_device_of_inputs_without_dimensions(name: str) -> None:
    function = operator.attrgetter(name)(torch)
    dtype = torch.bool if name == "signbit" else torch.float32
    with pytest.raises(RuntimeError, match="device"):
        function(torch.tensor(3.0), out=torch.empty(1, dtype=dtype, device="meta"))


@pytest.mark.parametrize("name", [*CASTING, *EXACT])
def test_out_has_no_gradient(name: str) -> None:
    call = {**CASTING, **EXACT}[name]
    wanted = call(None)
    if not wanted.is_floating_point():
        return
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        call(torch.zeros_like(wanted).requires_grad_())


def test_copies_of_parts_go_into_a_list_of_outputs() -> None:
    parts = [torch.empty(2), torch.empty(0), torch.empty(2)]
    assert torch.split_copy(torch.arange(6.0), 2, out=parts) is None
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
    assert torch.unbind_copy(torch.eye(2), out=tuple(parts[:2])) is None
    assert [part.tolist() for part in parts[:2]] == [[1, 0], [0, 1]]
    with pytest.raises(RuntimeError, match="expected 3 tensors in argument 'out', got 1"):
        torch.split_copy(torch.arange(6.0), 2, out=parts[:1])
    with pytest.raises(TypeError, match="out"):
        torch.split(torch.arange(6.0), 2, out=parts)


def test_numbers_stand_first_beside_an_output() -> None:
    out = torch.empty(0)
    torch.xlogy(2.0, torch.tensor([1.0, math.e]), out=out)
    torch.testing.assert_close(out, torch.tensor([0.0, 2.0]))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.xlogy(2.0, torch.ones(2), out=torch.empty(2, dtype=torch.int64))


def test_norms_in_a_complex_dtype_are_real() -> None:
    out = torch.empty(0, dtype=torch.float64)
    torch.linalg.norm(torch.ones(4, dtype=torch.complex64), dtype=torch.complex128, out=out)
    assert float(out) == 2


def test_positions_go_into_int64_only() -> None:
    values, narrow = torch.empty(0), torch.empty(0, dtype=torch.int32)
    for function in (torch.max, torch.min, torch.sort, torch.topk):
        with pytest.raises(RuntimeError, match="dtype int64, but got int32"):
            function(X, 1, out=(values, narrow))


def test_activations_write_into_an_output() -> None:
    for name in ("logsigmoid", "softshrink"):
        function, out = getattr(torch.nn.functional, name), torch.empty(0)
        assert function(X, out=out) is out
        assert torch.equal(out, function(X))


def test_new_tensors_are_made_where_out_lies() -> None:
    for make in (torch.arange, torch.zeros, torch.ones, torch.rand, torch.eye):
        out = torch.empty(0, device="meta")
        assert make(5, out=out) is out
        assert out.device.type == "meta" and out.size(0) == 5


@pytest.mark.parametrize(
    "call",
    [
        lambda x, a, b: torch.aminmax(x, dim=0, out=(a, b)),
        lambda x, a, b: torch.max(x, 0, out=(a, b)),
        lambda x, a, b: torch.median(x, 0, out=(a, b)),
    ],
)
def test_two_results_do_not_go_into_one_place(call):
    x, memory = torch.tensor([[3, 1], [2, 5]]), torch.zeros(2, 2, dtype=torch.int64)
    one = memory[0]
    for other in (one, memory[0], memory.flatten()[1:3]):
        with pytest.raises(ValueError, match="must not overlap"):
            call(x, one, other)
    assert (memory == 0).all()
    first, second = call(x, memory[:, 0].clone(), memory[:, 1].clone())
    call(x, memory[:, 0], memory[:, 1])  # side by side
    assert memory.tolist() == torch.stack([first, second], 1).tolist()


@pytest.mark.parametrize("name", ["isnan", "relu", "masked_fill", "prod", "nn.functional.celu"])
def test_functions_without_a_form_with_out_refuse_it(name: str) -> None:
    rest = (X > 0, 2.0) if name == "masked_fill" else ()
    function = operator.attrgetter(name)(torch)
    with pytest.raises(TypeError):
        function(X, *rest, out=torch.empty(2, 3))


def test_an_overload_with_out_is_found_behind_one_without() -> None:
    assert torch.prod(X, 1, out=torch.empty(2)).shape == (2,)


# What becomes of the history of inputs, by class of op.
RECORDED: dict[str, Callable[..., Any]] = {
    "quantile": lambda x, out: torch.quantile(x, 0.5, 1, out=out),
    "linalg.norm": lambda x, out: torch.linalg.norm(x, dim=1, out=out),
    "tensordot": lambda x, out: torch.tensordot(x, X[0], dims=([1], [0]), out=out),
}
FAILING: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, out: torch.softmax(x, 1, out=out),
    "conj_physical": lambda x, out: torch.conj_physical(x, out=out),
    "floor_divide": lambda x, out: torch.floor_divide(x, 2.0, out=out),
    "t_copy": lambda x, out: torch.t_copy(x, out=out),
}


@pytest.mark.parametrize("name", RECORDED)
def test_some_record_their_steps_into_out(name: str) -> None:
    x, out = X.clone().requires_grad_(), torch.zeros(2)
    RECORDED[name](x, out)
    assert out.grad_fn.name() == "torch::autograd::CopyBackwards"
    plain = X.clone().requires_grad_()
    want = torch.autograd.grad(RECORDED[name](plain, None).sum(), plain)[0]
    torch.testing.assert_close(torch.autograd.grad(out.sum(), x)[0], want)


@pytest.mark.parametrize("name", FAILING)
def test_some_give_out_a_history_without_a_derivative(name: str) -> None:
    x, out = (
        X.clone().requires_grad_(),
        torch.zeros(3, 2) if name == "t_copy" else torch.zeros(2, 3),
    )
    FAILING[name](x, out)
    assert torch.equal(out, FAILING[name](X, None))
    assert out.requires_grad
    assert out.grad_fn.name() == "torch::autograd::NotImplemented"
    with pytest.raises(RuntimeError, match="not implemented"):
        out.sum().backward()


def test_ops_without_a_derivative_drop_the_history() -> None:
    x, out = X.clone().requires_grad_(), torch.zeros(4)
    assert not torch.histc(x, 4, out=out).requires_grad
    assert not torch.special.airy_ai(x, out=torch.zeros(2, 3)).requires_grad
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.exp(x, out=torch.zeros(2, 3))


def test_a_reduction_into_an_expanded_out_reduces_further() -> None:
    def one(*sizes: int, dtype: Any = torch.float32) -> Any:
        return torch.zeros((1,) * len(sizes), dtype=dtype).expand(sizes)

    assert torch.sum(X, 1, out=one(2)).tolist() == [6.0, 6.0]
    assert torch.sum(X, 0, out=one(3)).tolist() == [6.0] * 3
    assert torch.prod(X, 1, out=one(2)).tolist() == [18.0, 18.0]
    assert torch.amax(X, 1, out=one(2)).tolist() == [4.0, 4.0]
    assert torch.amin(X, 1, keepdim=True, out=one(2, 1)).tolist() == [[-2.0], [-2.0]]
    assert torch.all(X > -2, 1, out=one(2, dtype=torch.bool)).tolist() == [False, False]
    assert torch.norm(X, 1, 1, out=one(2)).tolist() == [12.0, 12.0]
    assert torch.full((3,), 2.0, out=one(3)).tolist() == [2.0] * 3
    values, _ = torch.cummax(X, 1, out=(one(2, 3), one(2, 3, dtype=torch.int64)))
    assert values.tolist() == [[4.0] * 3] * 2
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.mean(X, 1, out=one(2))


def test_bounds_that_are_tensors_let_out_be_wider() -> None:
    out = torch.zeros(2, 3, dtype=torch.float64)
    assert torch.equal(torch.clamp(X, X - 1, X - 0.5, out=out), (X - 0.5).double())
    with pytest.raises(RuntimeError, match="dtype"):
        torch.clamp(X, 0, 1, out=out)
