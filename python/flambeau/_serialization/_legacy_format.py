"""The format of PyTorch before 1.6: pickles one after another, then the bytes of the storages.

The pickles are a magic number, the version of the protocol, a few facts about the machine, the
object with an id in the place of each storage, and the list of their keys. For each key follow the
count of its elements as eight bytes, and the elements.
"""

from __future__ import annotations

import io
import pickle
import sys

from flambeau import storage as _storage
from flambeau._serialization._storage_io import memory_of, placed, swap_bytes, typed
from flambeau._weights_only_unpickler import make_unpickler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


def write_legacy(
    file: Any, content: Any, storages: dict[str, Any], kinds: dict[str, Any], pickle_protocol: int
) -> None:
    """Writes an object, given as its pickle, and the storages it names."""
    facts = {
        "protocol_version": _PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for part in (MAGIC, _PROTOCOL, facts):
        pickle.dump(part, file, protocol=pickle_protocol)
    file.write(content)
    pickle.dump(sorted(storages), file, protocol=pickle_protocol)
    for key in sorted(storages):
        untyped = storages[key]
        on_cpu = untyped if untyped.device.type == "cpu" else untyped.cpu()
        count = on_cpu.nbytes() // kinds[key].dtype.itemsize
        file.write(count.to_bytes(8, sys.byteorder))
        file.write(memory_of(on_cpu))


def load_legacy(
    file: Any, map_location: Any, pickle_module: Any, pickle_args: dict[str, Any]
) -> Any:
    """The object in a file that is trusted; others are read by the core."""
    from flambeau.sparse._construct import checked_at_the_end

    start = file.tell()
    size = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    reader = _LegacyReader(size, map_location)

    def next_pickle(**kwargs: Any) -> Any:
        return make_unpickler(pickle_module, file, reader.persistent_load, **kwargs).load()

    if next_pickle() != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    next_pickle()  # the version of the protocol
    info = next_pickle()
    order = "little" if info.get("little_endian", True) else "big"
    # The indices of a sparse tensor are among the numbers that follow.
    with checked_at_the_end():
        result = next_pickle(**pickle_args)
        for key in next_pickle():
            reader.read_storage(file, _text(key), order)
    return result


def _text(name: Any) -> Any:
    """A name, which is bytes where Python 2 wrote it and `encoding` says bytes."""
    return name.decode("ascii") if isinstance(name, bytes) else name


class _LegacyReader:
    """The storages of an old file: named while it is unpickled, filled from what follows."""

    def __init__(self, file_size: int, map_location: Any) -> None:
        self.left = file_size
        self.map_location = map_location
        self.loaded: dict[str, tuple[Any, Any]] = {}
        self.placed: dict[str, Any] = {}

    def persistent_load(self, saved_id: Any) -> Any:
        what = _text(saved_id[0])
        if what == "module":
            return saved_id[1]
        if what != "storage":
            raise RuntimeError(f"Unknown saved id type: {saved_id[0]}")
        _, kind, key, location, count, view = saved_id
        key = _text(key)
        if key not in self.loaded:
            # Memory is taken only for bytes that the file can have.
            self.left -= count * kind.dtype.itemsize
            if count < 0 or self.left < 0:
                raise RuntimeError("load: the file ends before its data: it is truncated")
            self.loaded[key] = (kind, _storage.UntypedStorage(count * kind.dtype.itemsize))
            self.placed[key] = placed(self.loaded[key][1], _text(location), self.map_location)
        if view is None:
            return typed(self.placed[key], kind)
        _, offset, length = view
        if not 0 <= offset <= offset + length <= count:
            raise RuntimeError(f"load: a part of storage {key} lies outside of it")
        size = kind.dtype.itemsize
        part = _storage.UntypedStorage.__new__(_storage.UntypedStorage)
        part._bytes = self.placed[key]._bytes[offset * size : (offset + length) * size]
        return typed(part, kind)

    def read_storage(self, file: Any, key: str, order: Any) -> None:
        """Fills one storage with the count and the numbers that come next."""
        kind, storage = self.loaded[key]
        count = int.from_bytes(file.read(8), order)
        target = memory_of(storage)
        if count * kind.dtype.itemsize != len(target):
            raise RuntimeError(f"load: storage {key} has another size than its tensors say")
        data = file.read(len(target))
        if len(data) != len(target):
            raise RuntimeError("load: the file ends before its data: it is truncated")
        if len(target):
            target[:] = data
        if order != sys.byteorder:
            swap_bytes(target, kind.dtype)
        if self.placed[key].data_ptr() != storage.data_ptr():
            self.placed[key].copy_(storage)
