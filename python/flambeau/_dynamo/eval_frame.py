"""The class of compiled modules, of which there are none: `isinstance` says no."""

from __future__ import annotations

from flambeau.nn import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """What PyTorch wraps a compiled module into. Flambeau hands back the module itself."""

    _orig_mod: Module
