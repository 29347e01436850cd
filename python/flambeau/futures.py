"""Values that are computed elsewhere and arrive later, and what to do when they do."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value or an exception that is set once, from any thread.

    Args:
        devices: accepted for compatibility: a value on a CUDA device is waited for by its stream.
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def __class_getitem__(cls, item: Any) -> type[Future]:
        return cls

    def done(self) -> bool:
        """Whether the value or the exception has arrived."""
        return self._done

    def wait(self) -> Any:
        """Waits until it has arrived; gives the value, or raises the exception."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> Any:
        """The value, or raises the exception; it must have arrived."""
        if not self._done:
            raise RuntimeError("value: the Future is not complete; call wait() first")
        if self._error is not None:
            raise self._error
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A Future of what callback(this) returns, which is called once this has arrived."""
        after = Future()

        def run(done: Future) -> None:
            try:
                after.set_result(callback(done))
            except Exception as error:
                after.set_exception(error)

        self.add_done_callback(run)
        return after

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls callback(this) once this has arrived, at once if it has."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: Any) -> None:
        """Makes the value arrive."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Makes an exception arrive in place of a value."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError("set_result: the Future is complete already")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)


def collect_all(futures: list[Future]) -> Future:
    """A Future of the list of Futures, which arrives when the last of them has."""
    together = Future()
    left = len(futures)
    lock = threading.Lock()
    if left == 0:
        together.set_result([])

    def one_more(done: Future) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if last:
            together.set_result(futures)

    for future in futures:
        future.add_done_callback(one_more)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """Waits for all Futures; gives their values, or raises the first exception."""
    return [future.wait() for future in collect_all(futures).wait()]
