"""Storages on their way between memory and files: their bytes, byte order, type and device."""

from __future__ import annotations

import contextlib

import flambeau
from flambeau import storage as _storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


# Where storages lie: how a location is called in files, and how to get there. The first answer by
# priority counts.
_packages: list[tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Teaches `save` and `load` a kind of location.

    Args:
        priority: whom to ask first, the lowest; the CPU's is 10, CUDA's 20.
        tagger: the name to save for a storage, or None for those it does not know.
        deserializer: given a storage on the CPU and a saved name, the storage where it belongs, or
            None for names it does not know.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def _register_device(priority: int, kind: str) -> None:
    def tag(storage: Any) -> str | None:
        return str(storage.device) if storage.device.type == kind else None

    def restore(storage: Any, location: str) -> Any:
        if location.partition(":")[0] != kind:
            return None
        reason = _device_missing(location)
        if reason is not None:
            raise RuntimeError(reason)
        return storage if kind == "cpu" else storage.to(device=flambeau.device(location))

    register_package(priority, tag, restore)


for _priority, _kind in ((10, "cpu"), (20, "cuda"), (22, "meta")):
    _register_device(_priority, _kind)


_OWN_PACKAGES = len(_packages)


def only_own_packages() -> bool:
    """Whether programs have taught no other kind of location."""
    return len(_packages) == _OWN_PACKAGES


def stays_on_cpu(map_location: Any) -> bool:
    """Whether what was saved on the CPU belongs there, without asking anybody."""
    if isinstance(map_location, (str, flambeau.device)):
        return only_own_packages() and str(map_location).partition(":")[0] == "cpu"
    return only_own_packages() and map_location is None


def _name_of(storage: Any) -> str:
    return f"torch.storage.{type(storage).__name__}"


def location_tag(storage: Any) -> str:
    """The name that `save` writes for the place of a storage."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {_name_of(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage, read to the CPU, at the place that a file names.

    Programs call it from the function they give `load` as `map_location`, for instance
    ``lambda storage, location: default_restore_location(storage, "cpu")``.
    """
    for _, _, deserializer in _packages:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of {_name_of(storage)} (tagged with {location})"
    )


def placed(storage: Any, location: str, map_location: Any) -> Any:
    """A storage, read to the CPU, on the device where it belongs."""
    if map_location is None:
        return default_restore_location(storage, location)
    if isinstance(map_location, dict):
        return default_restore_location(storage, str(map_location.get(location, location)))
    if isinstance(map_location, (str, flambeau.device)):
        return default_restore_location(storage, str(map_location))
    try:
        result = map_location(storage, location)
    except Exception as error:
        raise CallersError from error
    return default_restore_location(storage, location) if result is None else result


class CallersError(RuntimeError):
    """Caused by what a function of the caller's raised, which says nothing about the file."""


@contextlib.contextmanager
def callers_errors() -> Iterator[None]:
    """Lets through what functions of the caller's raise, as they raised it."""
    try:
        yield
    except CallersError as error:
        assert error.__cause__ is not None
        raise error.__cause__ from None


def typed(untyped: Any, kind: Any) -> Any:
    if kind is _storage.UntypedStorage:
        return untyped
    return _storage.TypedStorage(wrap_storage=untyped, dtype=kind.dtype)
