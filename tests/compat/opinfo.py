"""Replays PyTorch's operator database: every sample and error input that opinfo_record.py wrote
down is called here, and value, dtype, shape, strides, gradient and exception type are compared.

    FLAMBEAU_ORACLE=/path/to/python-with-pytorch python tests/compat/opinfo.py [--ops REGEX]

Prints a line for each operator that differs and totals. Recordings are kept in build/opinfo.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pickle
import re
import select
import signal
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import flambeau as torch

HERE = Path(__file__).parent
FOLDER = HERE.parent.parent / "build" / "opinfo"
SECONDS = 120  # for all calls of an operator

TOLERANCES = {"float64": 1e-7, "complex128": 1e-7, "float32": 2e-4, "complex64": 2e-4,
              "float16": 1e-2, "complex32": 1e-2, "bfloat16": 4e-2}  # fmt: skip

# Their values are whatever was in memory.
UNDEFINED = re.compile(r"(new_)?empty(_like|_strided|_permuted)?|resize_(as_)?")
# Operators of other devices, of PyTorch's compilers and of its own kernels' internals.
OUT_OF_SCOPE = re.compile(
    r"jiterator.*|torch\.ops.*|torch\._scaled_mm.*|bmm\.triton.*|_upsample_bilinear2d_aa|"
    r"_chunk_cat|_unsafe_masked.*|_softmax_backward_data|native_dropout_backward|"
    r"slice|max_pool2d_with_indices_backward|_batch_norm_with_update|_native_batch_norm_legit"
)


# Equal elements may come in any order: where there are some, neither indices are compared nor
# gradients, which follow them.
ORDERING = re.compile(r"(arg|m)?sort|topk|kthvalue|mode")


def resolve(name: str) -> Any:
    """The function here that a function of PyTorch's, named by its overridable name, is."""
    name = name.removeprefix("torch.functional.") if "functional" in name else name
    name = re.sub(r"^torch\._C\._(linalg|fft|special)\.\1_", r"torch.\1.", name)
    name = re.sub(r"^torch\._C\._nn\.", "torch.nn.functional.", name)
    name = re.sub(r"^(torch\._C\.(TensorBase|_VariableFunctions)|torch\._tensor\.Tensor)\.",
                  lambda m: "torch.Tensor." if "Tensor" in m[0] else "torch.", name)  # fmt: skip
    name = name.removeprefix("torch.")
    if name.endswith(".__get__"):
        attribute = name.split(".")[-2]
        return lambda tensor: getattr(tensor, attribute)
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part)
    return found


