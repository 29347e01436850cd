"""The worker processes of a DataLoader: each fetches the batches it is asked for."""

from __future__ import annotations

import os
import queue
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import flambeau
from flambeau._utils import ExceptionWrapper
from flambeau.utils.data._utils import MP_STATUS_CHECK_INTERVAL


class WorkerInfo:
    """What a worker knows about itself: id, num_workers, seed and dataset."""

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any) -> None:
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"WorkerInfo({shown})"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """What a worker process knows about itself; None in the main process."""
    return _worker_info


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """What a worker answers when its copy of an iterable dataset has no more."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """What the workers of a program's own iterator are told when another pass begins."""

    seed: int | None = None


class ManagerWatchdog:
    """Whether the process that started this one is still there."""

    def __init__(self) -> None:
        self.manager_pid = os.getppid()

    def is_alive(self) -> bool:
        """False as soon as another process has taken this one over."""
        return os.getppid() == self.manager_pid


def _take_shard(dataset: Any, num_workers: int, worker_id: int) -> None:
    """Tells a data pipe that filters for a shard which one this worker has."""
    if "flambeau.utils.data.datapipes.datapipe" not in sys.modules:
        return
    from flambeau.utils.data.datapipes.datapipe import IterDataPipe
    from flambeau.utils.data.graph_settings import apply_sharding

    if isinstance(dataset, IterDataPipe):
        apply_sharding(dataset, num_workers, worker_id)


_WORD = 0xFFFFFFFF


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers to seed NumPy with: those of its `SeedSequence` for both numbers, computed as
    Melissa O'Neill's seed_seq_fe does, so that NumPy itself need not be there.
    """
    multiplier = 0x43B0D7E5

    def mixed(value: int) -> int:
        nonlocal multiplier
        value ^= multiplier
        multiplier = multiplier * 0x931E8875 & _WORD
        value = value * multiplier & _WORD
        return value ^ value >> 16

    pool = [mixed(part) for part in (worker_id, base_seed & _WORD, base_seed >> 32 & _WORD, 0)]
    for source in range(4):
        for target in range(4):
            if source != target:
                value = 0xCA01F9DD * pool[target] - 0x4973F715 * mixed(pool[source]) & _WORD
                pool[target] = value ^ value >> 16
    multiplier, state = 0x8B51F9DD, []
    for value in pool:
        value ^= multiplier
        multiplier = multiplier * 0x58F38DED & _WORD
        value = value * multiplier & _WORD
        state.append(value ^ value >> 16)
    return state


def _seed_everything(base_seed: int, worker_id: int) -> None:
    seed = base_seed + worker_id
    random.seed(seed)
    flambeau.manual_seed(seed)
    if "numpy" in sys.modules:
        import numpy

        numpy.random.seed(_generate_state(base_seed, worker_id))


def run_worker(
    make_fetcher: tuple[Any, ...],
    index_queue: Any,
    result_queue: Any,
    base_seed: int,
    worker_id: int,
    num_workers: int,
    init_function: Callable[[int], Any] | None,
) -> None:
    """Answers requests until it gets None, or until the main process is gone.

    A request is (epoch, number, what is wanted), its answer (epoch, number, batch).
    """
    from flambeau.utils.data._iterate import _DatasetKind

    global _worker_info
    flambeau.set_num_threads(1)
    _seed_everything(base_seed, worker_id)
    _worker_info = WorkerInfo(worker_id, num_workers, base_seed + worker_id, make_fetcher[1])
    watchdog = ManagerWatchdog()
    fetcher, current, failure = None, None, None
    try:
        _take_shard(make_fetcher[1], num_workers, worker_id)
        if init_function is not None:
            init_function(worker_id)
    except Exception:
        failure = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
    while True:
        try:
            request = index_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            if not watchdog.is_alive():
                return
            continue
        if request is None:
            return
        epoch, number, wanted = request
        answer: Any = failure
        if failure is None:
            try:
                if epoch != current:
                    fetcher, current = _DatasetKind.create_fetcher(*make_fetcher), epoch
                assert fetcher is not None
                answer = fetcher.fetch(wanted)
            except StopIteration:
                answer = _IterableDatasetStopIteration(worker_id)
            except Exception:
                answer = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
        result_queue.put(_packed(epoch, number, answer, worker_id))
        del answer


def _packed(epoch: int, number: int, answer: Any, worker_id: int) -> bytes:
    """An answer as bytes: pickled here, where what cannot be pickled is noticed, and not in the
    thread behind the queue, where it would vanish.
    """
    try:
        return bytes(ForkingPickler.dumps((epoch, number, answer)))
    except Exception:
        error = ExceptionWrapper(where=f"in DataLoader worker process {worker_id}")
        return bytes(ForkingPickler.dumps((epoch, number, error)))
