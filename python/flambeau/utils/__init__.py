"""Utilities around tensors and modules; each is a module of its own, loaded when it is asked
for.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Where find_package(Flambeau) and find_package(Torch) look.
cmake_prefix_path = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "share", "cmake"
)


def set_module(obj: Any, mod: str) -> None:
    """Says in which module an object is to be found, for nicer printing."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name: str) -> Any:
    import importlib

    if name == "swap_tensors":
        from flambeau.utils._swap import swap_tensors

        return swap_tensors
    if not name.startswith("__"):
        full = f"{__name__}.{name}"
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
