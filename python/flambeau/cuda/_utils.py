"""What libraries take from here under PyTorch's name."""

from __future__ import annotations

from flambeau._utils import _get_device_index

__all__ = ["_get_device_index"]
