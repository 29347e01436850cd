"""Turns samples into tensors, calls ops on them and compares results with NumPy's.

Tensors are made from lists and read with `tolist`, so that what is tested here does not lean on the
NumPy bridge, which has tests of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from samples import ENTRIES
from samples.random import Within
from samples.spec import (
    ALL_DTYPES,
    DTYPE,
    REAL_OF_COMPLEX,
    Call,
    DtypeArgument,
    Op,
    TensorSpec,
    is_complex,
    is_floating,
)

TOLERANCES = {
    "float16": (2e-3, 1e-3),
    "bfloat16": (1.6e-2, 1e-2),
    "float32": (2e-6, 2e-6),
    "complex32": (2e-3, 1e-3),
    "complex64": (4e-6, 4e-6),
    "float64": (1e-12, 1e-12),
    "complex128": (1e-12, 1e-12),
}
LAYOUTS = ("contiguous", "transposed", "sliced", "rows apart", "expanded", "of others")


def numpy_dtype(dtype: str) -> Any:
    """The NumPy dtype in which the reference computes: floating point in double precision."""
    if is_floating(dtype):
        return np.float64
    return np.complex128 if is_complex(dtype) else np.dtype(dtype)


def dtype_name(dtype: Any) -> str:
    return str(dtype).split(".")[-1]


def draw(spec: TensorSpec, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """The values of one tensor."""
    if spec.values is not None:
        return np.array(spec.values).reshape(spec.shape).astype(numpy_dtype(dtype))
    count = int(np.prod(spec.shape))
    if dtype == "bool":
        values = rng.integers(0, 2, count).astype(bool)
    elif is_floating(dtype):
        values = _draw_floats(spec, count, rng)
    elif is_complex(dtype):
        values = _draw_floats(spec, count, rng) + 1j * _draw_floats(spec, count, rng)
    else:
        low = 0 if dtype.startswith("uint") else np.ceil(spec.low)
        values = rng.integers(int(max(low, np.ceil(spec.low))), int(np.floor(spec.high)) + 1, count)
        if spec.distinct:
            values = rng.permutation(count) - (0 if dtype.startswith("uint") else count // 2)
        if spec.nonzero:
            values = np.where(values == 0, 1, values)
        values = values.astype(np.dtype(dtype))
    return values.reshape(spec.shape)


def _draw_floats(spec: TensorSpec, count: int, rng: np.random.Generator) -> np.ndarray:
    if spec.distinct:
        spacing = (spec.high - spec.low) / max(count, 1)
        jitter = rng.uniform(0.0, 0.3 * spacing)
        return rng.permutation(count) * spacing + spec.low + jitter
    values = rng.uniform(spec.low, spec.high, count)
    return values + np.where(values < 0, -0.2, 0.2) if spec.nonzero else values


def lay_out(lib: Any, values: np.ndarray, dtype: str, device: str, layout: str) -> Any:
    """A tensor with these values and the strides that `layout` names."""

    def make(array: np.ndarray) -> Any:
        tensor = lib.tensor(array.tolist(), dtype=getattr(lib, dtype), device=device)
        return tensor.reshape(array.shape) if array.size == 0 else tensor

    if layout == "transposed" and values.ndim > 1:
        order = tuple(reversed(range(values.ndim)))
        return make(np.transpose(values)).permute(order)
    if layout == "sliced" and values.ndim > 0:
        padded = np.zeros(tuple(2 * size + 1 for size in values.shape), values.dtype)
        inner = tuple(slice(1, None, 2) for _ in values.shape)
        padded[inner] = values
        return make(padded)[inner]
    if layout == "rows apart" and values.ndim > 0:
        # Dense rows, by an odd distance apart where they are even, and off the bounds of vectors.
        padded = np.zeros((*values.shape[:-1], values.shape[-1] + 1), values.dtype)
        padded[..., 1:] = values
        return make(padded)[..., 1:]
    if layout == "expanded":
        for axis, size in enumerate(values.shape):
            if size > 1:
                return make(np.take(values, [0], axis=axis)).expand(values.shape)
    if layout == "of others" and device == "cpu" and values.size > 0:
        return in_a_buffer(lib, make(values))
    return make(values)


def in_a_buffer(lib: Any, tensor: Any) -> Any:
    """The same values in memory that begins at an odd byte, and with any bytes for True."""
    count = tensor.numel()
    memory = bytearray(count * tensor.itemsize + 1)
    other = lib.frombuffer(memory, dtype=tensor.dtype, count=count, offset=1)
    other.copy_(tensor.reshape(-1))
    if tensor.dtype is lib.bool:
        memory[1:] = bytes((2 + 3 * i % 253) * byte for i, byte in enumerate(memory[1:]))
    return other.view(tensor.shape)


@dataclass
class Sample:
    """A call made concrete: its arguments for the library and for NumPy."""

    args: list[Any]
    kwargs: dict[str, Any]
    tensors: list[Any] = field(default_factory=list)
    specs: list[TensorSpec] = field(default_factory=list)

    def numpy(self) -> tuple[list[Any], dict[str, Any]]:
        return map_tensors(self.args, to_numpy), map_tensors(self.kwargs, to_numpy)


def map_tensors(tree: Any, function: Callable[[Any], Any]) -> Any:
    """The same arguments with every tensor replaced."""
    if isinstance(tree, (list, tuple)):
        mapped = [map_tensors(item, function) for item in tree]
        return mapped if isinstance(tree, list) else tuple(mapped)
    if isinstance(tree, dict):
        return {key: map_tensors(value, function) for key, value in tree.items()}
    return function(tree) if hasattr(tree, "requires_grad") else tree


def build(
    lib: Any,
    entry: Op,
    one: Call,
    dtype: str,
    device: str = "cpu",
    layout: str = "contiguous",
    values: list[np.ndarray] | None = None,
) -> Sample:
    """Makes the tensors of a call; `values` replaces what would be drawn."""
    seed = zlib.crc32(f"{entry.name} {entry.calls.index(one)} {dtype}".encode())
    rng = np.random.default_rng(seed)
    sample = Sample([], {})

    def make(item: Any) -> Any:
        if isinstance(item, TensorSpec):
            own = item.dtype or dtype
            drawn = draw(item, own, rng) if values is None else values[len(sample.tensors)]
            pinned = item.distinct or item.values is not None or item.nonzero
            chosen = "contiguous" if layout == "expanded" and pinned else layout
            tensor = lay_out(lib, drawn, own, device, chosen)
            sample.tensors.append(tensor)
            sample.specs.append(item)
            return tensor
        if isinstance(item, (list, tuple)):
            return type(item)(make(part) for part in item)
        if item is DTYPE:
            return getattr(lib, dtype)
        return getattr(lib, item.name) if isinstance(item, DtypeArgument) else item

    sample.args = [make(item) for item in one.args]
    sample.kwargs = {name: make(item) for name, item in one.kwargs.items()}
    if "creation" in entry.forms and device != "cpu":
        sample.kwargs["device"] = device
    return sample


def resolve(lib: Any, entry: Op) -> Callable[..., Any]:
    """The op as a function of all its arguments: the module's, or else the method."""
    if "method-only" in entry.forms or entry.name.startswith("__"):
        return lambda x, *args, **kwargs: getattr(x, entry.name)(*args, **kwargs)
    module = lib
    name = entry.name
    for prefix in ("linalg", "special", "fft"):
        if name.startswith(prefix + "_"):
            module, name = getattr(lib, prefix), name[len(prefix) + 1 :]
    for part in entry.where.split("."):
        module = getattr(module, part) if part else module
    return getattr(module, name)


