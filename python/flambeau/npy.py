"""NumPy's files, read and written natively: `.npy` holds one array, `.npz` several by name.

NumPy itself is not needed. Headers are literals that are parsed, never evaluated; pickled objects
are refused. A file takes the place of an old one at once. Members of an `.npz` carry checksums,
which are verified; a bare `.npy` has none.
"""

from __future__ import annotations

import ast
import io
import math
import os
import sys
import zipfile
import zlib

import flambeau
from flambeau import Tensor
from flambeau._serialization._archive import replaced_file
from flambeau._serialization._storage_io import memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

__all__ = ["NpyError", "load", "save", "savez", "savez_compressed"]

_MAGIC = b"\x93NUMPY"
_LARGEST_HEADER = 10_000
_CHUNK = 1 << 20
# Deflate cannot make more than this of a byte.
_LARGEST_RATIO = 1032
_DTYPES = {
    "f8": flambeau.float64,
    "f4": flambeau.float32,
    "f2": flambeau.float16,
    "c16": flambeau.complex128,
    "c8": flambeau.complex64,
    "i8": flambeau.int64,
    "i4": flambeau.int32,
    "i2": flambeau.int16,
    "i1": flambeau.int8,
    "u8": flambeau.uint64,
    "u4": flambeau.uint32,
    "u2": flambeau.uint16,
    "u1": flambeau.uint8,
    "b1": flambeau.bool,
}
_KINDS = {dtype: kind for kind, dtype in _DTYPES.items()}


class NpyError(ValueError):
    """A file that is no valid `.npy` or `.npz`."""


# Writing ------------------------------------------------------------------------------------------
def _checked(name: str, tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        tensor = flambeau.as_tensor(tensor)
    if tensor.dtype not in _KINDS:
        raise TypeError(f"{name}: NumPy has no dtype for {tensor.dtype}; convert the tensor first")
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()


def _header(tensor: Tensor) -> bytes:
    kind = _KINDS[tensor.dtype]
    order = "|" if tensor.dtype.itemsize == 1 else "<" if sys.byteorder == "little" else ">"
    fields = {"descr": order + kind, "fortran_order": False, "shape": tuple(tensor.shape)}
    text = "{" + "".join(f"{key!r}: {value!r}, " for key, value in fields.items()) + "}"
    # The data begin at a multiple of 64 bytes.
    padding = -(len(_MAGIC) + 4 + len(text) + 1) % 64
    content = text.encode("latin1") + b" " * padding + b"\n"
    return _MAGIC + b"\x01\x00" + len(content).to_bytes(2, "little") + content


def _content(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor."""
    start = tensor.storage_offset() * tensor.dtype.itemsize
    size = tensor.numel() * tensor.dtype.itemsize
    return memoryview(memory_of(tensor.untyped_storage()))[start : start + size]


def _write(file: Any, tensor: Tensor) -> None:
    file.write(_header(tensor))
    file.write(_content(tensor))


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
    tensor = _checked("save", arr)
    if hasattr(file, "write"):
        return _write(file, tensor)
    with replaced_file(_path(file, ".npy")) as opened:
        _write(opened, tensor)


def _write_archive(file: Any, tensors: dict[str, Tensor], method: int) -> None:
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, tensor in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write(member, tensor)


def _save_archive(file: Any, args: Any, named: dict[str, Any], method: int) -> None:
    tensors = {f"arr_{k}": _checked("savez", value) for k, value in enumerate(args)}
    for name, value in named.items():
        if name in tensors:
            raise ValueError(f"Cannot use un-named variables and keyword {name}")
        tensors[name] = _checked("savez", value)
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
def _exactly(file: Any, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise NpyError("npy: the file ends within its header")
    return data


def _read_header(file: Any) -> tuple[str, bool, tuple[int, ...], int]:
    """The dtype's name, whether the first index runs fastest, the shape, and the header's size."""
    start = _exactly(file, 8)
    if start[:6] != _MAGIC:
        raise NpyError("npy: the file does not begin as an .npy file does")
    width = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}.get(start[6:])
    if width is None:
        raise NpyError(f"npy: version {start[6]}.{start[7]} of the format is unknown")
    length = int.from_bytes(_exactly(file, width), "little")
    if length > _LARGEST_HEADER:
        raise NpyError(f"npy: a header of {length} bytes is too long")
    text = _exactly(file, length).decode("utf-8" if start[6] == 3 else "latin1", "replace")
    try:
        fields = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise NpyError(f"npy: the header is no literal: {type(error).__name__}") from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise NpyError("npy: the header must have descr, fortran_order and shape, and no more")
    kind, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if not isinstance(kind, str) or kind[:1] not in "<>|=" or kind[1:] not in _DTYPES:
        raise NpyError(f"npy: arrays of {kind!r} cannot be tensors")
    if not isinstance(fortran, bool):
        raise NpyError("npy: fortran_order must be a bool")
    if not isinstance(shape, tuple) or len(shape) > 64 or not all(map(_is_size, shape)):
        raise NpyError("npy: the shape is invalid")
    return kind, fortran, shape, 8 + width + length


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _read_into(file: Any, target: memoryview) -> None:
    place = 0
    while place < len(target):
        part = file.read(min(_CHUNK, len(target) - place))
        if not part:
            raise NpyError("npy: the file ends within its data")
        target[place : place + len(part)] = part
        place += len(part)


def _read(file: Any, size: int) -> Tensor:
    """The array in a file that has `size` bytes."""
    kind, fortran, shape, begin = _read_header(file)
    dtype = _DTYPES[kind[1:]]
    needed = math.prod(shape) * dtype.itemsize
    if begin + needed != size:
        raise NpyError(
            f"npy: an array of {shape} of {kind} has {needed} bytes, the file {size - begin}"
        )
    tensor = flambeau.empty(shape[::-1] if fortran else shape, dtype=dtype)
    _read_into(file, _content(tensor))
    if dtype == flambeau.bool and bytes(_content(tensor)).translate(None, b"\x00\x01"):
        raise NpyError("npy: a bool is neither 0 nor 1")
    swapped = kind[0] == (">" if sys.byteorder == "little" else "<") and dtype.itemsize > 1
    tensor = _byte_swapped(tensor) if swapped else tensor
    return tensor.permute(tuple(range(tensor.dim()))[::-1]) if fortran else tensor


def _byte_swapped(tensor: Tensor) -> Tensor:
    """The same numbers out of bytes in the other order."""
    parts = 2 if tensor.is_complex() else 1
    width = tensor.dtype.itemsize // parts
    units = tensor.reshape(-1).view(flambeau.uint8).view(-1, width)
    return units.flip(1).reshape(-1).view(tensor.dtype).view(tensor.shape)


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Tensor:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NpyError(f"npz: member {info.filename!r} is compressed in an unknown way")
    if info.file_size > _LARGEST_RATIO * (info.compress_size + 64):
        raise NpyError(f"npz: member {info.filename!r} cannot have {info.file_size} bytes")
    with archive.open(info) as member:
        tensor = _read(member, info.file_size)
        member.read(1)  # reaches the end, where the checksum is verified
    return tensor


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
    size = file.seek(0, io.SEEK_END) - begin
    file.seek(begin)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _read_archive(file)
    return _read(file, size)


def load(file: Any) -> Any:
    """The tensor in an `.npy` file, or the tensors by name in an `.npz` file.

    Args:
        file: a path or a file opened for bytes that can be sought in.
    """
    if hasattr(file, "read"):
        return _load(file)
    with open(file, "rb") as opened:
        return _load(opened)
