"""The same questions asked of every op that has samples.

A failure lists the calls of the op that answered wrongly, in the notation of the samples.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from finite_differences import DerivativeCheck
from harness import (
    LAYOUTS,
    Complaints,
    Sample,
    build,
    difference,
    dtype_name,
    expected_dtype,
    flat_results,
    lay_out,
    map_tensors,
    reference,
    resolve,
    to_numpy,
)
from samples import AHEAD, ENTRIES, Call, Op
from samples import spec as notation

import flambeau as torch

REGISTERED = {row["name"]: row for row in torch._C._op_registry()}


def is_there(entry: Op) -> bool:
    try:
        return bool(resolve(torch, entry))
    except AttributeError:
        return False


def every_op(*, any_of: str = "", lacking: str = "", grad: int = 0) -> Any:
    """Parametrizes a test over the ops with a form in `any_of`, none in `lacking`, and with
    derivatives up to order `grad`."""
    chosen = [
        entry
        for entry in ENTRIES.values()
        if (entry.name not in AHEAD or is_there(entry))
        and (not any_of or set(any_of.split()) & entry.forms)
        and not set(lacking.split()) & entry.forms
        and grad <= (2 if entry.second else 1) * entry.grad
    ]
    return pytest.mark.parametrize("entry", chosen, ids=str)


def tensors_of(result: Any) -> list[Any]:
    return [leaf for leaf in flat_results(result) if isinstance(leaf, torch.Tensor)]


def run(entry: Op, sample: Sample) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return resolve(torch, entry)(*sample.args, **sample.kwargs)


def compared(entry: Op, one: Call, dtype: str, sample: Sample) -> Iterator[str | None]:
    """Complaints about the result of a sample against NumPy's."""
    wanted = None if entry.ref is None and one.ref is None else reference(entry, one, sample, dtype)
    results = flat_results(run(entry, sample))
    rule = expected_dtype(entry.result_rule(one), dtype)
    for tensor in tensors_of(results):
        if rule is not None and dtype_name(tensor.dtype) != rule:
            yield f"dtype {dtype_name(tensor.dtype)} instead of {rule}"
    if wanted is None:
        return
    if len(wanted) == 1 and len(results) != 1 and not isinstance(wanted[0], np.ndarray):
        wanted = wanted * len(results)
    if len(wanted) != len(results):
        yield f"{len(results)} results instead of {len(wanted)}"
        return
    for got, want in zip(results, wanted, strict=True):
        yield difference(got, want, entry.tolerance)


@pytest.mark.repeated
def test_every_registered_op_has_samples() -> None:
    covered = set(ENTRIES).union(*(entry.covers for entry in ENTRIES.values()))
    covered |= {f"{name}_" for name in covered}
    # An underscore marks what only the Python of this package calls, and its tests reach.
    public = {name for name in REGISTERED if not name.startswith("_")}
    missing = sorted(public - covered)
    assert not missing, f"ops without an entry in tests/ops/samples: {missing}"


@pytest.mark.repeated
def test_every_op_has_zero_size_and_zero_dimensional_samples_or_says_why_not() -> None:
    for entry in ENTRIES.values():
        if "creation" in entry.forms:
            continue
        shapes = [
            spec.shape
            for one in entry.calls
            for spec in flat_results([*one.args, *one.kwargs.values()])
            if hasattr(spec, "shape")
        ]
        assert entry.empty or any(0 in shape for shape in shapes), f"{entry}: no zero-size sample"
        assert entry.zero_dim or () in shapes, f"{entry}: no zero-dimensional sample"


@every_op()
def test_op_equals_the_reference(entry: Op, device: str) -> None:
    complaints = Complaints(entry)
    for one, dtype in entry.cases():
        complaints.check(
            one,
            dtype,
            lambda one=one, dtype=dtype: compared(
                entry, one, dtype, build(torch, entry, one, dtype, device)
            ),
        )
    complaints.report()


@pytest.mark.slow
@pytest.mark.layouts
@every_op(lacking="rigid random undefined creation")
def test_layout_of_inputs_does_not_matter(entry: Op, device: str) -> None:
    complaints = Complaints(entry)
    mutating = "mutating" in entry.forms
    for one in entry.calls:
        if not one.layouts:
            continue
        dtype = preferred_dtype(entry, one)
        for layout in LAYOUTS[1:4] if mutating else LAYOUTS[1:]:
            complaints.check(
                one,
                dtype,
                lambda one=one, dtype=dtype, layout=layout: compared(
                    entry, one, dtype, build(torch, entry, one, dtype, device, layout)
                ),
                layout,
            )
    complaints.report()


