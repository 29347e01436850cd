"""Choosing among implementations of scaled_dot_product_attention, and biases for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

__all__ = ["WARN_FOR_UNFUSED_KERNELS", "SDPBackend", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """Implementations of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __repr__(self) -> str:
        return f"<SDPBackend.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return f"SDPBackend.{self.name}"


# Those allowed at the moment. All of them give the same numbers, so attention may take any that
# the device has; the choice is kept for programs that ask.
_allowed = [
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
]


def _cur_sdpa_kernel_backends() -> list[SDPBackend]:
    return list(_allowed)


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Allows only the given implementations within this block."""
    if not isinstance(backends, (list, tuple, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    before = list(_allowed)
    _allowed[:] = chosen
    try:
        yield
    finally:
        _allowed[:] = before
