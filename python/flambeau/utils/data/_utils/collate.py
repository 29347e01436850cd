"""Collating samples to batches."""

from __future__ import annotations

from flambeau.utils.data.collate import default_collate, default_convert

__all__ = ["default_collate", "default_convert"]
