"""save and load: objects with tensors in PyTorch's files, which both libraries read and write.

A file is a zip archive: `data.pkl` is a pickle in which every storage is a persistent id,
`data/<key>` holds the bytes of a storage. Classes and functions of this package are written under
PyTorch's names and found again by them. `weights_only` loading allows only names from a list, so
that a file cannot run code. Files of PyTorch before 1.6, one pickle after another, are read and
written as well (`_legacy_format`).
"""

from __future__ import annotations

import contextlib
import enum
import os
import pickle
import sys
import warnings
from types import FunctionType
from typing import IO, TypeAlias

import flambeau
from flambeau import storage as _storage
from flambeau._serialization._archive import ArchiveReader, ArchiveWriter, replaced_file
from flambeau._serialization._legacy_format import load_legacy, write_legacy
from flambeau._serialization._storage_io import (
    callers_errors,
    default_restore_location,
    location_tag,
    memory_of,
    only_own_packages,
    placed,
    register_package,
    swap_bytes,
    typed,
)
from flambeau._weights_only_unpickler import (
    add_safe_globals,
    clear_safe_globals,
    file_name,
    get_safe_globals,
    load_known,
    make_unpickler,
    replace_root,
    safe_globals,
    unsafe_globals,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, ClassVar

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
]

DEFAULT_PROTOCOL = 2


class SourceChangeWarning(Warning):
    """For programs that filter it: PyTorch warns so when a pickled module's source has changed.
    Flambeau keeps no sources in files and never warns.
    """


# What `map_location` may be.
FILE_LIKE: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
MAP_LOCATION: TypeAlias = (
    "Callable[[Any, str], Any] | flambeau.device | str | dict[str, str] | None"
)
_ops: Any = flambeau._C
_PACKAGE = __name__.partition(".")[0]
_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]
# Types that no module has a name for; a file makes them of their only value.
_TYPES_WITHOUT_NAME: dict[type, Any] = {type(value): value for value in (None, NotImplemented, ...)}


# Names in files -----------------------------------------------------------------------------------


class _Pickler(_PythonPickler):
    """Writes names of this package as PyTorch's, and storages as persistent ids.

    The pure-Python pickler, because the one in C looks every name up before it writes it, and
    PyTorch's are not there.
    """

    dispatch: ClassVar[dict[Any, Any]] = dict(_PythonPickler.dispatch)

    def __init__(self, file: Any, protocol: int, persistent_id: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol)
        self._persistent_id = persistent_id

    def persistent_id(self, obj: Any) -> Any:
        return self._persistent_id(obj)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            if obj in _TYPES_WITHOUT_NAME:
                return type, (_TYPES_WITHOUT_NAME[obj],)
            # By name in PyTorch's module, not as plain pickles write classes of the core.
            return obj.__qualname__
        if isinstance(obj, flambeau.dtype):
            return str(obj).rpartition(".")[2]
        if isinstance(obj, flambeau.layout):
            return _get_layout, (str(obj),)
        if isinstance(obj, flambeau.Size):
            return flambeau.Size, (tuple(obj),)
        if isinstance(obj, flambeau.device):
            return flambeau.device, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, tuple) and type(obj).__module__ == "torch.return_types":
            return type(obj), (tuple(obj), {})
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = (
            "torch" if isinstance(obj, flambeau.dtype) else getattr(obj, "__module__", None) or ""
        )
        target = replace_root(module, _PACKAGE, "torch")
        if not (target == "torch" or target.startswith("torch.")):
            super().save_global(obj, name)
            return
        name = name or obj.__qualname__
        if self.proto >= 4:
            self.save(target)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{target}\n{name}\n".encode())
        self.memoize(obj)

    dispatch[FunctionType] = save_global


def _get_layout(name: str) -> Any:
    """The layout that a file names."""
    return getattr(flambeau, name.rpartition(".")[2])


# Saving -------------------------------------------------------------------------------------------


