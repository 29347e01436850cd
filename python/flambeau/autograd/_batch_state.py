"""Whether this thread computes all samples of a vmap at once, and the refusal of what cannot be
computed so; vmap then runs the samples one by one.
"""

from __future__ import annotations

import threading


class Unbatchable(BaseException):
    """The function cannot be computed for all samples at once.

    No Exception, so that a program's own handlers do not take it for an error of theirs.
    """


class BatchState(threading.local):
    """The number of samples, None outside of a batch, and what vmap says of random numbers; samples
    that draw their own are not computed at once.
    """

    size: int | None = None
    randomness: str = "error"


batch_state = BatchState()


def refuse_in_batch(what: str) -> None:
    """Raises inside of a batch."""
    if batch_state.size is not None:
        raise Unbatchable(what)
