"""Names for use in type annotations, as PyTorch has them."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any

from flambeau import Size, Tensor, device, dtype, layout
from flambeau._C import Generator

__all__ = ["Device", "FileLike", "Number", "Storage"]

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_complex = builtins.complex
_dtype = dtype
_device = device
_layout = layout
_size = Size | list[int] | tuple[int, ...]
_symsize = Size | Sequence[int]
_dispatchkey = str | int

# A number in Python, and what may be given where a device is asked for.
Number = int | float | bool
_Number = (int, float, bool)
Device = device | str | int | None
FileLike = str | os.PathLike[str] | IO[bytes]
Storage = Any

_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge = Tensor | Sequence[Tensor] | Any
_Generator = Generator
