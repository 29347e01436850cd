"""Sobol sequences: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from flambeau.quasirandom._engine import SobolEngine

__all__ = ["SobolEngine"]
