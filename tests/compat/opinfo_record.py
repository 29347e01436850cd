"""Runs under PyTorch: records what it answers to the sample and error inputs of its own operator
database, as one file an operator of plain Python values.

A call is recorded by the functions that reach PyTorch's dispatch while it runs, so that operators
which the database wraps into a lambda can be replayed by name. `python opinfo_record.py FOLDER
--ops REGEX`; opinfo.py calls it.
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

DTYPES = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64", "complex128")
MOST_SAMPLES = 40  # of an operator and a dtype
MOST_BYTES = 1 << 20  # of a tensor
BUILT_IN = (type(None), bool, int, float, complex, str, type(...))


class Unrecordable(Exception):
    """A value that has no plain form: a function, a sparse tensor, a huge one."""


class Encoder:
    """Turns values into tagged tuples of plain Python ones. Results of earlier calls, and the
    inputs of the operator, are named and not repeated."""

    def __init__(self) -> None:
        self.named: dict[int, tuple[Any, Any]] = {}
        self.inputs: list[Any] = []

    def __call__(self, value: Any) -> Any:
        if id(value) in self.named:
            return ("name", self.named[id(value)][1])
        if isinstance(value, torch.Tensor):
            position = len(self.inputs)
            self.inputs.append(tensor_facts(value))
            self.remember(value, ("input", position))
            return ("name", ("input", position))
        return self.plain(value)

    def remember(self, value: Any, name: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.named.setdefault(id(value), (value, name))
        elif isinstance(value, (list, tuple)):
            for place, item in enumerate(value):
                self.remember(item, ("item", name, place))

    def plain(self, value: Any) -> Any:
        if isinstance(value, BUILT_IN):
            return (
                "value",
                None if value is None else "..." if value is ... else value,
                value is ...,
            )
        if isinstance(value, slice):
            return ("slice", *(self(part) for part in (value.start, value.stop, value.step)))
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return (kind, [self(item) for item in value])
        if isinstance(value, dict):
            return ("dict", {key: self(item) for key, item in value.items()})
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return ("torch", str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return ("device", str(value))
        if value in (bool, int, float, complex):
            return ("type", value.__name__)
        if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape:
            return ("value", value.item(), False)
        raise Unrecordable(type(value).__name__)


def tensor_facts(tensor: torch.Tensor) -> dict[str, Any]:
    """All that is needed to make the same tensor elsewhere: its bytes and its geometry."""
    if tensor.layout != torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise Unrecordable(f"{tensor.layout} {type(tensor).__name__}")
    if tensor.device.type == "cpu":
        storage = tensor.untyped_storage()
        if storage.nbytes() > MOST_BYTES:
            raise Unrecordable("a large tensor")
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        data = whole.numpy().tobytes()
    else:
        data = None
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": tuple(tensor.shape),
        "stride": tensor.stride(),
        "offset": tensor.storage_offset(),
        "data": data,
        "device": tensor.device.type,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "requires_grad": tensor.requires_grad,
    }


def described(value: Any) -> Any:
    """A result as plain values."""
    if isinstance(value, torch.Tensor):
        facts = tensor_facts(value.detach().resolve_conj().resolve_neg())
        facts["requires_grad"] = value.requires_grad
        return ("tensor", facts)
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, [described(item) for item in value])
    return Encoder().plain(value)


class Trace(TorchFunctionMode):
    """Writes down every call that reaches dispatch."""

    def __init__(self, encode: Encoder) -> None:
        super().__init__()
        self.encode = encode
        self.calls: list[Any] = []
        self.last: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = resolve_name(func) or f"{func.__module__}.{func.__name__}"
        self.calls.append((name, self.encode(tuple(args)), self.encode(dict(kwargs))))
        self.last = func(*args, **kwargs)
        self.encode.remember(self.last, ("call", len(self.calls) - 1))
        return self.last


def flat_tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat_tensors(item)]
    return []


def gradients(result: Any, encode: Encoder) -> tuple[Any, Any]:
    """Weights for the outputs, and the gradients of the inputs for their weighted sum."""
    outputs = [leaf for leaf in flat_tensors(result) if leaf.requires_grad]
    leaves = [
        (name[1], tensor)
        for tensor, name in encode.named.values()
        if name[0] == "input" and tensor.requires_grad and tensor.is_leaf
    ]
    if not outputs or not leaves:
        return None, None
    torch.manual_seed(1)
    weights = [torch.randn_like(leaf.detach()) for leaf in outputs]
    try:
        found = torch.autograd.grad(
            outputs, [tensor for _, tensor in leaves], weights, allow_unused=True
        )
    except Exception as error:
        return [described(w) for w in weights], type(error).__name__
    named = {
        position: None if grad is None else described(grad)
        for (position, _), grad in zip(leaves, found, strict=True)
    }
    return [described(weight) for weight in weights], named


def leaf(value: Any) -> Any:
    """A tensor that requires a gradient without the history it was made with, which samples share;
    anything else as it is."""
    if (
        not isinstance(value, torch.Tensor)
        or not value.requires_grad
        or value.layout != torch.strided
    ):
        return value
    if value.is_leaf and value._base is None:
        return value
    bare = value.detach()
    place = (bare.storage_offset(), bare.shape, bare.stride())
    made = torch.empty(0, dtype=bare.dtype).set_(bare.untyped_storage().clone(), *place)
    made = made.conj() if bare.is_conj() else made
    return (torch._neg_view(made) if bare.is_neg() else made).requires_grad_()


def record(function: Any, sample: Any, public: str | None) -> dict[str, Any]:
    """One call: what is needed to repeat it, and what came of it. A function that has a public
    name is called by it, any other is followed to the functions that it calls."""
    encode = Encoder()
    args, kwargs = tree_map(leaf, ((sample.input, *sample.args), sample.kwargs))
    call = (public, encode(args), encode(kwargs))
    trace = Trace(encode)
    torch.manual_seed(0)
    result: Any = None
    error = None
    seed = torch.manual_seed

    def seen_seed(number: int) -> Any:
        trace.calls.append(("torch.manual_seed", encode((number,)), encode({})))
        return seed(number)

    try:
        if public:
            result = function(*args, **kwargs)
        else:
            torch.manual_seed = seen_seed
            with trace:
                result = function(*args, **kwargs)
    except Unrecordable:
        raise
    except Exception as exception:
        error = (type(exception).__name__, str(exception)[:300])
    finally:
        torch.manual_seed = seed
    if not trace.calls:
        if public is None:
            raise Unrecordable("a call that is not seen")
        trace.calls = [call]
        trace.last = result
        encode.remember(result, ("call", 0))
    if error is None:
        # Of what is unique only up to a sign or a basis, the sample says what to look at instead.
        with trace:
            result = sample.output_process_fn_grad(result)
    # What the operator returned, by name where it is a tensor; numbers come from the last call.
    tensors = flat_tensors(result)
    outcome: Any = ("name", ("call", len(trace.calls) - 1))
    if tensors and all(id(tensor) in encode.named for tensor in tensors):
        outcome = encode(result)
    else:
        result = trace.last
    weights = grads = None
    if error is None:
        weights, grads = gradients(result, encode)
    return {
        "inputs": encode.inputs,
        "calls": trace.calls,
        "outcome": outcome,
        "error": error,
        "result": None if error else described(result),
        "weights": weights,
        "grads": grads,
    }


def samples_of(op: Any, dtype: torch.dtype, long: bool) -> list[Any]:
    grad = dtype.is_floating_point or dtype.is_complex
    grad = grad and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    inputs = op.reference_inputs if long else op.sample_inputs
    found = list(itertools.islice(inputs("cpu", dtype, requires_grad=grad), 400))
    step = -(-len(found) // MOST_SAMPLES) or 1
    return found[::step]


def variants(op: Any) -> list[tuple[str, Any]]:
    """The method and the in-place form, as functions of a sample's arguments."""
    found = []
    if op.method_variant:
        found.append(("method", op.method_variant))
    if op.inplace_variant:
        inplace = op.inplace_variant

        def on_copy(input: Any, *args: Any, **kwargs: Any) -> Any:
            return inplace(torch.clone(input), *args, **kwargs)

        found.append(("inplace", on_copy))
    return found


