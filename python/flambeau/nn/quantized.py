"""The older home of `flambeau.ao.nn.quantized`."""

from __future__ import annotations

from flambeau.ao.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]
