"""Flambeau: eager tensors with automatic differentiation, in PyTorch's words.

`import flambeau as torch` runs programs written for PyTorch.
"""

from __future__ import annotations

import builtins as _builtins

from flambeau import _C
from flambeau._C import *  # noqa: F403
from flambeau._C import Generator, OutOfMemoryError, Size, Tensor, default_generator, device

# Names that Python keeps for itself, and so `import *` of plain names is spelt out here.
_public = {
    name: value for name, value in vars(_C).items() if not name.startswith("_") and name != "TensorBase"
}
globals().update(_public)
