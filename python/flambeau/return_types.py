"""The types of results that have names: `return_types.max` is what `torch.max(x, 1)` gives."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._namespace._statistics import _HistogramDD

_TYPES: dict[str, Any] = {**_C._result_types, "histogramdd": _HistogramDD}
all_return_types = [_TYPES[name] for name in sorted(_TYPES)]


def __getattr__(name: str) -> Any:
    found = _TYPES.get(name)
    if found is None:
        raise AttributeError(f"module 'flambeau.return_types' has no attribute '{name}'")
    return found


def __dir__() -> list[str]:
    return ["all_return_types", *sorted(_TYPES)]