def to_numpy(tensor: Any) -> np.ndarray:
    array = np.array(tensor.detach().cpu().tolist(), dtype=numpy_dtype(dtype_name(tensor.dtype)))
    return array.reshape(tuple(tensor.shape))


def flat_results(result: Any) -> list[Any]:
    """The tensors and numbers in a result, in order."""
    if isinstance(result, (tuple, list)):
        return [leaf for item in result for leaf in flat_results(item)]
    return [result]


def expected_dtype(rule: str, dtype: str) -> str | None:
    """The dtype that a result rule of the samples names, or None when it is not checked."""
    whole = not is_floating(dtype) and not is_complex(dtype)
    real = REAL_OF_COMPLEX.get(dtype, dtype)
    complex_of = {real_dtype: c for c, real_dtype in REAL_OF_COMPLEX.items()}
    rules = {
        "any": None,
        "same": dtype,
        "float": "float32" if whole else dtype,
        "sum": "int64" if whole else dtype,
        "real": real,
        "real-float": "float32" if whole else real,
        "complex": complex_of.get(dtype),
        "double": "complex128" if is_complex(dtype) else "float64",
        "bool-or-uint8": "uint8" if dtype == "uint8" else "bool",
    }
    return rules.get(rule, rule)


def reference(entry: Op, one: Call, sample: Sample, dtype: str) -> list[Any]:
    """NumPy's results for a sample; integers are widened where the op makes them floating point."""
    args, kwargs = sample.numpy()
    if entry.result_rule(one) in ("float", "real-float", "double") and not is_complex(dtype):

        def widen(x: Any) -> Any:
            return x.astype(np.float64) if isinstance(x, np.ndarray) else x

        args = [widen(x) for x in args]
        kwargs = {name: widen(x) for name, x in kwargs.items()}
    for name in ("dtype", "device"):
        if name in kwargs:
            kwargs[name] = None
    if "device" in kwargs:
        del kwargs["device"]
    function = one.ref or entry.ref
    assert function is not None
    with np.errstate(all="ignore"):
        return flat_results(function(*args, **kwargs))


