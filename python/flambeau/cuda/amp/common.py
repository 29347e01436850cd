"""Whether mixed precision has a device to be used on."""

from __future__ import annotations

from flambeau.cuda._device import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not is_available()
