"""When a profiler that was told to wait for the program collects."""

from __future__ import annotations

import contextlib

from flambeau import _C
from flambeau.cuda._libraries import check_error, cudart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_error", "cudart", "profile", "start", "stop"]


def start() -> None:
    """Lets a profiler begin to collect."""
    _C._cuda_profile(True)


def stop() -> None:
    """Lets a profiler stop collecting."""
    _C._cuda_profile(False)


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A context in which a profiler collects."""
    start()
    try:
        yield
    finally:
        stop()
