"""The _foreach_ functions: every op, in place and not, with numbers, lists and tensors."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch

UNARY = sorted(
    {name.removesuffix("_") for name in torch._C._ops_with("foreach")} - {"clone", "max", "zero"}
)


def two() -> list[Any]:
    return [torch.tensor([0.25, 0.5]), torch.tensor([[0.75]])]


@pytest.mark.parametrize("name", [name for name in UNARY if hasattr(torch.Tensor, name)])
def test_a_function_of_one_tensor_is_applied_to_all(name: str) -> None:
    wanted = [getattr(x, name)() for x in two()]
    found = getattr(torch, f"_foreach_{name}")(two())
    assert isinstance(found, tuple)
    tensors = two()
    inplace = getattr(torch, f"_foreach_{name}_")(tensors)
    for got, written, original, want in zip(found, inplace, tensors, wanted, strict=True):
        assert written is original
        assert torch.equal(got, want) and torch.equal(written, want)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max"])
@pytest.mark.parametrize("kind", ["number", "numbers", "tensors"])
def test_a_function_of_two_takes_numbers_and_lists(name: str, kind: str) -> None:
    other: Any = {"number": 2.0, "numbers": [2.0, 0.5], "tensors": [torch.ones(2), torch.ones(1)]}
    other = other[kind]
    each = other if isinstance(other, list) else [other, other]
    wanted = [getattr(x, name)(y) for x, y in zip(two(), each, strict=True)]
    found = getattr(torch, f"_foreach_{name}")(two(), other)
    tensors = two()
    getattr(torch, f"_foreach_{name}_")(tensors, other)
    for got, written, want in zip(found, tensors, wanted, strict=True):
        assert torch.equal(got, want) and torch.equal(written, want)


def test_scaled_sums_and_zero_dimensional_tensors() -> None:
    assert torch._foreach_add(two(), two(), alpha=2)[1].item() == 2.25
    assert torch._foreach_mul(two(), torch.tensor(2.0))[1].item() == 1.5
    assert torch._foreach_maximum(two(), 0.6)[1].item() == 0.75
    assert torch._foreach_minimum(two(), [0.6, 0.1])[1].item() == pytest.approx(0.1)
    with pytest.raises(RuntimeError, match="0 dim"):
        torch._foreach_add(two(), torch.ones(1))


def test_the_larger_in_place() -> None:
    tensors = two()
    torch._foreach_maximum_(tensors, 0.5)
    torch._foreach_minimum_(tensors, [torch.tensor(0.5), torch.tensor(0.6)])
    assert [x.flatten().tolist() for x in tensors] == [[0.5, 0.5], [pytest.approx(0.6)]]


def test_fused_forms() -> None:
    ones = [torch.ones(2), torch.ones(1, 1)]
    assert torch._foreach_addcmul(two(), ones, ones, 2)[1].item() == 2.75
    assert torch._foreach_addcmul(two(), ones, ones, torch.tensor([2.0, 3.0]))[1].item() == 3.75
    assert torch._foreach_addcdiv(two(), ones, ones, [2.0, 4.0])[1].item() == 4.75
    assert torch._foreach_lerp(two(), ones, 0.5)[1].item() == 0.875
    tensors = two()
    torch._foreach_lerp_(tensors, ones, ones)
    assert tensors[0].tolist() == [1.0, 1.0]


def test_norms_powers_copies_and_products() -> None:
    assert torch._foreach_norm([torch.ones(4)])[0].item() == 2.0
    assert torch._foreach_norm([torch.ones(4)], 1, torch.float64)[0].dtype == torch.float64
    assert torch._foreach_powsum([torch.full((2,), 3.0)])[0].item() == 18.0
    assert torch._foreach_max(two())[0].item() == 0.5
    assert torch._foreach_pow(2, [torch.tensor([3])])[0].tolist() == [8]
    target = [torch.zeros(2)]
    torch._foreach_copy_(target, [torch.ones(2)])
    assert target[0].tolist() == [1.0, 1.0]
    torch._foreach_zero_(target)
    assert target[0].tolist() == [0.0, 0.0]
    assert torch._foreach_mm([torch.ones(2, 3)], [torch.ones(3, 1)])[0].tolist() == [[3.0], [3.0]]
    assert torch._foreach_clone(target)[0] is not target[0]


def test_gradients_flow_through_lists() -> None:
    x = torch.ones(2, requires_grad=True)
    torch._foreach_mul([x], [3.0])[0].sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_lists_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_add(two(), [1])
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(two(), [torch.ones(2)])
    with pytest.raises(TypeError, match="tuple of Tensors"):
        torch._foreach_add(torch.ones(2), 1)


def test_in_place_functions_give_back_their_list() -> None:
    tensors = [torch.ones(2), torch.ones(3)]
    assert torch._foreach_add_(tensors, 1) is tensors
    assert torch._foreach_copy_(tensors, tensors) is tensors
    assert isinstance(torch._foreach_add(tensors, 1), tuple)


def test_second_operands_have_names() -> None:
    assert torch._foreach_add(two(), scalar=2)[1].item() == 2.75
    assert torch._foreach_mul(two(), scalars=[2, 4])[1].item() == 3
    assert torch._foreach_sub(two(), other=two(), alpha=2)[1].item() == -0.75
    assert torch._foreach_pow_(two(), exponent=2)[1].item() == 0.5625
    for call in (
        lambda: torch._foreach_mul(two(), two(), alpha=2),
        lambda: torch._foreach_add(two(), 1, scalar=2),
        lambda: torch._foreach_div(two()),
    ):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            call()


@pytest.mark.parametrize(
    ("scalars", "match"),
    [
        (torch.tensor(2.0), "dimension 1. Got 0 instead"),
        (torch.ones(2, 1), "dimension 1. Got 2 instead"),
        (torch.ones(3), "match input of length 2 but got 3 instead"),
        (torch.ones(4)[::2], "to be contiguous"),
    ],
)
def test_packed_scalars_are_a_vector_with_one_for_each(scalars: Any, match: str) -> None:
    for function in (torch._foreach_addcmul, torch._foreach_addcdiv_):
        with pytest.raises(RuntimeError, match=match):
            function(two(), two(), two(), scalars)
