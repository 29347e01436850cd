"""Several processes that compute together: so far the world of one process.

Programs written for many processes run alone: `init_process_group` makes a group of one, in which
sums and means over all processes are the tensor itself. A larger world raises.
"""

from __future__ import annotations

import os
import sys

from flambeau.distributed._collectives import (
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
)
from flambeau.distributed._group import (
    Backend,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    GroupMember,
    ProcessGroup,
    ReduceOp,
    Work,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
    new_group,
    reduce_op,
)

__all__ = [
    "Backend",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "recv",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "supports_complex",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """True: a group of one process can be made."""
    return True


def is_gloo_available() -> bool:
    """True: what Gloo does for one process on the CPU is there."""
    return True


def is_nccl_available() -> bool:
    """Whether what NCCL does for one process is there: where a CUDA device is."""
    import flambeau

    return flambeau.cuda.is_available()


def is_mpi_available() -> bool:
    """False: there is no MPI."""
    return False


def is_ucc_available() -> bool:
    """False: there is no UCC."""
    return False


def is_xccl_available() -> bool:
    """False: there is no XCCL."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether a group can be made with the backend of this name."""
    return {"gloo": is_gloo_available, "nccl": is_nccl_available}.get(
        backend.lower(), is_mpi_available
    )()


def is_torchelastic_launched() -> bool:
    """Whether torchelastic started this process, as its environment tells."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors of a device."""
    import flambeau

    return "nccl" if flambeau.device(device).type == "cuda" else "gloo"


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex numbers can be reduced so: they have no order and no bits."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.PREMUL_SUM)


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is outside of a group: it is in every one."""
    return group is GroupMember.NON_GROUP_MEMBER


# Classes and functions that libraries import to annotate arguments, or for runs of many processes.
_OF_MANY = frozenset(
    """DeviceMesh FileStore GradBucket HashStore PrefixStore Store TCPStore
    init_device_mesh""".split()
)


def __getattr__(name: str) -> Any:
    if name in _OF_MANY:
        from flambeau._absent import absent

        made = absent(__name__, name, "Flambeau runs in one process")
        return globals().setdefault(name, made)
    from flambeau._absent import absent_module, is_absent

    full = f"{__name__}.{name}"
    if is_absent(full):  # libraries look into modules that they have not imported
        return globals().setdefault(name, sys.modules.get(full) or absent_module(full))
    raise AttributeError(
        f"module '{__name__}' has no attribute '{name}': Flambeau runs in one process"
    )
