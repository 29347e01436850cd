"""Functions that are called when graphs are captured, made executable and replayed."""

from __future__ import annotations

import collections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Hook = Callable[[Any], None]

__all__ = [
    "GraphHooks",
    "export_dot",
    "register_graph_capture_end_hook",
    "register_graph_capture_start_hook",
    "register_graph_instantiate_hook",
    "register_graph_replay_end_hook",
    "register_graph_replay_start_hook",
]


_everybodys: dict[str, dict[int, Hook]] = {}


class GraphHooks:
    """One graph's functions, by the moment at which they are called; all graphs' come first."""

    def __init__(self, own: dict[str, dict[int, Hook]] | None = None) -> None:
        self._own: dict[str, dict[int, Hook]] = {} if own is None else own

    def add(self, moment: str, function: Hook) -> Any:
        """Adds a function; the handle takes it off again."""
        from flambeau.utils.hooks import RemovableHandle

        if not callable(function):
            raise TypeError(f"expected a function of a graph, got {type(function).__name__}")
        functions = self._own.setdefault(moment, collections.OrderedDict())
        handle = RemovableHandle(functions)
        functions[handle.id] = function
        return handle

    def any(self, *moments: str) -> bool:
        """Whether anybody wants to be called at one of these moments."""
        return any(self._own.get(moment) or _everybodys.get(moment) for moment in moments)

    def run(self, moment: str, graph: Any) -> None:
        """Calls who wants to be called."""
        if not self._own and not _everybodys:
            return
        for functions in (_everybodys.get(moment), self._own.get(moment)):
            for function in list((functions or {}).values()):
                function(graph)


def register_graph_capture_start_hook(fn: Hook) -> Any:
    """Calls a function with each graph when its capture begins."""
    return GraphHooks(_everybodys).add("capture_start", fn)


def register_graph_capture_end_hook(fn: Hook) -> Any:
    """Calls a function with each graph when its capture has ended."""
    return GraphHooks(_everybodys).add("capture_end", fn)


def register_graph_instantiate_hook(fn: Hook) -> Any:
    """Calls a function with each graph when it has been made executable."""
    return GraphHooks(_everybodys).add("instantiate", fn)


def register_graph_replay_start_hook(fn: Hook) -> Any:
    """Calls a function with each graph before each replay."""
    return GraphHooks(_everybodys).add("replay_start", fn)


def register_graph_replay_end_hook(fn: Hook) -> Any:
    """Calls a function with each graph after each replay has been asked for."""
    return GraphHooks(_everybodys).add("replay_end", fn)


def export_dot(path: str, *, verbose: bool = True) -> Hook:
    """A hook for the end of a capture that writes the graph to a file in Graphviz' language."""

    def write(graph: Any) -> None:
        graph.debug_dump(path)

    return write
