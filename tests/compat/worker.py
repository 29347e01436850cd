"""Runs programs under one library and tells what came of them, as JSON, a line each.

    python worker.py flambeau|torch

A request holds statements; each is executed on its own, so that one that raises is recorded and the
rest goes on. The reply holds the exception types and a description of every variable. A number
beside the statements asks that the last bits of what they compute be shaken, each number in another
way: how far the results then lie apart tells what rounding can do to them. The same file runs under
both interpreters, needs nothing but the library, and knows nothing of the tests.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import sys
import warnings
from typing import Any

# As many decimal digits as tell any two numbers of a dtype apart.
DIGITS = {"float16": 5, "bfloat16": 4, "float32": 9, "complex64": 9}


def plain(value: Any, digits: int = 17) -> Any:
    """Numbers and lists of numbers as JSON has them; a complex number is a pair."""
    if isinstance(value, list):
        return [plain(item, digits) for item in value]
    if isinstance(value, complex):
        return [plain(value.real, digits), plain(value.imag, digits)]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def describe_tensor(tensor: Any, depth: int = 0) -> dict[str, Any]:
    described: dict[str, Any] = {
        "dtype": str(tensor.dtype).split(".")[-1],
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "offset": tensor.storage_offset(),
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
        "memory": 0,
    }
    data = tensor.detach()
    if hasattr(data, "_is_zerotensor") and data._is_zerotensor():
        data = data.clone()
    elif tensor.numel():
        described["memory"] = tensor.untyped_storage().data_ptr()
    described["values"] = plain(
        data.resolve_conj().reshape(-1).tolist(), DIGITS.get(described["dtype"], 17)
    )
    if depth == 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grad = tensor.grad
        described["grad"] = None if grad is None else describe_tensor(grad, 1)
    return described


def describe(lib: Any, value: Any) -> Any:
    """What a variable holds, or None for what is not compared (modules, functions)."""
    if isinstance(value, lib.Tensor):
        return describe_tensor(value)
    if isinstance(value, (bool, int, float, str, complex)):
        return {"python": type(value).__name__, "value": plain(value)}
    if isinstance(value, (tuple, list)):
        return {"python": "sequence", "items": [describe(lib, item) for item in value]}
    if isinstance(value, dict):
        return {"python": "dict", "items": {str(k): describe(lib, v) for k, v in value.items()}}
    if isinstance(value, (lib.dtype, lib.device)):
        return {"python": "name", "value": str(value)}
    return None


class Shaker:
    """Changes numbers that statements have computed in their last bits.

    Equal numbers, and numbers that differ in sign only, change alike, so that ties stay ties; what
    is exact in any precision, as small whole numbers are, and what has been shaken stay.
    """

    def __init__(self, lib: Any, run: int) -> None:
        self.lib, self.run = lib, run
        self.shaken: set[float] = set()

    def moved(self, value: Any, eps: float) -> Any:
        if isinstance(value, complex):
            return complex(self.moved(value.real, eps), self.moved(value.imag, eps))
        if not math.isfinite(value) or abs(value) in self.shaken:
            return value
        if abs(value) < 1024 and (value * 8).is_integer():
            return value
        return value * (1 + 8 * eps * random.Random(hash((abs(value), self.run))).uniform(-1, 1))

    def shake(self, names: dict[str, Any]) -> None:
        for tensor in [value for value in names.values() if isinstance(value, self.lib.Tensor)]:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                continue
            try:
                data = tensor.data
                values = data.resolve_conj().reshape(-1).tolist()
                eps = self.lib.finfo(tensor.dtype).eps
                moved = [self.moved(value, eps) for value in values]
                if moved != values:
                    data.copy_(self.lib.tensor(moved, dtype=tensor.dtype).reshape(tensor.shape))
                    values = data.resolve_conj().reshape(-1).tolist()
            except Exception:  # it cannot be written to, as expanded memory
                continue
            for value in values:
                self.shaken |= {abs(value), abs(value.real), abs(value.imag)}


def run(lib: Any, statements: list[str], shaken: int = 0) -> dict[str, Any]:
    """Executes the statements one by one in a namespace of their own."""
    names: dict[str, Any] = {"torch": lib, "math": math, "inf": math.inf, "nan": math.nan}
    errors: list[list[Any]] = []
    shaker = Shaker(lib, shaken) if shaken else None
    lib.manual_seed(0)
    for number, statement in enumerate(statements):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(statement, names)
            except Exception as error:
                errors.append([number, type(error).__name__, str(error)[:300]])
            if shaker:
                shaker.shake(names)
    variables = {}
    for name, value in names.items():
        if name.startswith("_") or name in ("torch", "math", "inf", "nan"):
            continue
        try:
            described = describe(lib, value)
        except Exception as error:
            described = {"python": "undescribable", "value": f"{type(error).__name__}: {error}"}
        if described is not None:
            variables[name] = described
    return {"errors": errors, "variables": variables}


def main() -> None:
    # What the library prints must not mix with the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lib = importlib.import_module(sys.argv[1])
    if hasattr(lib, "set_num_threads"):
        lib.set_num_threads(1)
    for line in sys.stdin:
        replies.write(json.dumps(run(lib, *json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
