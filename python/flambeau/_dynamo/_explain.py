"""`explain`: what a compiler would tell about a function. There is none, and nothing is cut up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass
class ExplainOutput:
    """What was compiled: no graph, and so none that had to be broken."""

    graphs: list[Any] = dataclasses.field(default_factory=list)
    graph_count: int = 0
    graph_break_count: int = 0
    break_reasons: list[Any] = dataclasses.field(default_factory=list)
    op_count: int = 0
    ops_per_graph: list[Any] | None = None
    out_guards: list[Any] | None = None
    compile_times: str | None = None

    def __str__(self) -> str:
        return (
            f"Graph Count: {self.graph_count}\nGraph Break Count: {self.graph_break_count}\n"
            f"Op Count: {self.op_count}\nBreak Reasons:\n"
        )


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that calls `f` and tells what was compiled of it, which is nothing; called with
    the arguments of `f` at once, what it tells.
    """

    def call(*args: Any, **kwargs: Any) -> ExplainOutput:
        f(*args, **kwargs)
        return ExplainOutput()

    return call(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else call
