"""What rounding can do to a program is told by runs whose last bits are shaken."""

from __future__ import annotations

from typing import Any

import worker
from compare import Comparison

import flambeau

LEAF = "x = torch.tensor([1.1, -1.1, 0.3, 2.5, 3.0], requires_grad=True)"


def values(statements: list[str], shaken: int) -> Any:
    variables = worker.run(flambeau, statements, shaken)["variables"]
    return {name: described["values"] for name, described in variables.items()}


def test_last_bits_move_and_ties_and_exact_numbers_stay() -> None:
    statements = [LEAF, "y = x * 3", "z = y.clone()", "w = y.expand(2, 5)", "u = x + x + x"]
    plain, first, second = (values(statements, k) for k in range(3))
    assert first == values(statements, 1) != second
    for moved in (first, second):
        assert moved["x"][0] == -moved["x"][1] != plain["x"][0]
        assert abs(moved["x"][0] - plain["x"][0]) < 1e-5
        assert moved["x"][3:] == [2.5, 3.0] and moved["y"][3:] == [7.5, 9.0]
        assert moved["z"] == moved["y"] != plain["y"] and moved["w"] == moved["y"] * 2


def test_what_shaking_moves_may_differ_that_far(comparison: Comparison) -> None:
    angles = [LEAF, "y = (x * 1e9).sin()", "y.sum().backward()"]
    theirs = comparison.theirs.run(angles)
    runs = [comparison.theirs.run(angles, k)["variables"] for k in (1, 2)]
    ours = {"errors": [], "variables": {**theirs["variables"], "y": runs[1]["y"]}}
    assert [*comparison._variables(ours, theirs)] and not [
        *comparison._variables(ours, theirs, runs)
    ]
    exact = {**runs[1]["y"], "values": [9.0] + theirs["variables"]["y"]["values"][1:]}
    ours["variables"]["y"] = {**exact, "shape": [5, 1]}
    assert [*comparison._variables(ours, theirs, runs)]  # another shape is another matter


def test_a_tie_is_no_matter_of_rounding(comparison: Comparison) -> None:
    tie = [LEAF, "y = torch.maximum(x * 3, (x * 3).clone())", "y.sum().backward()"]
    theirs = comparison.theirs.run(tie)
    runs = [comparison.theirs.run(tie, k)["variables"] for k in (1, 2, 3, 4)]
    x = theirs["variables"]["x"]
    wrong = {**x, "grad": {**x["grad"], "values": [0.0] * 5}}
    ours = {"errors": [], "variables": {**theirs["variables"], "x": wrong}}
    assert [*comparison._variables(ours, theirs, runs)]
