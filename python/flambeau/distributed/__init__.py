"""Several processes that compute together: not there, and it says so.

As in a PyTorch that was built without it, `is_available()` is False and programs that ask go on in
one process; every other name is missing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


def is_available() -> bool:
    """False: processes cannot be joined into a group."""
    return False


def is_initialized() -> bool:
    """False: no group has been made, nor can be."""
    return False


def is_gloo_available() -> bool:
    """False: there is no Gloo."""
    return False


def is_mpi_available() -> bool:
    """False: there is no MPI."""
    return False


def is_nccl_available() -> bool:
    """False: there is no NCCL."""
    return False


def is_ucc_available() -> bool:
    """False: there is no UCC."""
    return False


def is_xccl_available() -> bool:
    """False: there is no XCCL."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchelastic started this process, as its environment tells."""
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"module '{__name__}' has no attribute '{name}': Flambeau runs in one process, "
        "torch.distributed.is_available() is False"
    )
