"""The levels of transforms that run, and how to leave them for a while."""

from __future__ import annotations

import contextlib

from flambeau import _C
from flambeau.func._core import (
    CInterpreter,
    CVmapInterpreterPtr,
    RandomnessType,
    TransformType,
    get_interpreter_stack,
    peek_interpreter_stack,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "RandomnessType",
    "TransformType",
    "VmapInterpreter",
    "retrieve_all_functorch_interpreters",
    "retrieve_current_functorch_interpreter",
    "temporarily_clear_interpreter_stack",
    "temporarily_pop_interpreter_stack",
]


class FuncTorchInterpreter:
    """A level that runs."""

    def __init__(self, interpreter: CInterpreter) -> None:
        self._cptr = CVmapInterpreterPtr(interpreter)

    def level(self) -> int:
        return self._cptr.level()

    def key(self) -> TransformType:
        return self._cptr.key()

    def lower(self) -> contextlib.AbstractContextManager[None]:
        """Runs what is inside at the level around this one."""
        return temporarily_pop_interpreter_stack()


class VmapInterpreter(FuncTorchInterpreter):
    """A level of vmap."""

    def batch_size(self) -> int:
        return self._cptr.batchSize()

    def randomness(self) -> str:
        return self._cptr.randomness().name.lower()


def retrieve_current_functorch_interpreter() -> VmapInterpreter:
    """The innermost level."""
    interpreter = peek_interpreter_stack()
    if interpreter is None:
        raise RuntimeError("retrieve_current_functorch_interpreter: no transform runs")
    return VmapInterpreter(interpreter)


def retrieve_all_functorch_interpreters() -> list[VmapInterpreter]:
    """All levels, from the outermost on."""
    return [VmapInterpreter(interpreter) for interpreter in get_interpreter_stack() or ()]


@contextlib.contextmanager
def _at_level(level: int) -> Iterator[None]:
    before = _C._vmap_set_level(level)
    try:
        yield
    finally:
        _C._vmap_set_level(before)


def temporarily_pop_interpreter_stack() -> contextlib.AbstractContextManager[None]:
    """Runs what is inside at the level around the innermost one."""
    return _at_level(_C._vmap_outer_level(retrieve_current_functorch_interpreter().level()))


def temporarily_clear_interpreter_stack() -> contextlib.AbstractContextManager[None]:
    """Runs what is inside outside of all levels."""
    return _at_level(0)
