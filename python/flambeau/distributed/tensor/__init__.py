"""How a tensor would lie over the processes of a mesh. Tensors are not split here: these are only
words, and what would split one raises an error.
"""

from __future__ import annotations

import dataclasses

from flambeau._absent import absent
from flambeau._operators._kinds import kind_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_WHY = "Flambeau does not split tensors over processes"
_ABSENT = ("DTensor", "DeviceMesh", "distribute_module", "distribute_tensor", "init_device_mesh")
_made: dict[str, Any] = {}


@dataclasses.dataclass(frozen=True)
class Placement:
    """How a tensor lies over one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is split, along a dimension if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every process has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether every process has a part of a sum."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along a dimension."""

    dim: int


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each process has all of it."""


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """Each process has a part of a reduction that is still to come."""

    reduce_op: str = "sum"


def __getattr__(name: str) -> Any:
    # Also what makes a tensor of a size, which would be split.
    if name in _ABSENT or kind_named(name).parameters[:1] == ["size"]:
        return _made.setdefault(name, absent(__name__, name, _WHY))
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
