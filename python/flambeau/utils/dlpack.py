"""Tensors to and from other libraries through DLPack."""

from __future__ import annotations

from flambeau._C import _to_dlpack as to_dlpack
from flambeau._C import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