class _Storages:
    """The storages met while pickling: a key for each, and what to write."""

    def __init__(self) -> None:
        self.by_key: dict[str, Any] = {}
        self._keys: dict[tuple[Any, ...], str] = {}
        self.kinds: dict[str, Any] = {}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, _storage.TypedStorage):
            untyped, count = obj._untyped_storage, obj.size()
            kind: Any = getattr(_storage, obj.pickle_storage_type())
        elif isinstance(obj, _storage.UntypedStorage):
            untyped, count, kind = obj, obj.nbytes(), _storage.UntypedStorage
        else:
            return None
        location = location_tag(untyped)
        identity = (
            (location, untyped.data_ptr(), untyped.nbytes()) if untyped.nbytes() else (id(untyped),)
        )
        key = self._keys.setdefault(identity, str(len(self._keys)))
        self.by_key[key] = untyped
        # PyTorch reads a storage once, as the first type that names it.
        if self.kinds.setdefault(key, kind) is not kind:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        return ("storage", _StorageType(kind), key, location, count)


def normalize_storage_type(storage_type: type) -> Any:
    """The class of this package that has the name of a storage class."""
    return getattr(flambeau, storage_type.__name__)


class _StorageType:
    """Stands in a persistent id for a storage class, which is written by name."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __reduce__(self) -> str:
        raise pickle.PicklingError("a storage type was pickled outside of a persistent id")


def _save_storage_type(pickler: Any, obj: _StorageType) -> None:
    known = pickler.memo.get(id(obj.kind))
    if known is not None:
        pickler.write(pickler.get(known[0]))
        return
    name = obj.kind.__name__
    module = "torch.storage" if name == "UntypedStorage" else "torch"
    pickler.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
    pickler.memoize(obj.kind)


_Pickler.dispatch[_StorageType] = _save_storage_type


def _check_writable(f: Any) -> None:
    if not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )


def _archive_name(f: Any) -> str:
    if isinstance(f, (str, os.PathLike)):
        return os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
    return "archive"


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Writes an object, with all tensors in it, to a file.

    A file under a path is replaced at once when all is written and safe on disk: a crash leaves the
    old one or the new one.

    Args:
        obj: the object.
        f: a path, or a file object opened for writing bytes.
        pickle_module: accepted for compatibility; names must be written in a way only this module
            can.
        pickle_protocol: the protocol of the pickle inside.
        _use_new_zipfile_serialization: False writes the format of PyTorch before 1.6.
    """
    import io

    _check_writable(f)
    is_path = isinstance(f, (str, os.PathLike))
    target = os.fsdecode(f) if is_path else f
    if is_path:
        _check_folder(target)
    usual = _use_new_zipfile_serialization and not (_disable_byteorder_record or _skips_data)
    usual = usual and pickle_protocol == DEFAULT_PROTOCOL and only_own_packages()
    # The core writes what it knows; other classes have to pickle themselves.
    if usual and _ops._save_file(obj, target, _archive_name(f)):
        _flush(f)
        return
    storages = _Storages()
    data = io.BytesIO()
    if not _use_new_zipfile_serialization:
        # The old form of an id ends with a window on the storage, which nothing makes any more.
        persistent_id = storages.persistent_id
        _Pickler(
            data, pickle_protocol, lambda item: (found := persistent_id(item)) and (*found, None)
        ).dump(obj)
        with replaced_file(target) if is_path else contextlib.nullcontext(f) as file:
            write_legacy(file, data.getbuffer(), storages.by_key, storages.kinds, pickle_protocol)
        _flush(f)
        return
    _Pickler(data, pickle_protocol, storages.persistent_id).dump(obj)
    records: dict[str, Any] = {
        "data.pkl": data.getbuffer(),
        ".format_version": b"1",
        ".storage_alignment": b"64",
    }
    if not _disable_byteorder_record:
        records["byteorder"] = sys.byteorder.encode()
    _write_archive(target, _archive_name(f), records, storages)
    _flush(f)


class _NoFolder(RuntimeError, FileNotFoundError):
    """There is no folder to write into: PyTorch's kind of error, and the one of `open`."""


def _check_folder(path: str) -> None:
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise _NoFolder(f"Parent directory {folder} does not exist.")


def _flush(f: Any) -> None:
    """Lets others find in the file what has been written to it."""
    if hasattr(f, "flush"):
        f.flush()


