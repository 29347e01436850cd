"""Functions of the top-level namespace about files, capsules and devices."""

from __future__ import annotations

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flambeau import Tensor

__all__ = ["AcceleratorError", "from_file", "get_device_module", "to_dlpack"]


class AcceleratorError(RuntimeError):
    """An error that an accelerator reported, perhaps long after the call that caused it."""


def get_device_module(device: Any = None) -> Any:
    """The module of a device type, ``cuda`` or ``cpu``; of the accelerator's if none is given."""
    import importlib

    if device is None:
        kind = "cuda"
    else:
        kind = (device if isinstance(device, _C.device) else _C.device(device)).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    return importlib.import_module(f"flambeau.{kind}")


def to_dlpack(tensor: Tensor) -> Any:
    """The tensor as a DLPack capsule, which shares its memory."""
    return tensor.__dlpack__()


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A vector of ``size`` elements whose memory is a file.

    With ``shared`` the file is made if there is none, and what is written goes to it.
    """
    import mmap
    import os
    import weakref

    from flambeau.storage import files

    dtype = _C.get_default_dtype() if dtype is None else dtype
    mode, flags = ("read-write", os.O_RDWR | os.O_CREAT) if shared else ("read-only", os.O_RDONLY)
    try:
        handle = os.open(filename, flags, 0o600)
    except OSError as error:
        raise RuntimeError(
            f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})"
        ) from None
    try:
        needed = size * dtype.itemsize
        if shared and os.fstat(handle).st_size < needed:
            os.ftruncate(handle, needed)
        if os.fstat(handle).st_size < needed:
            raise RuntimeError(
                f"file <{filename}> is too small: {os.fstat(handle).st_size} bytes where "
                f"{needed} are needed"
            )
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        if needed == 0:
            return _C.empty(0, dtype=dtype, requires_grad=requires_grad)
        memory = mmap.mmap(handle, needed, access=access)
    finally:
        os.close(handle)
    made = _C.frombuffer(memory, dtype=dtype, count=size, requires_grad=requires_grad)
    if shared:
        files[made.data_ptr()] = filename
        weakref.finalize(memory, files.pop, made.data_ptr(), None)
    return made
