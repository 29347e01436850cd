"""The pipes that a data pipe reads from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["pipes_of", "traverse_dps"]


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        yield value
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from _inside(item)
    elif isinstance(value, dict):
        yield from _inside(list(value.values()))


def pipes_of(pipe: Any) -> list[Any]:
    """A pipe and all that it reads from, each once."""
    found: dict[int, Any] = {}
    waiting = [pipe]
    while waiting:
        one = waiting.pop()
        if id(one) not in found:
            found[id(one)] = one
            waiting += list(_inside(one.__dict__))
    return list(found.values())


def traverse_dps(datapipe: Any) -> dict[int, tuple[Any, Any]]:
    """The graph of a pipe: its id, with the pipe and the graphs of those it reads from."""
    below: dict[int, tuple[Any, Any]] = {}
    for one in _inside(datapipe.__dict__):
        below.update(traverse_dps(one))
    return {id(datapipe): (datapipe, below)}