def _write_archive(file: Any, name: str, records: dict[str, Any], storages: _Storages) -> None:
    writer = ArchiveWriter(file, name)
    for record, content in records.items():
        writer.write(record, content)
    for key, untyped in storages.by_key.items():
        if _skips_data:
            writer.write(f"data/{key}", bytes(untyped.nbytes()))
            continue
        on_cpu = untyped if untyped.device.type == "cpu" else untyped.cpu()
        writer.write(f"data/{key}", memory_of(on_cpu))
    writer.write("version", b"3\n")
    writer.close()


_skips_data = False


class skip_data:
    """Inside it `save` writes zeros in place of the contents of tensors, to be filled in later, and
    `load` makes tensors without reading their contents.

    Args:
        materialize_fake_tensors: has no effect; there are no fake tensors.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors
        self._before = False

    def __enter__(self) -> None:
        global _skips_data
        self._before, _skips_data = _skips_data, True

    def __exit__(self, *exception: Any) -> None:
        global _skips_data
        _skips_data = self._before


# Loading -----------------------------------------------------------------------------------------


class LoadEndianness(enum.Enum):
    """The byte order to assume for files that do not say."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_default_endianness: Any = None


def get_default_load_endianness() -> Any:
    """The byte order assumed for files that do not say; None means little."""
    return _default_endianness


def set_default_load_endianness(endianness: Any) -> None:
    """Sets the byte order assumed for files that do not say."""
    global _default_endianness
    if not (endianness is None or isinstance(endianness, LoadEndianness)):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _default_endianness = endianness


# MAP_SHARED and MAP_PRIVATE of the module mmap, which is loaded only where it is needed.
_MAP_SHARED, _MAP_PRIVATE = 1, 2
_mmap_flags = _MAP_PRIVATE


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps files: mmap.MAP_PRIVATE or mmap.MAP_SHARED."""
    return _mmap_flags


class set_default_mmap_options:
    """Sets how `load(mmap=True)` maps files; as a context, for a while.

    Args:
        flags: mmap.MAP_PRIVATE, where writes stay in memory, or mmap.MAP_SHARED, where they reach
            the file.
    """

    def __init__(self, flags: int) -> None:
        global _mmap_flags
        if flags not in (_MAP_PRIVATE, _MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.prev, _mmap_flags = _mmap_flags, flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: Any) -> None:
        global _mmap_flags
        _mmap_flags = self.prev


_crc32 = True


def get_crc32_options() -> bool:
    """Whether files must have checksums."""
    return _crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Allows files without checksums; those that `save` writes have them all the same."""
    global _crc32
    _crc32 = bool(compute_crc32)


def _assumed_byteorder() -> str:
    if _default_endianness == LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if _default_endianness == LoadEndianness.BIG else "little"


def _storages_of(reader: ArchiveReader, map_location: Any) -> Callable[[Any], Any]:
    """What gives a pickle its storages by their persistent ids."""
    order = reader.read("byteorder").decode() if reader.has("byteorder") else _assumed_byteorder()
    loaded: dict[str, Any] = {}

    def persistent_load(saved_id: Any) -> Any:
        if not isinstance(saved_id, tuple) or len(saved_id) != 5 or saved_id[0] != "storage":
            raise RuntimeError(f"Unknown typename for persistent_load: {saved_id!r}")
        _, kind, key, location, _ = saved_id
        if key not in loaded:
            untyped = reader.storage(f"data/{key}", _skips_data)
            if order != sys.byteorder and kind is not _storage.UntypedStorage:
                swap_bytes(memory_of(untyped), kind.dtype)
            loaded[key] = placed(untyped, location, map_location)
        return typed(loaded[key], kind)

    return persistent_load


