"""Values that are computed elsewhere and arrive later, and what to do when they do."""

from __future__ import annotations

import sys
import threading
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


def _failed(error: BaseException) -> str:
    """What a callback's exception is reported as, with the lines it came through."""
    frames = "".join(f"\n  {f.filename}({f.lineno}): {f.name}" for f in _frames(error))
    said = "".join(traceback.format_exception_only(error)).rstrip()
    return f"Got the following error when running the callback: {said}\n\nAt:{frames}\n"


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames an exception came through in the callback, innermost first."""
    return [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__][::-1]


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
        """A Future of what callback(this) returns, which is called once this has arrived.

        Should callback raise, the Future holds a RuntimeError that says what and where.
        """
        after = Future()

        def run(done: Future) -> None:
            try:
                result = callback(done)
            except Exception as error:
                wrapped = RuntimeError(_failed(error))
                wrapped.__cause__ = error
                after.set_exception(wrapped)
            else:
                after.set_result(result)

        self.add_done_callback(run)
        return after

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls callback(this) once this has arrived, at once if it has.

        Nobody waits for it: what it raises is printed and goes no further.
        """
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _call(self, callback: Callable[[Future], Any]) -> None:
        try:
            callback(self)
        except Exception as error:
            print(_failed(error), file=sys.stderr)

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")

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
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            self._call(callback)


def collect_all(futures: list[Future]) -> Future:
    """A Future of the list of Futures, which arrives when the last of them has.

    Should one hold an exception, so does this one.
    """
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
            failed = next((one for one in futures if one._error is not None), None)
            together._complete(futures, None if failed is None else failed._error)

    for future in futures:
        future.add_done_callback(one_more)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """Waits for all Futures; gives their values, or raises the first exception."""
    return [future.wait() for future in collect_all(futures).wait()]
