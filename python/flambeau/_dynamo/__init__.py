"""What programs ask of PyTorch's compiler of Python functions. Flambeau has none and runs functions
as they stand, so its switches switch nothing, and nothing is ever being compiled.
"""

from __future__ import annotations

from flambeau._dynamo import config, eval_frame, utils
from flambeau._dynamo._explain import explain
from flambeau._dynamo.eval_frame import OptimizedModule
from flambeau.compiler import allow_in_graph, assume_constant_result, disable, reset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "eval_frame",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
    "run",
    "utils",
]


def is_compiling() -> bool:
    """False: this line is being run."""
    return False


def graph_break(msg: str = "") -> None:
    """Marks where a compiled function would be cut in two; functions are not compiled."""


def disallow_in_graph(fn: Any) -> Any:
    """The function."""
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """The function."""
    return fn


def mark_dynamic(t: Any, index: Any, *, min: Any = None, max: Any = None, **kwargs: Any) -> None:
    """Tells a compiler that a size changes between calls."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Tells a compiler that a size may change between calls."""


def mark_static(t: Any, index: Any = None) -> None:
    """Tells a compiler that a size does not change between calls."""


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Tells a compiler that a tensor stays where it is."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The compilers there are: none."""
    return []


def optimize(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator that gives back the function or module."""
    return lambda function: function


def run(fn: Any = None) -> Any:
    """The function."""
    return fn
