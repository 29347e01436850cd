"""PyTorch's compiler, of which there is nothing but what libraries tell it when they are imported.
Its other modules can be named; using what is in them raises NotImplementedError.
"""

from __future__ import annotations

import sys

from flambeau._absent import absent_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    full = f"{__name__}.{name}"
    return sys.modules.setdefault(full, absent_module(full))
