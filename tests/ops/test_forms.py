"""What the registry's property `elementwise` promises: such an op has every form that ops have,
also one that was added a moment ago. It is asked of the registry, not of a list."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from harness import Sample, build, flat_results, map_tensors
from samples import ENTRIES
from test_ops import preferred_dtype

import flambeau as torch
from flambeau import _C

# Not: what only the core calls, forms that are in place already, devices that there are not.
NAMES = sorted(
    name
    for name in {row["name"] for row in _C._op_registry()}
    if "elementwise" in _C._properties(name)
    and name.strip("_") == name
    and (name != "cuda" or torch.cuda.is_available())
)


def samples_of(name: str) -> list[tuple[Callable[..., Any], Sample]]:
    """Calls of an op with a tensor of at least two rows. Another name of an op has its samples."""
    known = [entry for entry in ENTRIES.values() if name in (entry.name, *entry.covers)]
    function = getattr(_C, name, None)
    function = function if callable(function) else getattr(torch.Tensor, name)  # float is a dtype
    found = []
    for entry, one in [(each, one) for each in known for one in each.calls]:
        sample = build(torch, entry, one, preferred_dtype(entry, one))
        shape = sample.tensors[0].shape if sample.tensors else ()
        if len(shape) > 0 and shape[0] > 1:
            found.append((function, sample))
    assert found, f"{name} has no sample of several rows"
    return found[:3]


def jagged(values: Any, offsets: Any) -> Any:
    """Values with as many rows as the first of a call, as components; others stay as they are."""
    if values.dim() == 0 or len(values) != offsets[-1]:
        return values
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def call(function: Callable[..., Any], sample: Sample, change: Callable[[Any], Any]) -> Any:
    return function(*map_tensors(sample.args, change), **map_tensors(sample.kwargs, change))


def assert_equal(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, (tuple, list)):
        for one, other in zip(found, wanted, strict=True):
            assert_equal(one, other)
        return
    torch.testing.assert_close(found, wanted, equal_nan=True)


def values_of(result: Any) -> Any:
    if isinstance(result, tuple):
        return type(result)([values_of(each) for each in result])
    assert result.is_nested
    return result.values()


@pytest.mark.parametrize("name", NAMES)
def test_an_elementwise_op_takes_jagged_tensors(name: str) -> None:
    for function, sample in samples_of(name):
        offsets = torch.tensor([0, 1, len(sample.tensors[0])])
        nested = call(function, sample, functools.partial(jagged, offsets=offsets))
        assert_equal(values_of(nested), call(function, sample, lambda x: x))


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(torch.Tensor, f"{name}_")])
def test_an_elementwise_op_writes_in_place(name: str) -> None:
    for function, sample in samples_of(name):
        wanted = call(function, sample, lambda x: x)
        first, *rest = sample.args
        if not isinstance(first, torch.Tensor) or wanted.dtype != first.dtype:
            continue
        if wanted.shape != first.shape:
            continue
        targets = [first.clone()]
        if name != "detach":  # which a view can't be
            targets.append(torch.stack([first, first], -1)[..., 0])
        for target in targets:
            written = getattr(target, f"{name}_")(*rest, **sample.kwargs)
            assert written is target
            assert_equal(target, wanted)


@pytest.mark.parametrize("name", [name for name in NAMES if "out" in _C._properties(name)])
def test_an_elementwise_op_writes_into_out(name: str) -> None:
    for function, sample in samples_of(name):
        if name == "where" and not all(isinstance(x, torch.Tensor) for x in sample.args):
            continue  # of numbers it takes no out=, as in PyTorch
        wanted = call(function, sample, lambda x: x)
        if isinstance(wanted, tuple):
            outs = tuple(map(torch.empty_like, wanted))
            function(*sample.args, **sample.kwargs, out=outs)
            assert_equal(outs, tuple(wanted))
            continue
        for out in (torch.empty(0, dtype=wanted.dtype), torch.empty_like(wanted)):
            assert function(*sample.args, **sample.kwargs, out=out) is out
            assert_equal(out, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_an_elementwise_op_is_mapped_over_a_batch(name: str) -> None:
    for function, sample in samples_of(name):
        wanted = call(function, sample, lambda x: x)
        batches = [torch.stack([y, y]) for y in sample.tensors if y.dim()]

        calls: list[int] = []

        def one(
            *tensors: Any, function: Any = function, sample: Any = sample, calls: Any = calls
        ) -> Any:
            rest = iter(tensors)
            calls.append(len(tensors))
            return call(function, sample, lambda one: next(rest) if one.dim() else one)

        found = torch.func.vmap(one)(*batches)
        assert len(calls) == 1  # for all samples of the batch
        for item in (0, 1):
            picked = [x[item] for x in found] if isinstance(found, tuple) else found[item]
            assert_equal(picked, list(wanted) if isinstance(wanted, tuple) else wanted)


@pytest.mark.parametrize("name", NAMES)
def test_an_elementwise_op_runs_under_autocast(name: str) -> None:
    for function, sample in samples_of(name):
        with torch.autocast("cpu", torch.bfloat16):
            found = call(function, sample, lambda x: x)
        wanted = call(function, sample, lambda x: x)
        for one, other in zip(flat_results(found), flat_results(wanted), strict=True):
            torch.testing.assert_close(
                one, other, atol=0.02, rtol=0.02, equal_nan=True, check_dtype=False
            )