def public_name(op: Any) -> str | None:
    """The operator's name below torch, if that is the very function the database calls."""
    found: Any = torch
    for part in op.name.split("."):
        found = getattr(found, part, None)
    return f"torch.{op.name}" if found is op.op else None


def record_op(op: Any, dtypes: list[str], long: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    public = public_name(op)

    def add(form: str, dtype: str, function: Any, sample: Any) -> None:
        try:
            row = record(function, sample, public if function is op.op else None)
        except Unrecordable as reason:
            row = {"unrecordable": str(reason)}
        row.update(form=form, dtype=dtype)
        rows.append(row)

    for name in dtypes:
        dtype = getattr(torch, name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        samples = samples_of(op, dtype, long)
        for sample in samples:
            add("function", name, op.op, sample)
        if name == "float32":
            for form, function in variants(op):
                for sample in samples[:6]:
                    add(form, name, function, sample)
    if op.error_inputs_func is not None:
        for wrong in op.error_inputs("cpu"):
            add("error", "", op.op, wrong.sample_input)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ops", default=".*")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--long", action="store_true", help="the database's longer lists")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        path = options.folder / f"{name}.pickle"
        if path.exists() or not re.fullmatch(options.ops, name):
            continue
        try:
            rows = record_op(op, options.dtypes.split(","), options.long)
        except Exception as error:  # a part of the database that needs what is not installed
            rows = [{"unrecordable": f"{type(error).__name__}: {error}", "form": "", "dtype": ""}]
        path.write_bytes(pickle.dumps(rows))


if __name__ == "__main__":
    main()
