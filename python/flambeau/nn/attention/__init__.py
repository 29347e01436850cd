"""Choosing among implementations of scaled_dot_product_attention, and biases for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from flambeau import _C

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


# Those allowed at the moment. They give the same numbers, but for what dropout drops.
_allowed = {
    SDPBackend.FLASH_ATTENTION: True,
    SDPBackend.EFFICIENT_ATTENTION: True,
    SDPBackend.MATH: True,
    SDPBackend.CUDNN_ATTENTION: True,
}


def _allow(backends: dict[SDPBackend, bool]) -> None:
    _allowed.update(backends)
    others = any(allowed for backend, allowed in _allowed.items() if backend != SDPBackend.MATH)
    _C._set_math_mode("attention_formula", not others)


def _cur_sdpa_kernel_backends() -> list[SDPBackend]:
    return [backend for backend, allowed in _allowed.items() if allowed]


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Allows only the given implementations within this block."""
    if not isinstance(backends, (list, tuple, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
        )
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    before = dict(_allowed)
    _allow({backend: backend in chosen for backend in _allowed})
    try:
        yield
    finally:
        _allow(before)
