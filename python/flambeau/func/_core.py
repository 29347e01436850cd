"""What PyTorch's core tells of the transforms of functions that run, as `torch._C._functorch`.

vmap alone has levels: inputs of gradient transforms are ordinary tensors with a graph.
"""

from __future__ import annotations

import enum

from flambeau import _C
from flambeau._C import _vmap_increment_nesting, is_batchedtensor, maybe_get_level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = [
    "CInterpreter",
    "CVmapInterpreterPtr",
    "RandomnessType",
    "TransformType",
    "_add_batch_dim",
    "_remove_batch_dim",
    "_unwrap_batched",
    "_vmap_decrement_nesting",
    "_vmap_increment_nesting",
    "current_level",
    "get_interpreter_stack",
    "get_unwrapped",
    "is_batchedtensor",
    "is_functorch_wrapped_tensor",
    "maybe_current_level",
    "maybe_get_bdim",
    "maybe_get_level",
    "peek_interpreter_stack",
]


is_functorch_wrapped_tensor = is_batchedtensor


def is_legacy_batchedtensor(tensor: Any) -> bool:
    """False: there is no older kind of batched tensors."""
    return False


is_gradtrackingtensor = is_functionaltensor = is_dead_tensor_wrapper = is_legacy_batchedtensor


def get_unwrapped(tensor: Any) -> Any:
    """The tensor of all samples behind that of one."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present!")
    return _C.get_unwrapped(tensor)


def unwrap_if_dead(tensor: Any) -> Any:
    """The tensor: samples of a level that is left raise where they are used."""
    return tensor


def maybe_get_bdim(tensor: Any) -> int:
    """The dimension that counts samples in the tensor behind, or -1."""
    return 0 if maybe_get_level(tensor) > 0 else -1


# --- Levels ---------------------------------------------------------------------------------------


class TransformType(enum.Enum):
    """Which transform a level is of."""

    Torch = 0
    Vmap = 1
    Grad = 2
    Jvp = 3
    Functionalize = 4


class RandomnessType(enum.Enum):
    """What vmap makes of random numbers."""

    Error = 0
    Same = 1
    Different = 2


class CInterpreter:
    """A level that runs."""

    def __init__(self, level: int) -> None:
        self._level = level

    def key(self) -> TransformType:
        return TransformType.Vmap

    def level(self) -> int:
        return self._level


class CVmapInterpreterPtr(CInterpreter):
    """A level of vmap, with what is known of it."""

    def __init__(self, interpreter: CInterpreter) -> None:
        super().__init__(interpreter.level())

    def batchSize(self) -> int:
        return _C._vmap_describe_level(self._level)[0]

    def randomness(self) -> RandomnessType:
        return RandomnessType[_C._vmap_describe_level(self._level)[1].capitalize()]


def maybe_current_level() -> int | None:
    """How many calls of vmap this one runs within; None outside of all."""
    return _C._vmap_level() or None


def current_level() -> int:
    """The number of the innermost level, of which there must be one."""
    level = _C._vmap_level()
    if not level:
        raise RuntimeError("current_level(): no transform of functions runs")
    return level


def peek_interpreter_stack() -> CInterpreter | None:
    """The innermost level; None outside of all."""
    return CInterpreter(_C._vmap_level()) if _C._vmap_level() else None


def get_interpreter_stack() -> list[CInterpreter] | None:
    """The levels from the outermost on; None outside of all."""
    levels = []
    level = _C._vmap_level()
    while level:
        levels.append(CInterpreter(level))
        level = _C._vmap_outer_level(level)
    return levels[::-1] or None


def _vmap_decrement_nesting() -> int:
    """Leaves the innermost level; gives its number."""
    level = current_level()
    _C._vmap_decrement_nesting()
    return level


def _add_batch_dim(tensor: Tensor, dim: int, level: int) -> Tensor:
    """One sample of those along a dimension."""
    return _C._add_batch_dim(tensor, dim, level)


def _remove_batch_dim(tensor: Tensor, level: int, size: int, dim: int) -> Tensor:
    """The samples along a dimension; copies where all are the same."""
    return _C._remove_batch_dim(tensor, level, size, dim)


def _unwrap_batched(tensor: Tensor, level: int) -> tuple[Tensor, int | None]:
    """What is behind a sample of this level, and the dimension that counts samples there."""
    if maybe_get_level(tensor) != level:
        return tensor, None
    return _C.get_unwrapped(tensor), 0
