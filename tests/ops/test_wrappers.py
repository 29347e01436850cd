"""Tensors without values of their own, whose class computes with those inside, asked of every op:
the result is that of the op, and so is the gradient, which goes through the answers of the class.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from harness import Complaints, Sample, build, dtype_name, flat_results, map_tensors, resolve
from samples import AHEAD, ENTRIES, Call, Op

import flambeau as torch
from flambeau.utils._pytree import tree_map


class Wrapper(torch.Tensor):
    """Has no values but those of the tensor inside."""

    inside: Any

    @staticmethod
    def __new__(cls: Any, inside: Any) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=inside.device,
        )
        made.inside = inside
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        opened = tree_map(opened_one, (args, kwargs or {}))
        result = func(*opened[0], **opened[1])
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)


def opened_one(x: Any) -> Any:
    return x.inside if isinstance(x, Wrapper) else x


def ops_with(*, grad: bool) -> Any:
    chosen = [
        entry
        for entry in ENTRIES.values()
        if entry.name not in AHEAD
        and not {"mutating", "creation", "undefined", "random"} & entry.forms
        and (entry.grad or not grad)
    ]
    return pytest.mark.parametrize("entry", chosen, ids=str)


def called(entry: Op, sample: Sample) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return flat_results(resolve(torch, entry)(*sample.args, **sample.kwargs))


def of_wrappers(sample: Sample) -> Sample:
    """The same call; tensors that want a gradient do so as wrappers."""
    made: list[Any] = []

    def wrap(x: Any) -> Any:
        made.append(Wrapper(x.detach()).requires_grad_(x.requires_grad))
        return made[-1]

    sample = Sample(map_tensors(sample.args, wrap), map_tensors(sample.kwargs, wrap))
    sample.tensors = made
    return sample


def same(got: Any, wanted: Any) -> bool:
    got = opened_one(got)
    if not isinstance(wanted, torch.Tensor):
        return bool(got == wanted) or got != got
    return got.dtype == wanted.dtype and torch.allclose(got, wanted, 1e-6, 1e-7, equal_nan=True)


@ops_with(grad=False)
def test_class_that_opens_its_tensors_answers_as_the_op(entry: Op) -> None:
    complaints = Complaints(entry)

    def body(one: Call) -> Iterator[str | None]:
        sample = build(torch, entry, one, "float64")
        for got, wanted in zip(
            called(entry, of_wrappers(sample)), called(entry, sample), strict=True
        ):
            yield None if same(got, wanted) else f"{opened_one(got)} instead of {wanted}"

    for one, dtype in entry.cases(("float64",)):
        complaints.check(one, dtype, lambda one=one: body(one))  # type: ignore[misc]
    complaints.report()


@ops_with(grad=True)
def test_gradient_goes_through_the_answers_of_a_class(entry: Op) -> None:
    complaints = Complaints(entry)

    def body(one: Call) -> Iterator[str | None]:
        sample = build(torch, entry, one, "float64")
        for x, spec in zip(sample.tensors, sample.specs, strict=True):
            x.requires_grad_(spec.differentiable and dtype_name(x.dtype) == "float64")
        wrapped = of_wrappers(sample)
        try:
            wanted = gradients(called(entry, sample), sample.tensors)
        except (RuntimeError, NotImplementedError) as refusal:  # so does the op of wrappers
            with pytest.raises(type(refusal), match=re.escape(str(refusal))):
                gradients(called(entry, wrapped), wrapped.tensors)
            return
        got = gradients(called(entry, wrapped), wrapped.tensors)
        for mine, other in zip(got, wanted, strict=True):
            if (mine is None) != (other is None) or not (mine is None or same(mine, other)):
                yield f"gradient {opened_one(mine)} instead of {other}"

    for one, dtype in entry.cases(("float64",)):
        complaints.check(one, dtype, lambda one=one: body(one))  # type: ignore[misc]
    complaints.report()


def gradients(results: list[Any], inputs: list[Any]) -> list[Any]:
    """Of the sum of the squares of all results."""
    live = [y for y in results if isinstance(y, torch.Tensor) and y.requires_grad]
    wanting = [x for x in inputs if x.requires_grad]
    if not live or not wanting:
        return []
    total = sum(((y * y.conj()).real.sum() for y in live), 0 * live[0].real.sum())
    return list(torch.autograd.grad(total, wanting, allow_unused=True))
