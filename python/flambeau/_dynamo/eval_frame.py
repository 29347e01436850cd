"""Whether programs are compiled, and the class of compiled modules, of which there are none:
`isinstance` says no.
"""

from __future__ import annotations

from flambeau.nn import Module

__all__ = ["OptimizedModule", "is_dynamo_supported"]


class OptimizedModule(Module):
    """What PyTorch wraps a compiled module into. Flambeau hands back the module itself."""

    _orig_mod: Module


def is_dynamo_supported() -> bool:
    """False: there is no compiler, on no machine."""
    return False
