"""Quantization, of which Flambeau has the parts that mean something without quantized tensors."""

from __future__ import annotations

from flambeau.ao import nn, quantization

__all__ = ["nn", "quantization"]
