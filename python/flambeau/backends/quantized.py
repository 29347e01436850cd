"""Engines for quantized arithmetic: there is none."""

from __future__ import annotations

__all__ = ["engine", "supported_engines"]

engine = "none"
supported_engines = ["none"]
