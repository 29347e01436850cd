"""Quantization of models, of which Flambeau has the marks and the arithmetic."""

from __future__ import annotations

from flambeau.ao import nn, quantization

__all__ = ["nn", "quantization"]
