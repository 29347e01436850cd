"""Dimensions with names: how they are given, looked up, aligned, and carried through ops."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import flambeau as torch
from flambeau import Tensor


def named(*sizes: int, names: str) -> Tensor:
    made = torch.arange(float(torch.Size(sizes).numel())).view(sizes)
    return made.rename(*(None if name == "_" else name for name in names))


@pytest.fixture
def x() -> Tensor:
    return named(2, 3, 4, names="NCH")


def test_names_are_given_changed_and_taken_away(x: Tensor) -> None:
    assert x.names == ("N", "C", "H") and x.has_names()
    assert torch.ones(2).names == (None,) and not torch.ones(2).has_names()
    for factory in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn):
        assert factory(2, 3, names=("N", None)).names == ("N", None)
    assert torch.full((2, 3), 1.0, names=["N", "C"]).names == ("N", "C")
    assert type(torch.zeros(2, names=None)) is torch.Tensor
    assert torch.tensor([[1.0]], names=("N", "C")).names == ("N", "C")
    assert x.rename(None).names == (None,) * 3 and type(x.rename(None)) is torch.Tensor
    assert x.rename("...", "W").names == ("N", "C", "W")
    assert x.rename(N="batch").names == ("batch", "C", "H")
    assert x.rename("A", "B", "C").data_ptr() == x.data_ptr() and x.names[0] == "N"
    y = torch.zeros(2, 3)
    assert y.rename_("A", "B") is y and y.names == ("A", "B")
    y.names = None
    assert type(y) is torch.Tensor
    y.names = ("N", "W")
    assert y.refine_names("N", ...).names == ("N", "W")
    assert torch.ones(2, 3).refine_names(..., "C").names == (None, "C")
    assert repr(y) == "tensor([[0., 0., 0.],\n        [0., 0., 0.]], names=('N', 'W'))"


def test_dimensions_are_put_in_order(x: Tensor) -> None:
    aligned = x.align_to("H", "W", "N", "C")
    assert aligned.names == ("H", "W", "N", "C") and aligned.shape == (4, 1, 2, 3)
    assert x.align_to("C", ...).names == ("C", "N", "H")
    assert x.align_to("...", "N").shape == (3, 4, 2)
    assert named(2, 3, names="_C").align_to("C", "...").names == ("C", None)
    y = named(4, 3, names="HC")
    assert y.align_as(x).shape == (1, 3, 4)
    assert [t.shape for t in torch.align_tensors(x, y)] == [(2, 3, 4), (1, 3, 4)]
    assert x.transpose("N", "H").names == ("H", "C", "N") and x.permute(2, 0, 1).names == (
        "H",
        "N",
        "C",
    )
    assert x.flatten(["C", "H"], "F").names == ("N", "F")
    back = x.flatten("C", "H", "F").unflatten("F", (("C", 3), ("H", -1)))
    assert torch.equal(back, x) and not torch.equal(back, x.rename("A", "B", "D"))
    assert named(2, 3, names="NC").t().names == ("C", "N") == named(2, 3, names="NC").T.names


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda x: x + 1, ("N", "C", "H")),
        (lambda x: 1 - x, ("N", "C", "H")),
        (lambda x: x * torch.ones(4), ("N", "C", "H")),
        (lambda x: torch.ones(5, 2, 3, 4) * x, (None, "N", "C", "H")),
        (lambda x: x + named(3, 4, names="C_"), ("N", "C", "H")),
        (lambda x: -x.exp().relu(), ("N", "C", "H")),
        (lambda x: x > 0, ("N", "C", "H")),
        (lambda x: x.softmax("C"), ("N", "C", "H")),
        (lambda x: x.cumsum("H").double(), ("N", "C", "H")),
        (lambda x: torch.where(x > 0, x, x), ("N", "C", "H")),
        (lambda x: x.sum("C"), ("N", "H")),
        (lambda x: x.mean(["N", "H"]), ("C",)),
        (lambda x: x.sum((0, -1), keepdim=True), ("N", "C", "H")),
        (lambda x: x.std(), ()),
        (lambda x: x.max("N").indices, ("C", "H")),
        (lambda x: x.argmax("H"), ("N", "C")),
        (lambda x: x.select("C", 1), ("N", "H")),
        (lambda x: x.unbind("N")[0], ("C", "H")),
        (lambda x: x.split(1, "N")[0], ("N", "C", "H")),
        (lambda x: x[0], ("C", "H")),
        (lambda x: x[..., None, 1:2], ("N", "C", None, "H")),
        (lambda x: x[:, 0:1].squeeze(), ("N", "H")),
        (lambda x: x.unsqueeze(1), ("N", None, "C", "H")),
        (lambda x: x.expand(5, 2, 3, 4), (None, "N", "C", "H")),
        (lambda x: x.diagonal(), ("H", None)),
        (lambda x: x.diagonal(outdim="D", dim1="C", dim2="H"), ("N", "D")),
        (lambda x: x[:1].expand(5, 3, 4), ("N", "C", "H")),
        (lambda x: x.index_fill_("C", torch.tensor([0]), 1.0), ("N", "C", "H")),
        (lambda x: x @ named(4, 5, names="HO"), ("N", "C", "O")),
        (lambda x: x @ torch.ones(4, 5), ("N", "C", None)),
        (lambda x: x[0] @ named(4, names="W"), ("C",)),
        (lambda x: torch.cat([x, x], "C"), ("N", "C", "H")),
        (lambda x: x.detach().clone(), ("N", "C", "H")),
        (lambda x: torch.zeros_like(x), ("N", "C", "H")),
        (lambda x: torch.nn.functional.dropout(x, 0.5), ("N", "C", "H")),
        (lambda x: torch.abs(x, out=torch.empty(2, 3, 4)), ("N", "C", "H")),
        (lambda x: torch.zeros(2, 3, 4).add_(x), ("N", "C", "H")),
        (lambda x: x.mul_(2), ("N", "C", "H")),
        (lambda x: x.masked_select(x > 0), (None,)),
    ],
)
def test_results_are_named_by_the_rule_of_the_op(call: Any, names: Any, x: Tensor) -> None:
    result, plain = call(x), x.rename(None)
    assert result.names == names and len(names) == result.dim()
    assert plain.names == (None,) * 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: x + x.rename("N", "C", "W"), "do not match"),
        (lambda x: named(2, 3, names="C_") + named(2, 3, names="_C"), "Misaligned"),
        (lambda x: x.sum("Q"), "Name 'Q' not found in Tensor"),
        (lambda x: x.size("Q"), "Name 'Q' not found"),
        (lambda x: x.rename("A", "A", "B"), "duplicate names"),
        (lambda x: x.rename("A"), "Number of names"),
        (lambda x: x.rename("1", "B", "C"), "valid identifier"),
        (lambda x: x.rename(Q="A"), "dim 'Q' does not exist"),
        (lambda x: x.rename("A", "B", "C", N="D"), "either positional args or keyword args"),
        (lambda x: x.rename("...", "A", "..."), "More than one"),
        (lambda x: x.refine_names("A", "C", "H"), "'N' is different from 'A'"),
        (lambda x: x.refine_names(None, "C", "H"), "'N' is more specific than None"),
        (lambda x: x.align_to("N", "C"), "Cannot find dim 'H'"),
        (lambda x: x.flatten(["N", "H"], "F"), "must be consecutive"),
        (lambda x: x.unflatten("H", (("A", 3), ("B", 2))), "don't multiply up to"),
        (lambda x: x[0] @ named(4, 3, names="WC"), "duplicate names"),
        (lambda x: x.view(6, 4), "not yet supported with named tensors"),
        (lambda x: x.gather(0, torch.zeros(1, 3, 4, dtype=torch.int64)), "not yet supported"),
        (lambda x: torch.abs(torch.ones(2, 3, 4), out=x), "Name mismatch"),
        (lambda x: x.rename(None, "C", "H").add_(x), "computed output names"),
        (pickle.dumps, "NYI"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, words: str, x: Tensor) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(x)


def test_numbers_sizes_and_gradients_know_no_names(x: Tensor) -> None:
    assert x.size("C") == 3 and x.stride("N") == 12 and x.shape == (2, 3, 4)
    assert x.sum().item() == 276.0 and x.numpy().shape == (2, 3, 4) and len(x.tolist()) == 2
    leaf = torch.ones(2, 3, names=("N", "C"), requires_grad=True)
    (leaf * 2).sigmoid().sum("C").sum().backward()
    assert leaf.grad is not None and leaf.grad.names == (None, None)
    layer = torch.nn.Linear(4, 5)
    assert layer(x).names == ("N", "C", None)