def _load_trusted_archive(
    file: Any, start: int, mapped: int, map_location: Any, pickle_module: Any, args: dict[str, Any]
) -> Any:
    """What Python's own pickle makes of a file."""
    import io

    reader = ArchiveReader(file, start, mapped)
    if not reader.has("data.pkl"):
        raise RuntimeError("PytorchStreamReader failed locating file data.pkl: file not found")
    if reader.has("constants.pkl"):
        if not isinstance(file, str):
            file.seek(start)
        return flambeau.jit.load(file, map_location)
    content = io.BytesIO(reader.read("data.pkl"))
    persistent_load = _storages_of(reader, map_location)
    return make_unpickler(pickle_module, content, persistent_load, **args).load()


@contextlib.contextmanager
def _opened(f: Any) -> Iterator[Any]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            yield file
        return
    if not (hasattr(f, "seek") and hasattr(f, "tell") and hasattr(f, "read")):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'seek'. You can only torch.load from a "
            "file that is seekable. Please pre-load the data into a buffer like io.BytesIO and try "
            "to load from it instead."
        )
    if hasattr(f, "seekable"):
        yield f
    else:
        import io

        yield io.BytesIO(f.read())  # zipfile asks for more of a file than this one has


_TAR_MAGIC, _TAR_MAGIC_PLACE = b"ustar", 257


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "y", "yes", "true")


def _loads_weights_only(asked: bool | None, pickle_module: Any) -> bool:
    """What `weights_only` means: the environment may forbid to trust files, or allow it to callers
    who did not say.
    """
    force, trust = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
    if _is_set(force) and _is_set(trust):
        raise RuntimeError(f"Only one of `{force}` or `{trust}` should be set, but both were set.")
    if _is_set(force):
        asked = True
    elif asked is None and _is_set(trust):
        warnings.warn(
            f"Environment variable {trust} detected, since the `weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.",
            stacklevel=3,
        )
        asked = False
    if asked and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return pickle_module is None if asked is None else asked


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads an object that `save`, of this library or of PyTorch, has written.

    Args:
        f: a path, or a file object opened for reading bytes that can seek.
        map_location: where storages go: a device, a dict from saved to new locations, or a function
            of a storage on the CPU and its saved location; by default where they were.
        pickle_module: a module whose `Unpickler` reads the file, for instance one that finds
            classes under new names; if given, weights_only is False by default.
        weights_only: True, the default, allows only tensors, plain containers, and what
            add_safe_globals added; False lets the file run any code.
        mmap: maps the file's data into memory instead of reading it; `f` must be a path.
        pickle_load_args: arguments of the unpickler, such as `encoding`.
    """
    weights_only = _loads_weights_only(weights_only, pickle_module)
    pickle_load_args.setdefault("encoding", "utf-8")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    with callers_errors(), _opened(f) as file:
        start = file.tell()
        magic = file.read(4)
        file.seek(start)
        archive = magic == b"PK\x03\x04"
        mapped = (2 if _mmap_flags == _MAP_SHARED else 1) if mmap else 0
        source = os.fsdecode(f) if isinstance(f, (str, os.PathLike)) else file
        if archive and not weights_only:
            arguments = (map_location, pickle_module, pickle_load_args)
            return _load_trusted_archive(source, start, mapped, *arguments)
        if mmap and not archive:
            raise RuntimeError(
                "mmap can only be used with files saved with "
                "`torch.save(_use_new_zipfile_serialization=True)`."
            )
        if not magic:
            raise EOFError(
                f"Ran out of input: file {file_name(source)}, record data.pkl: it is empty"
            )
        head = file.read(_TAR_MAGIC_PLACE + len(_TAR_MAGIC))
        file.seek(start)
        if head.endswith(_TAR_MAGIC):
            raise RuntimeError(
                "load: the file is in PyTorch's legacy .tar format, which Flambeau does not read; "
                "load it with PyTorch and save it again"
            )
        if not weights_only:
            return load_legacy(file, map_location, pickle_module, pickle_load_args)
        return load_known(
            source,
            start,
            map_location,
            mapped=mapped,
            encoding=pickle_load_args["encoding"],
            skips_data=_skips_data,
            big_endian=_assumed_byteorder() == "big",
        )


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a file that `load(f, weights_only=True)` would refuse."""
    with _opened(f) as file:
        start = file.tell()
        data = ArchiveReader(file, start).read("data.pkl")
        file.seek(start)
    return unsafe_globals(data)
