"""The text of tensors. tests/compat/test_printing.py compares far more of it with PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import flambeau as torch
from flambeau import _tensor_str

CASES = (
    (lambda: torch.tensor(1), "tensor(1)"),
    (lambda: torch.tensor(-0.0), "tensor(-0.)"),
    (lambda: torch.tensor([1.0, math.nan]), "tensor([1., nan])"),
    (lambda: torch.tensor([math.inf, 1.5]), "tensor([   inf, 1.5000])"),
    (lambda: torch.tensor([1e9, 1.0]), "tensor([1.0000e+09, 1.0000e+00])"),
    (lambda: torch.tensor([0.1, 100.1]), "tensor([1.0000e-01, 1.0010e+02])"),
    (lambda: torch.tensor([0.1, 100.0]), "tensor([  0.1000, 100.0000])"),
    (lambda: torch.tensor([True, False]), "tensor([ True, False])"),
    (lambda: torch.tensor([-100, 2]), "tensor([-100,    2])"),
    (lambda: torch.tensor([1 + 2j, -3.5 - 1j]), "tensor([ 1.0000+2.j, -3.5000-1.j])"),
    (lambda: torch.empty(0), "tensor([])"),
    (lambda: torch.empty(0, 3), "tensor([], size=(0, 3))"),
    (lambda: torch.empty(0, dtype=torch.int64), "tensor([], dtype=torch.int64)"),
    (lambda: torch.zeros(2, dtype=torch.float16), "tensor([0., 0.], dtype=torch.float16)"),
    (lambda: torch.zeros(2, 2), "tensor([[0., 0.],\n        [0., 0.]])"),
    (lambda: torch.ones(1001), "tensor([1., 1., 1.,  ..., 1., 1., 1.])"),
    (lambda: torch.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (
        lambda: torch.empty(3, device="meta", dtype=torch.int32),
        "tensor(..., device='meta', size=(3,), dtype=torch.int32)",
    ),
)


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    torch.set_printoptions(profile="default")
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize("make, text", CASES, ids=[text for _, text in CASES])
def test_repr(make, text) -> None:
    assert repr(make()) == text
    assert str(make()) == text


def test_grad_fn_is_named() -> None:
    assert repr(torch.ones(2, requires_grad=True) * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"


def test_suffixes_go_to_a_new_line_when_the_line_is_full() -> None:
    assert repr(torch.zeros(20, dtype=torch.float64)).endswith(",\n       dtype=torch.float64)")


def test_options_apply_and_are_restored() -> None:
    with _tensor_str.printoptions(precision=2, sci_mode=True):
        assert repr(torch.tensor([1.5])) == "tensor([1.50e+00])"
    assert repr(torch.tensor([1.5])) == "tensor([1.5000])"


def test_an_omitted_sci_mode_means_automatic() -> None:
    torch.set_printoptions(sci_mode=False)
    torch.set_printoptions(precision=3)
    assert _tensor_str.get_printoptions()["sci_mode"] is None


def test_profiles() -> None:
    torch.set_printoptions(profile="short")
    assert repr(torch.tensor([1.5])) == "tensor([1.50])"
    torch.set_printoptions(profile="full")
    assert "..." not in repr(torch.ones(2000))


def test_threshold_and_edgeitems() -> None:
    torch.set_printoptions(threshold=5, edgeitems=1)
    assert repr(torch.arange(10)) == "tensor([0,  ..., 9])"
    assert (
        repr(torch.zeros(3, 3)) == "tensor([[0.,  ..., 0.],\n        ...,\n        [0.,  ..., 0.]])"
    )


def test_subclasses_print_their_name() -> None:
    class Metres(torch.Tensor):
        pass

    assert repr(torch.ones(2).as_subclass(Metres)) == "Metres([1., 1.])"


def test_parameters_say_so() -> None:
    text = repr(torch.nn.Parameter(torch.ones(2)))
    assert text == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


def test_format_applies_to_a_single_number_only() -> None:
    assert f"{torch.tensor(1.23456):.2f}" == "1.23"
    assert f"{torch.ones(1)}" == "tensor([1.])"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{torch.ones(2):.2f}"


def test_a_history_is_named_by_its_class() -> None:
    x = torch.ones(2, requires_grad=True).clone()
    x.view(2).mul_(1)
    assert str(x) == "tensor([1., 1.], grad_fn=<CopySlices>)"
    assert x.grad_fn.name() == "torch::autograd::CopySlices"
