"""Every op that the registry calls elementwise, called with what its signature says it needs, gives
inside vmap what a loop over the samples gives.
"""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
from flambeau import _C
from flambeau.utils._pytree import tree_leaves

COUNT = 3


SIMPLE = {"tensor", "operand", "scalar", "integer", "real", "boolean"}


def _elementwise() -> dict[str, list[tuple[str, str]]]:
    """The names of these ops, with the kinds and the names of the arguments that they need."""
    found: dict[str, list[tuple[str, str]]] = {}
    for row in _C._op_registry():
        name = row["name"].split(".")[0]
        if "elementwise" not in _C._properties(name) or name.endswith("_") or name in found:
            continue
        text = row["signature"].split("(", 1)[1].rsplit(")", 1)[0]
        names = [part for part in text.split(", ") if part != "*"]
        required = [(k, part) for k, part in zip(row["arguments"], names) if "=" not in part]
        if len(required) < 2 and len(names) > 1 and names[1] == "min=None":
            required.append(("scalar", "min"))
        if row["returns"] == "tensor" and row["function"] and {k for k, _ in required} <= SIMPLE:
            found[name] = required
    return found


OPS = _elementwise()


def _operand(kind: str, name: str, dtype: torch.dtype) -> Any:
    if kind in ("tensor", "operand") and name != "value":
        dtype = torch.bool if name in ("mask", "condition") else dtype
        return (torch.rand(COUNT, 2, 4) * 3).to(dtype)
    return {"operand": 2, "scalar": 2, "integer": 1, "real": 0.5, "boolean": True}[kind]


def _answer(function: Any, *args: Any) -> Any:
    try:
        result = function(*args)
        for leaf in tree_leaves(result):
            leaf.clone()  # what is pending is done
        return result
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
        return error


@pytest.mark.parametrize("name", sorted(OPS))
def test_an_elementwise_op_gives_what_a_loop_over_samples_gives(name: str) -> None:
    function, kinds = _C._ops[name], OPS[name]
    asked = 0
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        torch.manual_seed(0)
        args = [_operand(kind, each, dtype) for kind, each in kinds]
        batched = [isinstance(arg, torch.Tensor) for arg in args]
        rows = [
            _answer(function, *[a[i] if b else a for a, b in zip(args, batched)])
            for i in range(COUNT)
        ]
        if any(isinstance(row, Exception) for row in rows):
            continue
        asked += 1
        in_dims = tuple(0 if b else None for b in batched)
        found = torch.vmap(function, in_dims)(*args)
        wanted = [torch.stack(parts) for parts in zip(*map(tree_leaves, rows))]
        for value, expected in zip(tree_leaves(found), wanted):
            torch.testing.assert_close(value, expected, equal_nan=True)
        if sum(batched) > 1:  # only the first counts samples, and it has fewer dimensions
            first = batched.index(True)
            args[first] = args[first][:, 0, 0]
            in_dims = tuple(0 if i == first else None for i in range(len(args)))
            found = torch.vmap(function, in_dims)(*args)
            rows = [
                function(*[a[i] if k == first else a for k, a in enumerate(args)])
                for i in range(COUNT)
            ]
            torch.testing.assert_close(found, torch.stack(rows), equal_nan=True)
    assert asked > 0, name


def test_there_are_many_of_them() -> None:
    assert len(OPS) > 120
