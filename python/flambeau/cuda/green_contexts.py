"""Contexts that have a part of a device's processors to themselves, which are not supported."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GreenContext"]


class GreenContext:
    """Some of a device's processors. Not supported."""

    @staticmethod
    def create(**_: Any) -> GreenContext:
        """Raises: devices are used as a whole."""
        raise NotImplementedError("GreenContext.create: green contexts are not supported")
