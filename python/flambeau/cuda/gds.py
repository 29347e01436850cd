"""Reading files straight into device memory, by NVIDIA's GPUDirect Storage, which is not used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GdsFile", "gds_deregister_buffer", "gds_register_buffer", "is_available"]

_REASON = "GPUDirect Storage is not supported"


def is_available() -> bool:
    """False: files are read through host memory."""
    return False


def gds_register_buffer(s: Any) -> None:
    """Raises: storages cannot be registered."""
    raise NotImplementedError(f"gds_register_buffer: {_REASON}")


def gds_deregister_buffer(s: Any) -> None:
    """Raises: storages cannot be registered."""
    raise NotImplementedError(f"gds_deregister_buffer: {_REASON}")


class GdsFile:
    """A file that is read into device memory. Not supported."""

    def __init__(self, filename: str, flags: int) -> None:
        raise NotImplementedError(f"GdsFile: {_REASON}")
