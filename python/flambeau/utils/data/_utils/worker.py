"""What a worker process knows about itself."""

from __future__ import annotations

from flambeau.utils.data._worker import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]
