"""oneDNN, which computes convolutions and matrix products on the CPU."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from flambeau.backends._flags import Precision, changed, everything

__all__ = ["flags", "is_available"]

# Hints, as those of cuDNN are.
enabled = True
deterministic = False
allow_tf32 = True

# Hints too: the CPU has no TF32, and float32 stays float32.
_precision = Precision(everything)
conv, matmul, rnn = (Precision(_precision) for _ in range(3))


def is_available() -> bool:
    """True: the core is linked with it."""
    return True


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> AbstractContextManager[None]:
    """A context in which the settings are these."""
    return changed(
        sys.modules[__name__], enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32
    )
