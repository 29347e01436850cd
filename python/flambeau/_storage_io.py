"""Storages on their way between memory and files: their bytes, byte order, type and device."""

from __future__ import annotations

import flambeau
from flambeau import storage as _storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def memory_of(storage: Any) -> Any:
    """The bytes of a storage on the CPU, as a writable buffer."""
    import ctypes

    size = storage.nbytes()
    return (
        memoryview((ctypes.c_ubyte * size).from_address(storage.data_ptr())).cast("B")
        if size
        else b""
    )


def swap_bytes(data: Any, dtype: Any) -> None:
    """Reverses the bytes of each number in place."""
    size = dtype.itemsize // (2 if dtype.is_complex else 1)
    original = bytes(data)
    for i in range(size):
        data[i::size] = original[size - 1 - i :: size]


def _device_missing(location: str) -> str | None:
    """Why a storage cannot go to the device it was saved on."""
    if not location.startswith("cuda") or flambeau.cuda.is_available():
        return None
    return (
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. "
        "If you are running on a CPU-only machine, please use torch.load with "
        "map_location=torch.device('cpu') to map your storages to the CPU."
    )


def _moved(storage: Any, location: str) -> Any:
    device = flambeau.device(location)
    if device.type == "cpu":
        return storage
    reason = _device_missing(location)
    if reason is not None:
        raise RuntimeError(reason)
    return storage.to(device=device)


def placed(storage: Any, location: str, map_location: Any) -> Any:
    """A storage, read to the CPU, on the device where it belongs."""
    if map_location is None:
        return _moved(storage, location)
    if isinstance(map_location, dict):
        return _moved(storage, str(map_location.get(location, location)))
    if isinstance(map_location, (str, flambeau.device)):
        return _moved(storage, str(map_location))
    result = map_location(storage, location)
    return _moved(storage, location) if result is None else result


def typed(untyped: Any, kind: Any) -> Any:
    if kind is _storage.UntypedStorage:
        return untyped
    return _storage.TypedStorage(wrap_storage=untyped, dtype=kind.dtype)
