"""Modules of models that are made for quantization."""

from __future__ import annotations

from flambeau.ao.nn import quantized

__all__ = ["quantized"]