class Replay:
    """One recorded call under Flambeau."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.inputs = [make_tensor(facts) for facts in row["inputs"]]
        self.results: list[Any] = []

    def decode(self, value: Any) -> Any:
        kind = value[0]
        if kind == "name":
            return self.named(value[1])
        if kind == "value":
            return ... if value[2] else value[1]
        if kind == "slice":
            return slice(*(self.decode(part) for part in value[1:]))
        if kind in ("list", "tuple"):
            items = [self.decode(item) for item in value[1]]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {key: self.decode(item) for key, item in value[1].items()}
        if kind == "torch":
            return getattr(torch, value[1])
        if kind == "type":
            return {"bool": bool, "int": int, "float": float, "complex": complex}[value[1]]
        return torch.device(value[1])

    def named(self, name: Any) -> Any:
        if name[0] == "item":
            return self.named(name[1])[name[2]]
        return (self.inputs if name[0] == "input" else self.results)[name[1]]

    def run(self) -> Any:
        torch.manual_seed(0)
        for name, args, kwargs in self.row["calls"]:
            function = resolve(name)
            self.results.append(function(*self.decode(args), **self.decode(kwargs)))
        return self.decode(self.row["outcome"])

    def gradients(self, result: Any) -> Any:
        outputs = [leaf for leaf in flat_tensors(result) if leaf.requires_grad]
        weights = [make_tensor(facts) for _, facts in self.row["weights"]]
        if len(outputs) != len(weights):
            # Whether a result without elements has a history makes no difference.
            outputs = [leaf for leaf in outputs if leaf.numel()]
            weights = [weight for weight in weights if weight.numel()]
        if len(outputs) != len(weights):
            return f"{len(outputs)} differentiable results instead of {len(weights)}"
        positions = [k for k, facts in enumerate(self.row["inputs"]) if facts["requires_grad"]]
        if isinstance(self.row["grads"], dict):
            positions = list(self.row["grads"])
        leaves = [self.inputs[k] for k in positions]
        found = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
        return dict(zip(positions, found, strict=True))


def make_tensor(facts: dict[str, Any]) -> Any:
    dtype = getattr(torch, facts["dtype"])
    if facts["data"] is None:
        tensor = torch.empty_strided(
            facts["shape"], facts["stride"], dtype=dtype, device=facts["device"]
        )
    elif not facts["data"]:
        tensor = torch.empty(0, dtype=dtype).as_strided(facts["shape"], facts["stride"], 0)
    else:
        whole = torch.tensor(np.frombuffer(facts["data"], np.uint8).copy()).view(dtype)
        storage = torch.empty(0, dtype=dtype).set_(whole)
        tensor = storage.set_(
            storage.untyped_storage(), facts["offset"], facts["shape"], facts["stride"]
        )
    if facts["conj"]:
        tensor = tensor.conj()
    if facts["neg"]:
        tensor = torch._neg_view(tensor) if hasattr(torch, "_neg_view") else -tensor
    return tensor.requires_grad_() if facts["requires_grad"] else tensor


def flat_tensors(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat_tensors(item)]
    return []


def values_of(facts: dict[str, Any]) -> np.ndarray:
    """The elements of a recorded tensor."""
    name = facts["dtype"]
    if name == "complex32":  # which NumPy lacks
        raw = np.frombuffer(facts["data"], "float16").astype("float32").view("complex64")
    else:
        raw = np.frombuffer(facts["data"], "uint16" if name == "bfloat16" else name)
    steps = [step * raw.itemsize for step in facts["stride"]]
    if 0 in facts["shape"]:
        raw, steps = np.zeros(facts["shape"], raw.dtype), [0] * len(steps)
        return raw
    view = np.lib.stride_tricks.as_strided(raw[facts["offset"] :], facts["shape"], steps)
    if name == "bfloat16":
        return (view.astype(np.uint32) << 16).view(np.float32)
    return view


def our_values(tensor: Any) -> np.ndarray:
    plain = tensor.detach().resolve_conj()
    if plain.dtype == torch.bfloat16:
        plain = plain.float()
    elif plain.dtype == torch.complex32:
        plain = plain.to(torch.complex64)
    return np.asarray(plain.numpy())


def layout(shape: Any, stride: Any) -> Any:
    """Strides, without those that nothing steps along."""
    return None if 0 in shape else [s for s, n in zip(stride, shape, strict=True) if n > 1]


def tensor_difference(
    got: Any, want: dict[str, Any], compare_values: bool = True, compare_strides: bool = True
) -> str | None:
    """How a tensor differs from a recorded one."""
    if not isinstance(got, torch.Tensor):
        return f"{type(got).__name__} instead of a tensor"
    got = got.resolve_conj().resolve_neg()  # as the recorded one was
    if str(got.dtype).removeprefix("torch.") != want["dtype"]:
        return f"dtype {got.dtype} instead of {want['dtype']}"
    if tuple(got.shape) != want["shape"]:
        return f"shape {tuple(got.shape)} instead of {want['shape']}"
    strides = layout(want["shape"], want["stride"])
    if compare_strides and layout(got.shape, got.stride()) != strides:
        return f"stride {got.stride()} instead of {want['stride']}"
    if not compare_values or want["data"] is None:
        return None
    mine, theirs = our_values(got), values_of(want)
    limit = TOLERANCES.get(want["dtype"])
    if limit is None:
        same = np.array_equal(mine, theirs)
    else:
        finite = theirs[np.isfinite(theirs)]
        largest = float(np.max(np.abs(finite))) if finite.size else 0.0
        # Sums of numbers with few digits are off by a share of the largest, not of themselves.
        # What is all noise around zero is not compared to the last digit either.
        scale = max(largest, 1.0) if limit > 1e-3 else min(max(largest, 0.1), 1.0)
        with np.errstate(all="ignore"):
            same = np.allclose(mine, theirs, limit, limit * scale, equal_nan=True)
    if same:
        return None
    return f"values {np.ravel(mine)[:4]} instead of {np.ravel(theirs)[:4]}"


def difference(got: Any, want: Any, compare_values: bool = True) -> str | None:
    """How a result differs from a recorded one."""
    kind = want[0]
    if kind == "tensor":
        return tensor_difference(got, want[1], compare_values)
    if kind in ("list", "tuple"):
        if not isinstance(got, (list, tuple)) or len(got) != len(want[1]):
            return f"{type(got).__name__} instead of {len(want[1])} results"
        parts = (difference(g, w, compare_values) for g, w in zip(got, want[1], strict=True))
        return next((text for text in parts if text is not None), None)
    if kind == "value":
        same = got == want[1] or (got != got and want[1] != want[1])
        if isinstance(got, float) and isinstance(want[1], float) and not same:
            same = abs(got - want[1]) <= 1e-4 * max(1.0, abs(want[1]))
        return None if same else f"{got!r} instead of {want[1]!r}"
    return None if str(got).removeprefix("torch.") == want[1] else f"{got} instead of {want[1]}"


def compared(name: str, row: dict[str, Any]) -> str | None:
    """What differs in one call, in words, or None."""
    want_error = row["error"]
    try:
        replay = Replay(row)
        result = replay.run()
    except Exception as error:
        if want_error is None:
            return f"raises {type(error).__name__}: {str(error)[:200]}"
        both = {type(error).__name__, want_error[0]}
        if len(both) == 1 or both == {"RuntimeError", "NotImplementedError"}:
            return None
        return f"raises {type(error).__name__} ({str(error)[:90]}) instead of {want_error}"
    if want_error is not None:
        return f"no error instead of {want_error}"
    if ORDERING.fullmatch(name) and has_ties(row["inputs"][0]):
        return difference_but_indices(name, result, row["result"])
    defined = not UNDEFINED.fullmatch(name)
    text = difference(result, row["result"], defined)
    if text is not None or row["weights"] is None:
        return text
    return gradient_difference(replay, result, row)


def has_ties(facts: dict[str, Any]) -> bool:
    values = values_of(facts)
    return np.unique(values).size < values.size


def difference_but_indices(name: str, got: Any, want: Any) -> str | None:
    """How values differ; of indices only shapes and strides count."""
    if want[0] == "tensor":
        return tensor_difference(got, want[1], compare_values=name != "argsort")
    values = difference(got[0], want[1][0])
    return values or tensor_difference(got[1], want[1][1][1], compare_values=False)


def gradient_difference(replay: Replay, result: Any, row: dict[str, Any]) -> str | None:
    try:
        found = replay.gradients(result)
    except Exception as error:
        if isinstance(row["grads"], str):
            return None
        return f"backward raises {type(error).__name__}: {str(error)[:200]}"
    if isinstance(found, str):
        return found
    if isinstance(row["grads"], str):
        # A derivative that PyTorch lacks may be had here.
        lacking = row["grads"] == "NotImplementedError"
        return None if lacking else f"backward raises no {row['grads']}"
    for position, want in row["grads"].items():
        got = found.get(position)
        if want is None or got is None:
            zero = got is None or not bool((got != 0).any())
            nothing = want is None or not np.any(values_of(want[1]))
            text = None if zero and nothing else f"{got} instead of {want}"[:200]
        else:
            # How a gradient lies in memory is left free.
            text = tensor_difference(got, want[1], compare_strides=False)
        if text is not None:
            return f"gradient of input {position}: {text}"
    return None


def replay_op(name: str, path: Path) -> dict[str, Any]:
    """Counts and differences of all calls of an operator."""
    rows = pickle.loads(path.read_bytes())
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: list[str] = []
    calls = skipped = 0
    for number, row in enumerate(rows):
        if "unrecordable" in row:
            skipped += 1
            continue
        calls += 1
        text = compared(name, row)
        if text is not None:
            shapes = [f"{f['dtype']}{list(f['shape'])}" for f in row["inputs"]]
            found.append(f"#{number} {row['form']} {row['dtype']} {' '.join(shapes[:4])}: {text}")
    return {"calls": calls, "skipped": skipped, "found": found}


def in_child(name: str, path: Path) -> dict[str, Any]:
    """replay_op in a process of its own, so that a crash or a hang is a finding like others."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer = json.dumps(replay_op(name, path))
        except BaseException as error:
            answer = json.dumps({"calls": 1, "skipped": 0, "found": [f"tool: {error!r}"]})
        with os.fdopen(writer, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        ready, _, _ = select.select([pipe], [], [], SECONDS)
        if not ready:
            os.kill(child, signal.SIGKILL)
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return {"calls": 1, "skipped": 0, "found": [f"died or hung, status {status}"]}
    result: dict[str, Any] = json.loads(answer)
    return result


def chosen(folder: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob("*.pickle")):
        name = path.name.removesuffix(".pickle")
        if re.fullmatch(pattern, name) and not OUT_OF_SCOPE.fullmatch(name):
            yield name, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", default=r"(?!nn\.functional).*", help="names to replay, a regex")
    parser.add_argument("--show", type=int, default=2, help="differences to print of an operator")
    parser.add_argument("--all", action="store_true", help="print operators that agree too")
    parser.add_argument("--dtypes", help="others than the eight, with commas between")
    parser.add_argument("--long", action="store_true", help="the database's longer lists")
    options = parser.parse_args()
    parts = ["opinfo", *([options.dtypes] if options.dtypes else []), *["long"] * options.long]
    folder = FOLDER.with_name("-".join(parts))
    oracle = os.environ.get("FLAMBEAU_ORACLE")
    if oracle:
        command = [oracle, str(HERE / "opinfo_record.py"), str(folder), "--ops", options.ops]
        command += ["--dtypes", options.dtypes] if options.dtypes else []
        command += ["--long"] if options.long else []
        subprocess.run(command, check=True)
    totals: collections.Counter[str] = collections.Counter()
    for name, path in chosen(folder, options.ops):
        row = in_child(name, path)
        totals["ops"] += 1
        totals["ops that agree"] += not row["found"]
        totals["calls"] += row["calls"]
        totals["calls that agree"] += row["calls"] - len(row["found"])
        totals["calls that could not be recorded"] += row["skipped"]
        if row["found"] or options.all:
            print(f"{name:36} {row['calls'] - len(row['found']):5} of {row['calls']:5}")
        for text in row["found"][: options.show]:
            print(f"    {text}")
    print(json.dumps(totals, indent=1))
    print(f"{totals['calls that agree'] / max(totals['calls'], 1):.2%} of calls agree")


if __name__ == "__main__":
    main()
