"""NumPy's files, read and written natively: `.npy` holds one array, `.npz` several by name.

NumPy itself is not needed. Headers are literals that are parsed, never evaluated; pickled objects
are refused. A file takes the place of an old one at once. Members of an `.npz` carry checksums,
which are verified; a bare `.npy` has none.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib

import flambeau
from flambeau import _C, Tensor
from flambeau._serialization._archive import replaced_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

__all__ = ["NpyError", "load", "save", "savez", "savez_compressed"]

_ops: Any = _C
# Deflate cannot make more than this of a byte.
_LARGEST_RATIO = 1032


class NpyError(ValueError):
    """A file that is no valid `.npy` or `.npz`."""


# Writing ------------------------------------------------------------------------------------------
def _plain(tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        tensor = flambeau.as_tensor(tensor)
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()


def _path(file: Any, ending: str) -> str:
    """The path of a file, with NumPy's ending where it has none."""
    path = os.fspath(file)
    return path if path.endswith(ending) else path + ending


def save(file: Any, arr: Any) -> None:
    """Writes a tensor into an `.npy` file.

    Args:
        file: a path, to which `.npy` is appended if it is missing, or a file opened for bytes.
        arr: the tensor, or what `as_tensor` makes one of.
    """
    _ops._save_npy(_plain(arr), file if hasattr(file, "write") else _path(file, ".npy"))


def _write_archive(file: Any, tensors: dict[str, Tensor], method: int) -> None:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, tensor in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _ops._save_npy(tensor, member)


def _save_archive(file: Any, args: Any, named: dict[str, Any], method: int) -> None:
    tensors = {f"arr_{k}": _plain(value) for k, value in enumerate(args)}
    for name, value in named.items():
        if name in tensors:
            raise ValueError(f"Cannot use un-named variables and keyword {name}")
        tensors[name] = _plain(value)
    if hasattr(file, "write"):
        return _write_archive(file, tensors, method)
    with replaced_file(_path(file, ".npz")) as opened:
        _write_archive(opened, tensors, method)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Writes tensors into an `.npz` file, the unnamed ones as `arr_0`, `arr_1`, ...; see `save`."""
    _save_archive(file, args, kwds, zipfile.ZIP_STORED)


def savez_compressed(file: Any, *args: Any, **kwds: Any) -> None:
    """Like `savez`, compressed."""
    _save_archive(file, args, kwds, zipfile.ZIP_DEFLATED)


# Reading ------------------------------------------------------------------------------------------
def _read(file: Any, begin: int) -> Tensor:
    """The array in a file, from a place to the end."""
    try:
        return _ops._load_npy(file, begin)
    except ValueError as error:
        raise NpyError(str(error)) from None


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Tensor:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NpyError(f"npz: member {info.filename!r} is compressed in an unknown way")
    if info.file_size > _LARGEST_RATIO * (info.compress_size + 64):
        raise NpyError(f"npz: member {info.filename!r} cannot have {info.file_size} bytes")
    return _read(io.BytesIO(archive.read(info)), 0)


def _read_archive(file: Any) -> dict[str, Tensor]:
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            names = [info.filename for info in infos]
            if len(set(names)) != len(names):
                raise NpyError("npz: a name is given twice")
            return {i.filename.removesuffix(".npy"): _read_member(archive, i) for i in infos}
    except NpyError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        OSError,
    ) as error:
        raise NpyError(f"npz: the archive is damaged: {error}") from None


def _load(file: BinaryIO) -> Any:
    begin = file.tell()
    start = file.read(6)
    file.seek(begin)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _read_archive(file)
    return _read(file, begin)


def load(file: Any) -> Any:
    """The tensor in an `.npy` file, or the tensors by name in an `.npz` file.

    Args:
        file: a path or a file opened for bytes that can be sought in.
    """
    if hasattr(file, "read"):
        return _load(file)
    with open(file, "rb") as opened:
        return _load(opened)
