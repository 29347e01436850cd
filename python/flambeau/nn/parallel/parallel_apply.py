"""Calling several modules, each with its own input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Calls each module with its input. Devices work at the same time: calls only enqueue."""
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    keywords = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    results = []
    for module, args, kwargs in zip(modules, inputs, keywords, strict=True):
        arguments = args if isinstance(args, (list, tuple)) else (args,)
        results.append(module(*arguments, **kwargs))
    return results
