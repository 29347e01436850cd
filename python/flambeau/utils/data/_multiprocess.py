"""Passes over a DataLoader with worker processes: batches are asked for ahead, and handed out in
order.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pickle
import queue
import time
from typing import Any

from flambeau import multiprocessing
from flambeau._utils import ExceptionWrapper
from flambeau.multiprocessing import reductions
from flambeau.utils.data._iterate import _BaseDataLoaderIter
from flambeau.utils.data._utils import MP_STATUS_CHECK_INTERVAL
from flambeau.utils.data._utils.pin_memory import pin_memory
from flambeau.utils.data._utils.worker import _IterableDatasetStopIteration, run_worker


class WorkerPool:
    """The worker processes of one DataLoader."""

    def __init__(self, loader: Any, base_seed: int, make_fetcher: tuple[Any, ...]) -> None:
        context: Any = loader.multiprocessing_context or multiprocessing.get_context()
        self.results = context.Queue()
        self.requests = [context.Queue() for _ in range(loader.num_workers)]
        self.processes = []
        for index, requests in enumerate(self.requests):
            process = context.Process(
                target=run_worker,
                args=(
                    make_fetcher,
                    requests,
                    self.results,
                    base_seed,
                    index,
                    loader.num_workers,
                    loader.worker_init_fn,
                ),
                daemon=True,
            )
            process.start()
            self.processes.append(process)
        self.owner = os.getpid()
        self.open = True

    def answer(self, timeout: float) -> Any:
        """The next answer of any worker; raises RuntimeError when none comes in time, or when a
        worker has died.
        """
        deadline = time.monotonic() + timeout if timeout > 0 else None
        while True:
            left = MP_STATUS_CHECK_INTERVAL
            if deadline is not None:
                left = min(left, max(0.0, deadline - time.monotonic()))
            try:
                return pickle.loads(self.results.get(timeout=left))
            except queue.Empty:
                dead = [str(p.pid) for p in self.processes if not p.is_alive()]
                if dead:
                    self.close()
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {', '.join(dead)}) exited unexpectedly"
                    ) from None
                if deadline is not None and time.monotonic() >= deadline:
                    raise RuntimeError(f"DataLoader timed out after {timeout} seconds") from None

    def close(self) -> None:
        """Ends the workers, and removes what they sent that nobody took."""
        if not self.open or os.getpid() != self.owner:
            return
        self.open = False
        for requests in self.requests:
            requests.put(None)
        deadline = time.monotonic() + MP_STATUS_CHECK_INTERVAL
        while any(p.is_alive() for p in self.processes) and time.monotonic() < deadline:
            # A worker cannot end while its answers wait in a full pipe.
            with contextlib.suppress(queue.Empty, OSError, EOFError):
                self.results.get(timeout=0.01)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
            for path in glob.glob(f"{reductions._FOLDER}/flambeau_{process.pid}_*"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        for channel in (self.results, *self.requests):
            channel.cancel_join_thread()
            channel.close()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """One pass over a DataLoader with workers."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._prefetch_factor, self._in_order = loader.prefetch_factor, loader.in_order
        self._pool = WorkerPool(loader, self._base_seed, self._make_fetcher)
        self._epoch = -1
        self._reset(loader, first_iter=True)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._epoch += 1
        self._sent = self._received = 0
        # By number: the worker that was asked, and its answer once it is here.
        self._waiting: dict[int, tuple[Any, ...]] = {}
        self._active = [True] * self._num_workers
        self._next_worker = 0
        for _ in range(self._prefetch_factor * self._num_workers):
            self._ask()

    def _ask(self) -> None:
        """Asks the next worker that has samples for the next batch."""
        if not any(self._active):
            return
        try:
            wanted = self._next_index()
        except StopIteration:
            return
        while not self._active[self._next_worker]:
            self._next_worker = (self._next_worker + 1) % len(self._active)
        worker = self._next_worker
        self._next_worker = (worker + 1) % len(self._active)
        self._pool.requests[worker].put((self._epoch, self._sent, wanted))
        self._waiting[self._sent] = (worker,)
        self._sent += 1

    def _take(self, number: int) -> Any:
        """The answer to a request that is there."""
        worker, answer = self._waiting.pop(number)
        if isinstance(answer, _IterableDatasetStopIteration):
            self._active[worker] = False
        self._ask()
        return answer

    def _available(self) -> int | None:
        """The number of an answer that can be handed out: the next one, or any."""
        if self._in_order:
            while self._received < self._sent and self._received not in self._waiting:
                self._received += 1
            entry = self._waiting.get(self._received)
            return self._received if entry is not None and len(entry) == 2 else None
        return next((n for n, entry in self._waiting.items() if len(entry) == 2), None)

    def _next_data(self) -> Any:
        while True:
            number = self._available()
            if number is None:
                if not self._waiting:
                    self._finish()
                    raise StopIteration
                epoch, number, answer = self._pool.answer(self._timeout)
                if epoch == self._epoch:
                    self._waiting[number] = (*self._waiting[number][:1], answer)
                continue
            answer = self._take(number)
            if isinstance(answer, _IterableDatasetStopIteration):
                continue
            if isinstance(answer, ExceptionWrapper):
                answer.reraise()
            return pin_memory(answer) if self._pin_memory else answer

    @property
    def _workers(self) -> list[Any]:
        return self._pool.processes

    def _shutdown_workers(self) -> None:
        self._pool.close()

    def _finish(self) -> None:
        if not self._persistent_workers:
            self._pool.close()

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.close()
