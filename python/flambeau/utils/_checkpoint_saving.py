"""What a selective checkpoint and the checkpoint around it tell each other about the tensors that
operators save for backward.
"""

from __future__ import annotations

import contextlib
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from flambeau import Tensor


class Saving(threading.local):
    """The channel of one thread."""

    noted: list[Tensor] | None = None  # what the operator that runs saves, in the first run
    record: Callable[[Tensor], Any] | None = None  # takes what an operator saves, in a later run


saving = Saving()


@contextlib.contextmanager
def noting_saved() -> Iterator[list[Tensor]]:
    """The tensors that are saved inside it, in the first run of a checkpoint."""
    before, saving.noted = saving.noted, []
    try:
        yield saving.noted
    finally:
        saving.noted = before


def record_saved(tensor: Tensor) -> None:
    """Takes a tensor as the next one that is saved, in a later run of a checkpoint."""
    if saving.record is not None:
        saving.record(tensor)


class unsuppressed:
    """A context that cannot hold back exceptions, made of one that may."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __enter__(self) -> Any:
        return self.context.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self.context.__exit__(*exception)
