"""Parts of the data loader, where programs of PyTorch look for them."""

from __future__ import annotations

from flambeau.utils.data._utils import collate, worker

__all__ = ["collate", "worker"]
