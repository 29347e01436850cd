"""The groups of processes that programs make, where there is one process: a world of size one.

What a launcher or a program says about ranks is read as PyTorch reads it. A world of one process is
made and works; a larger one raises, because nothing here could reach the others.
"""

from __future__ import annotations

import enum
import os
from datetime import timedelta
from urllib.parse import parse_qs, urlparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

default_pg_timeout = timedelta(minutes=30)


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """What goes wrong in the library that carries messages."""


class DistNetworkError(DistError):
    """What goes wrong in the network."""


class DistStoreError(DistError):
    """What goes wrong in the store through which processes find each other."""


class Backend(str):
    """The name of a backend, in small letters."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    backend_list = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI)

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {name!r}")
        return str.__new__(cls, name.lower())


class RedOpType(enum.IntEnum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ReduceOp:
    """The reductions under the names that programs use: `ReduceOp.SUM`."""

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM


reduce_op = ReduceOp


class Work:
    """An exchange that was asked for; among one process it is done at once."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns True: there is nothing to wait for."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def exception(self) -> None:
        """None: nothing went wrong."""
        return None


class ProcessGroup:
    """A group of processes: of this one alone."""

    def __init__(self, backend: str, name: str) -> None:
        self.group_name = name
        self._backend = backend

    def rank(self) -> int:
        """The place of this process: 0."""
        return 0

    def size(self) -> int:
        """The number of processes: 1."""
        return 1

    def name(self) -> str:
        """The backend's name."""
        return self._backend


class _GroupNames(type):
    """Lets `group.WORLD` and `GroupMember.WORLD` follow the default group."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _default


class group(metaclass=_GroupNames):
    """`group.WORLD` is the group of all processes, None before it is made."""


class GroupMember(group):
    """`NON_GROUP_MEMBER` stands for a group that this process is not in."""

    NON_GROUP_MEMBER = -100


_default: ProcessGroup | None = None
_groups: list[ProcessGroup] = []


def _missing(scheme: str, what: str) -> ValueError:
    start = f"Error initializing torch.distributed using {scheme}:// rendezvous: "
    return ValueError(start + what)


def _place(init_method: str | None, rank: int, world_size: int) -> tuple[int, int]:
    """The rank and the size of the world, out of the arguments, the address or the environment."""
    address = urlparse(init_method or "env://")
    asked = parse_qs(address.query)
    rank = int(asked["rank"][0]) if "rank" in asked else rank
    world_size = int(asked["world_size"][0]) if "world_size" in asked else world_size
    if address.scheme == "env":
        found = []
        for name, given in (("RANK", rank), ("WORLD_SIZE", world_size)):
            if given == -1 and name not in os.environ:
                raise _missing("env", f"environment variable {name} expected, but not set")
            found.append(int(os.environ[name]) if given == -1 else given)
        return found[0], found[1]
    if address.scheme not in ("tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {address.scheme}://")
    if rank == -1:
        raise _missing(address.scheme, "rank parameter missing")
    if world_size == -1:
        raise _missing(address.scheme, "world size parameter missing")
    return rank, world_size


def _checked_backend(backend: str | None) -> str:
    name = Backend(backend or "undefined")
    for part in name.split(","):
        known = part.rpartition(":")[2]
        assert known in Backend.backend_list, f"Unknown backend type {known}"
    return name


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Makes the group of all processes, which must be one: RANK 0 of WORLD_SIZE 1.

    Any backend of PyTorch's may be named, since no message leaves the process.
    """
    global _default
    if _default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    name = _checked_backend(backend)
    if store is not None:
        if world_size < 1 or rank < 0:
            raise AssertionError("world_size must be positive and rank non-negative with a store")
    else:
        rank, world_size = _place(init_method, rank, world_size)
    if world_size != 1 or rank != 0:
        raise RuntimeError(
            f"init_process_group: rank {rank} of {world_size} processes was asked for, but Flambeau"
            " computes in one process: start the program alone, or with WORLD_SIZE=1 and RANK=0"
        )
    _default = ProcessGroup(name, group_name or "0")
    _groups.append(_default)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without an argument all of them."""
    global _default
    ended = group or _default
    assert ended is not None, "Process group cannot be None"
    if ended is _default:
        _default = None
        _groups.clear()
    elif ended in _groups:
        _groups.remove(ended)
    else:
        raise ValueError("Invalid process group specified")


def is_initialized() -> bool:
    """Whether the group of all processes has been made."""
    return _default is not None


def _group_or_default(group: Any = None) -> ProcessGroup:
    if group is not None:
        return group
    if _default is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _default


def get_rank(group: Any = None) -> int:
    """The place of this process in a group, -1 if it is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return _group_or_default(group).rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes of a group, -1 if this one is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return _group_or_default(group).size()


def get_backend(group: Any = None) -> Backend:
    """The backend that a group was made with."""
    return Backend(_group_or_default(group).name())


def get_backend_config(group: Any = None) -> str:
    """The backend of every kind of device, as `device:backend` pairs."""
    name = _group_or_default(group).name()
    return name if ":" in name else f"cpu:{name},cuda:{name}"


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The place of this process on its machine, which the launcher tells in LOCAL_RANK."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work."
    )


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some of the processes; only rank 0 exists."""
    world = _group_or_default()
    chosen = [0] if ranks is None else list(ranks)
    outside = [rank for rank in chosen if rank != 0]
    if outside:
        raise ValueError(
            "the new group's rank should be within the world_size set by init_process_group"
        )
    if not chosen:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(_checked_backend(backend or world.name()), str(len(_groups)))
    _groups.append(made)
    return made


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of a group's processes among all."""
    _group_or_default(group)
    return [0]


def _only_rank(group: Any, rank: int) -> int:
    _group_or_default(group)
    if rank != 0:
        raise ValueError(f"Group {group} does not contain rank {rank}: it has one process")
    return 0


def get_group_rank(group: Any, global_rank: int) -> int:
    """The place in a group of a process that is known by its place among all."""
    return _only_rank(group, global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The place among all of a process that is known by its place in a group."""
    return _only_rank(group, group_rank)


def get_pg_count() -> int:
    """The number of groups."""
    return len(_groups)