def difference(actual: Any, wanted: Any, factor: float = 1.0) -> str | None:
    """Says how a result differs from NumPy's, or None."""
    if not hasattr(actual, "requires_grad"):
        return None if actual == wanted else f"{actual!r} instead of {wanted!r}"
    name = dtype_name(actual.dtype)
    values = to_numpy(actual)
    if isinstance(wanted, Within):
        return None if wanted.holds(values) else f"{values} not within {vars(wanted)}"
    wanted = np.asarray(wanted)
    if values.shape != wanted.shape:
        return f"shape {values.shape} instead of {wanted.shape}"
    with np.errstate(all="ignore"):
        wanted = wanted.astype(values.dtype) if wanted.dtype.kind != "c" else wanted
    if name not in TOLERANCES:
        same = np.array_equal(values, wanted)
    else:
        relative, absolute = (factor * limit for limit in TOLERANCES[name])
        same = np.allclose(values, _round_to(wanted, name), relative, absolute, equal_nan=True)
    return None if same else f"{values.tolist()} instead of {wanted.tolist()}"


def _round_to(values: np.ndarray, dtype: str) -> np.ndarray:
    """Large values overflow to infinity in narrow dtypes, in the reference too."""
    largest = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.4028235e38}.get(dtype)
    if largest is None or np.iscomplexobj(values):
        return values
    return np.where(np.abs(values) > largest, np.sign(values) * np.inf, values)


# What ops on a device other than the CPU said they lack; the test run lists it at its end.
NOT_IMPLEMENTED: set[str] = set()


class Complaints:
    """Collects what is wrong with an op over all its calls, so that one failure shows all."""

    def __init__(self, entry: Op) -> None:
        self.entry = entry
        self.found: list[str] = []

    def check(
        self, one: Call, dtype: str, body: Callable[[], Iterator[str | None]], note: str = ""
    ) -> None:
        """Runs body, which yields complaints; an exception is a complaint too."""
        where = f"{self.entry.name}{one} {dtype} {note}".rstrip()
        try:
            self.found += [f"{where}: {text}" for text in body() if text is not None]
        except NotImplementedError as error:
            # A dtype that PyTorch's kernels on that device do not have either; no empty slot.
            if any(text in str(error) for text in ("_cuda", "on CUDA")):
                NOT_IMPLEMENTED.add(f"{self.entry.name}: {error}")
            else:
                self.found.append(f"{where}: {type(error).__name__}: {error}")
        except Exception as error:
            self.found.append(f"{where}: {type(error).__name__}: {error}")

    def report(self) -> None:
        if self.found:
            rest = len(self.found) - 12
            more = [f"... and {rest} more"] if rest > 0 else []
            raise AssertionError("\n".join(self.found[:12] + more))