@pytest.mark.layouts
@every_op(lacking="rigid random undefined creation mutating")
def test_any_byte_but_zero_is_true(entry: Op, device: str) -> None:
    complaints = Complaints(entry)
    for one, dtype in entry.cases():
        if dtype == "bool" and one.layouts:
            complaints.check(
                one,
                dtype,
                lambda one=one, dtype=dtype: compared(
                    entry, one, dtype, build(torch, entry, one, dtype, device, "of others")
                ),
            )
    complaints.report()


def preferred_dtype(entry: Op, one: Call) -> str:
    """float64 where the op has it, otherwise the first dtype of the call."""
    dtypes = [dtype for each, dtype in entry.cases() if each is one]
    return "float64" if "float64" in dtypes else dtypes[0]


@pytest.mark.repeated
@every_op(lacking="mutating")
def test_inputs_are_left_unchanged(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        before = [(to_numpy(x), x.stride(), x._version, x.dtype) for x in sample.tensors]
        run(entry, sample)
        for x, (values, stride, version, kind) in zip(sample.tensors, before, strict=True):
            if not np.array_equal(to_numpy(x), values, equal_nan=values.dtype.kind in "fc"):
                yield "an input's values changed"
            if (x.stride(), x._version, x.dtype) != (stride, version, kind):
                yield "an input's strides, version or dtype changed"

    for one in entry.calls:
        complaints.check(
            one, preferred_dtype(entry, one), lambda one=one: body(one, preferred_dtype(entry, one))
        )
    complaints.report()


@pytest.mark.repeated
@every_op(lacking="method-only function-only attribute creation")
def test_method_and_function_agree(entry: Op, device: str) -> None:
    """Where the registry has both; the first argument of a method is its tensor."""
    row = REGISTERED.get(entry.name)
    if row is None or not row["method"] or not row["function"]:
        return
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        again = build(torch, entry, one, dtype, device)
        torch.manual_seed(0)
        wanted = tensors_of(run(entry, sample))
        torch.manual_seed(0)
        method = getattr(again.args[0], entry.name)
        got = tensors_of(method(*again.args[1:], **again.kwargs))
        for g, w in zip(got, wanted, strict=True):
            yield difference(g, to_numpy(w))

    for one in entry.calls:
        if not isinstance(
            build(torch, entry, one, preferred_dtype(entry, one)).args[0], torch.Tensor
        ):
            continue
        complaints.check(
            one, preferred_dtype(entry, one), lambda one=one: body(one, preferred_dtype(entry, one))
        )
    complaints.report()


@pytest.mark.layouts
@every_op(any_of="inplace inplace-same")
def test_inplace_form_agrees(entry: Op, device: str) -> None:
    same_dtype = "inplace-same" in entry.forms
    complaints = Complaints(entry)

    def body(one: Call, dtype: str, layout: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        if not isinstance(sample.args[0], torch.Tensor):
            return
        wanted = run(entry, sample)
        target = build(torch, entry, one, dtype, device, layout).args[0]
        stays = wanted.dtype == target.dtype or same_dtype
        if wanted.shape != target.shape or not stays:
            return
        version = target._version
        result = getattr(target, f"{entry.name}_")(*sample.args[1:], **sample.kwargs)
        if result is not target:
            yield "the in-place form does not return its tensor"
        if target._version <= version:
            yield "the in-place form does not count a version"
        yield difference(target, to_numpy(wanted))

    for one, dtype in entry.cases():
        for layout in ("contiguous", "sliced", "transposed") if one.inplace else ():
            complaints.check(
                one,
                dtype,
                lambda one=one, dtype=dtype, layout=layout: body(one, dtype, layout),
                layout,
            )
    complaints.report()


@pytest.mark.layouts
@every_op(any_of="out out-dim")
def test_out_form_agrees(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        torch.manual_seed(0)
        wanted = run(entry, sample)
        values = None if "undefined" in entry.forms else to_numpy(wanted)
        empty = torch.empty(0, dtype=wanted.dtype, device=device)
        backwards = torch.empty(tuple(reversed(wanted.shape)), dtype=wanted.dtype, device=device)
        backwards = backwards.permute(tuple(reversed(range(wanted.dim()))))
        if "creation" in entry.forms:
            sample.kwargs.pop("dtype", None)
        for out, what in ((empty, "out of no elements"), (backwards, "transposed out")):
            if "random" in entry.forms and out is backwards:
                continue  # numbers are drawn in the order of memory
            strides = out.stride()
            torch.manual_seed(0)
            result = resolve(torch, entry)(*sample.args, **sample.kwargs, out=out)
            if result is not out:
                yield f"{what}: something else is returned"
            if what == "transposed out" and out.stride() != strides:
                yield f"{what}: strides changed from {strides} to {out.stride()}"
            complaint = None if values is None else difference(out, values, entry.tolerance)
            yield None if complaint is None else f"{what}: {complaint}"

    for one, dtype in entry.cases():
        if one.out and ("out" in entry.forms or len(one.args) + len(one.kwargs) > 1):
            complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()


# Of another tensor these ask the shape alone.
ONLY_SHAPES = {"broadcast_tensors", "expand_as", "reshape_as", "resize_as_", "view_as"}


@pytest.mark.repeated
@every_op(lacking="creation")
def test_tensors_that_lie_elsewhere_are_refused(entry: Op, device: str) -> None:
    complaints = Complaints(entry)
    elsewhere = "meta" if device == "cpu" else "cpu"

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        count = len(tensors_of([sample.args, list(sample.kwargs.values())]))
        for place in range(count) if count > 1 else ():
            order = iter(range(count))

            def move(x: Any, order: Any = order, place: int = place) -> Any:
                return x.to(elsewhere) if next(order) == place else x

            moved = Sample(map_tensors(sample.args, move), map_tensors(sample.kwargs, move))
            try:
                results = tensors_of(run(entry, moved))
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue
            finally:
                if device == "cuda":
                    torch.cuda.synchronize()  # no kernel has read memory of the host
            # A tensor of no dimensions goes along with those of any device, as a number does, and
            # an index may lie on the CPU.
            if device == "cpu" and any(
                x.dim() and x.device.type != "meta" and x.numel() for x in results
            ):
                yield f"a result was computed from a meta tensor at place {place}"

    if entry.name not in ONLY_SHAPES:
        for one in entry.calls:
            dtype = preferred_dtype(entry, one)
            complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()


@pytest.mark.repeated
@every_op(lacking="data-dependent")
def test_meta_result_has_the_real_shape(entry: Op) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype)
        moved = Sample(
            map_tensors(sample.args, lambda x: x.to("meta")),
            map_tensors(sample.kwargs, lambda x: x.to("meta")),
        )
        if "creation" in entry.forms:
            moved.kwargs["device"] = "meta"
        real, meta = tensors_of(run(entry, sample)), tensors_of(run(entry, moved))
        if len(real) != len(meta):
            yield f"{len(meta)} meta results instead of {len(real)}"
            return
        for r, m in zip(real, meta, strict=True):
            if m.device.type != "meta":
                yield f"the result is on {m.device}"
            for what in ("shape", "dtype"):
                if getattr(r, what) != getattr(m, what):
                    yield f"meta {what} {getattr(m, what)} instead of {getattr(r, what)}"
            if r.stride() != m.stride() and r.numel() > 1:
                yield f"meta strides {m.stride()} instead of {r.stride()}"

    for one in entry.calls:
        complaints.check(
            one, preferred_dtype(entry, one), lambda one=one: body(one, preferred_dtype(entry, one))
        )
    complaints.report()


@pytest.mark.layouts
@every_op(any_of="view")
def test_view_shares_the_memory_of_its_input(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        base = sample.args[0]
        for view in tensors_of(run(entry, sample)):
            if view.untyped_storage().data_ptr() != base.untyped_storage().data_ptr():
                yield "the result has memory of its own"
            if view is not base and view._version != base._version:
                yield "the result counts versions of its own"
            base.zero_()
            if np.any(to_numpy(view)):
                yield "a write into the input does not show in the result"

    for one in entry.calls:
        complaints.check(
            one, preferred_dtype(entry, one), lambda one=one: body(one, preferred_dtype(entry, one))
        )
    complaints.report()


def derivative_check(
    entry: Op, one: Call, dtype: str, device: str, inplace: bool = False
) -> DerivativeCheck | None:
    """A checker for the outputs of a call by all its floating-point inputs, or None if none."""
    sample = build(torch, entry, one, dtype, device)
    arrays = [to_numpy(x) for x in sample.tensors]
    chosen = [
        k
        for k, (x, spec) in enumerate(zip(sample.tensors, sample.specs, strict=True))
        if dtype_name(x.dtype) == dtype and spec.differentiable
    ]
    if not chosen or sum(arrays[k].size for k in chosen) > 40:
        return None

    def function(leaves: list[Any]) -> list[Any]:
        again = build(torch, entry, one, dtype, device, values=arrays)
        swap = {id(again.tensors[k]): leaf for k, leaf in zip(chosen, leaves, strict=True)}
        args = map_tensors(again.args, lambda x: swap.get(id(x), x))
        kwargs = map_tensors(again.kwargs, lambda x: swap.get(id(x), x))
        if inplace or "mutating" in entry.forms:
            args[0] = args[0].clone()
        torch.manual_seed(0)
        if inplace:
            result = getattr(args[0], f"{entry.name}_")(*args[1:], **kwargs)
        else:
            result = resolve(torch, entry)(*args, **kwargs)
        outputs = [out for out in tensors_of(result) if out.requires_grad]
        assert outputs, "no output carries a gradient"
        return outputs

    def to_tensor(array: np.ndarray) -> Any:
        name = "complex128" if np.iscomplexobj(array) else "float64"
        return lay_out(torch, array, name, device, "contiguous")

    return DerivativeCheck(
        torch,
        function,
        [arrays[k] for k in chosen],
        to_tensor,
        to_numpy,
        zlib.crc32(entry.name.encode()),
        differences=not notation.thin,
    )


def derivative_cases(entry: Op) -> Iterator[tuple[Call, str]]:
    for one, dtype in entry.cases(("float64", "complex128")):
        if one.grad:
            yield one, dtype


@pytest.mark.repeated
@every_op(grad=1, lacking="mutating view")
def test_result_can_be_written_to(entry: Op, device: str) -> None:
    """With and without a history: it is no view of something hidden, made without one."""
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        for x, spec in zip(sample.tensors, sample.specs, strict=True):
            x.requires_grad_(spec.differentiable and dtype_name(x.dtype) == dtype)
        memories = {x.untyped_storage().data_ptr() for x in sample.tensors}
        for result in tensors_of(run(entry, sample)):
            if result.grad_fn is None or result.untyped_storage().data_ptr() in memories:
                continue
            try:
                with torch.no_grad():
                    result.mul_(1)
                result.mul_(1)
            except RuntimeError as error:
                yield f"its result cannot be written to: {str(error)[:80]}"

    for one, dtype in derivative_cases(entry):
        complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()


@pytest.mark.slow
@every_op(grad=1)
def test_first_derivative_equals_finite_differences(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        check = derivative_check(entry, one, dtype, device)
        yield None if check is None else check.first()

    for one, dtype in derivative_cases(entry):
        complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()


@pytest.mark.slow
@every_op(grad=2)
def test_second_derivative_equals_finite_differences(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        check = derivative_check(entry, one, dtype, device)
        yield None if check is None else check.second()

    for one, dtype in derivative_cases(entry):
        complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()


@pytest.mark.slow
@every_op(any_of="inplace", grad=1)
def test_derivative_of_the_inplace_form_equals_finite_differences(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        sample = build(torch, entry, one, dtype, device)
        if not isinstance(sample.args[0], torch.Tensor):
            return
        functional = run(entry, sample)
        if functional.shape != sample.args[0].shape or functional.dtype != sample.args[0].dtype:
            return
        check = derivative_check(entry, one, dtype, device, inplace=True)
        yield None if check is None else check.first()

    for one, dtype in derivative_cases(entry):
        if one.inplace:
            complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()


@every_op(any_of="random")
def test_random_op_follows_its_seed(entry: Op, device: str) -> None:
    complaints = Complaints(entry)

    def body(one: Call, dtype: str) -> Iterator[str | None]:
        draws = []
        for seed in (7, 7):
            sample = build(torch, entry, one, dtype, device)
            torch.manual_seed(seed)
            draws.append(to_numpy(run(entry, sample)))
        if not np.array_equal(*draws):
            yield "the same seed gave other numbers"

    for one, dtype in entry.cases():
        complaints.check(one, dtype, lambda one=one, dtype=dtype: body(one, dtype))
    complaints.report()
