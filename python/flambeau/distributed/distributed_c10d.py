"""The names of `flambeau.distributed` where PyTorch defines them."""

from __future__ import annotations

from flambeau.distributed import *  # noqa: F403
from flambeau.distributed._group import _group_or_default as _get_default_group

__all__ = ["_get_default_group"]