def outcomes(lib: Any, name: str) -> dict[str, Any]:
    """What every call of an op gives for every dtype, listed in its entry or not: the result, or
    the name of the exception. Two libraries are compared by it."""
    entry = ENTRIES[name]
    found: dict[str, Any] = {}
    for position, one in enumerate(entry.calls):
        for dtype in ALL_DTYPES:
            for layout in LAYOUTS[:2]:
                if layout != "contiguous" and {"rigid", "creation"} & entry.forms:
                    continue
                lib.manual_seed(position)
                try:
                    sample = build(lib, entry, one, dtype, layout=layout)
                    result = resolve(lib, entry)(*sample.args, **sample.kwargs)
                    if "undefined" in entry.forms:
                        result = result.zero_()
                except Exception as error:
                    result = type(error).__name__
                found[f"{name}{one} {dtype} {layout}"] = result
    return found


def graph_facts(lib: Any, name: str) -> dict[str, Any]:
    """What every call of an op leaves in the graph, for inputs of type float64 and complex128: the
    name of its node, what becomes of backward when an input or output is overwritten before it, and
    whether a second pass finds what it needs. Two libraries are compared by it."""
    entry = ENTRIES[name]
    found: dict[str, Any] = {}
    for position, one in enumerate(entry.calls):
        for dtype in ("float64", "complex128"):
            label = f"{name}{one} {dtype}"
            try:
                found[label] = _Recorded(lib, entry, one, dtype, position).facts()
            except Exception as error:
                found[label] = type(error).__name__
    return found


class _Recorded:
    """A call whose inputs are no leaves, and those of its results that have a history."""

    def __init__(self, lib: Any, entry: Op, one: Call, dtype: str, seed: int) -> None:
        self.again = lambda: _Recorded(lib, entry, one, dtype, seed)
        self.lib = lib
        self.leaves: list[Any] = []
        self.inputs: list[Any] = []
        lib.manual_seed(seed)
        sample = build(lib, entry, one, dtype)
        args, kwargs = map_tensors((sample.args, sample.kwargs), self._start)
        results = flat_results(resolve(lib, entry)(*args, **kwargs))
        self.outputs = [r for r in results if getattr(r, "grad_fn", None) is not None]

    def _start(self, tensor: Any) -> Any:
        if tensor.is_floating_point() or tensor.is_complex():
            self.leaves.append(tensor.requires_grad_())
            tensor = tensor.clone()
        self.inputs.append(tensor)
        return tensor

    def backward(self) -> str:
        """How a pass ends."""
        seeds = [self.lib.ones_like(r) for r in self.outputs]
        try:
            self.lib.autograd.backward(self.outputs, seeds)
        except Exception as error:
            return type(error).__name__
        return "passes"

    def gradients(self) -> list[Any]:
        return [leaf.grad if leaf.grad is None else leaf.grad.tolist() for leaf in self.leaves]

    def facts(self) -> dict[str, Any]:
        if not self.outputs:
            return {"node": None}
        facts: dict[str, Any] = {"node": [r.grad_fn.name() for r in self.outputs]}
        first = self.backward()
        wanted = repr(self.gradients())
        facts["twice"] = [first, self.backward()]
        for kind in ("inputs", "outputs"):
            for k in range(len(getattr(self, kind))):
                other = self.again()
                _overwrite(self.lib, getattr(other, kind)[k])
                end = other.backward()
                changed = end == "passes" and repr(other.gradients()) != wanted
                facts[f"{kind} {k}"] = "passes with other gradients" if changed else end
        return facts


def _overwrite(lib: Any, tensor: Any) -> None:
    """Writes other values behind the graph's back, where memory allows it."""
    with lib.no_grad():
        if tensor.dtype == lib.bool:
            tensor.copy_(~tensor)
        elif not (tensor.is_floating_point() or tensor.is_complex()):
            tensor.zero_()
        elif 0 in tensor.stride():
            lib.autograd.graph.increment_version(tensor)
        else:
            tensor.mul_(-1.5).add_(0.25)
