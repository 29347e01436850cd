"""Noticing that worker processes died, for iterators that programs write themselves."""

from __future__ import annotations

import os
import signal
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_workers: dict[int, tuple[int, ...]] = {}
_SIGCHLD_handler_set = False


def _set_worker_signal_handlers() -> None:
    """Lets a worker end as any process does: its end is noticed by who waits for it."""


def _set_worker_pids(loader_id: int, pids: Any) -> None:
    """Remembers the workers of a loader."""
    _workers[loader_id] = tuple(pids)


def _remove_worker_pids(loader_id: int) -> None:
    """Forgets the workers of a loader, whose end is no failure from here on."""
    del _workers[loader_id]


def _error_if_any_worker_fails() -> None:
    """Raises RuntimeError when a worker that is remembered was killed, or failed."""
    asked = os.WEXITED | os.WNOHANG | os.WNOWAIT
    for pids in _workers.values():
        for pid in pids:
            try:
                ended = os.waitid(os.P_PID, pid, asked)
            except ChildProcessError:
                continue
            if ended is None or (ended.si_code == os.CLD_EXITED and ended.si_status == 0):
                continue
            killed = ended.si_code != os.CLD_EXITED
            how = "is killed by signal" if killed else "exited unexpectedly with exit code"
            which = signal.strsignal(ended.si_status) if killed else ended.si_status
            raise RuntimeError(f"DataLoader worker (pid {pid}) {how}: {which}.")


def _set_SIGCHLD_handler() -> None:
    """Raises in the main thread as soon as a worker fails."""
    global _SIGCHLD_handler_set
    if _SIGCHLD_handler_set or threading.current_thread() is not threading.main_thread():
        return
    before: Any = signal.getsignal(signal.SIGCHLD)

    def handler(number: int, frame: Any) -> None:
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handler)
    _SIGCHLD_handler_set = True
