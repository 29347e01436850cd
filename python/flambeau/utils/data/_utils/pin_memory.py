"""Moving batches to page-locked memory, from where they copy to a GPU faster."""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pin_memory(data: Any, device: Any = None) -> Any:
    """The batch with its tensors in page-locked memory."""
    if isinstance(data, flambeau.Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, dict):
        return type(data)({key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(item) for item in data))
    if isinstance(data, (list, tuple)):
        return type(data)(pin_memory(item) for item in data)
    return data
