"""Checks of operators that programs register, where extensions' tests import them from."""

from __future__ import annotations

from flambeau.library import opcheck

__all__ = ["opcheck"]
