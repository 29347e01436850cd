"""Functions of PyTorch's core about modules, as `torch._C._nn`."""

from __future__ import annotations

import flambeau
from flambeau._operators._kinds import kind_named
from flambeau._utils import _flatten_dense_tensors as flatten_dense_tensors
from flambeau._utils import _unflatten_dense_tensors as unflatten_dense_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["flatten_dense_tensors", "unflatten_dense_tensors"]


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """(device, dtype, non_blocking, memory_format) for the arguments of `to`."""
    from flambeau.nn.modules._convert import parse_to

    return parse_to(args, kwargs)


def __getattr__(name: str) -> Any:
    """The function of nn.functional of that name, or else the operator of `aten`."""
    wanted = "logsigmoid" if name == "log_sigmoid" else name
    if not wanted.startswith("_") and hasattr(flambeau.nn.functional, wanted):
        return getattr(flambeau.nn.functional, wanted)
    if kind_named(name).has("op") or "upsample" in name:
        return getattr(flambeau.ops.aten, name)
    raise AttributeError(f"module 'torch._C._nn' has no attribute '{name}'")
