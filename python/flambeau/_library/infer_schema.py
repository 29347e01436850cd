"""The schema that a function's annotations say."""

from __future__ import annotations

from flambeau.library import infer_schema

__all__ = ["infer_schema"]
