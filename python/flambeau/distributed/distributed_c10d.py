"""The names of `flambeau.distributed` where PyTorch defines them, and older ones for the same."""

from __future__ import annotations

from flambeau.distributed import *  # noqa: F403
from flambeau.distributed import get_global_rank as _get_global_rank
from flambeau.distributed._group import _group_or_default as _get_default_group

__all__ = ["_get_default_group", "_get_global_rank"]
