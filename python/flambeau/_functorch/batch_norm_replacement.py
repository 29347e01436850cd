"""Batch normalization inside transforms, as `torch.func` has it."""

from __future__ import annotations

from flambeau.func import replace_all_batch_norm_modules_

__all__ = ["replace_all_batch_norm_modules_"]
