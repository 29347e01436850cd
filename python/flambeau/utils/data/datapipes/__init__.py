"""Data pipes: steps that each read from another, written one after the other as methods."""

from __future__ import annotations

from flambeau.utils.data.datapipes import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]
