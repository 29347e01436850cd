"""Whether new memory has known contents where only deterministic algorithms are wanted:
`torch.utils.deterministic.fill_uninitialized_memory`."""

from __future__ import annotations

import sys
import types

from flambeau import _C


class _Deterministic(types.ModuleType):
    """This module, of which one attribute is kept by the core."""

    _fills = True

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Fill what would be left as it was with NaN, or with the largest integer."""
        return self._fills

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"fill_uninitialized_memory must be a bool, not {type(mode).__name__}")
        type(self)._fills = mode
        _C._set_math_mode("fills_uninitialized", mode)


sys.modules[__name__].__class__ = _Deterministic
