"""Python's multiprocessing, whose queues and pipes carry tensors through shared memory."""

from __future__ import annotations

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403

from flambeau.multiprocessing.reductions import init_reductions
from flambeau.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
__all__ += [name for name in dir(_standard) if name[0] != "_" and name != "reducer"]

init_reductions()


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors travel: by files of shared memory."""
    return {"file_system", "file_descriptor"}


_strategy = "file_system"


def get_sharing_strategy() -> str:
    """The way in which tensors travel."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Chooses among PyTorch's two names for it; tensors travel by files in either case."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"unknown sharing strategy: {new_strategy}")
    _strategy = new_strategy
