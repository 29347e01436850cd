"""The safetensors format, read and written natively: a header of JSON and the bytes of tensors,
nothing that could run.

The functions are those of `safetensors.torch`. A file whose header does not describe exactly the
bytes that follow is refused.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping

import flambeau
from flambeau import Tensor
from flambeau._serialization._archive import replaced_file
from flambeau._serialization._storage_io import memory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["SafetensorError", "load", "load_file", "load_metadata", "save", "save_file"]

_LARGEST_HEADER = 100_000_000
_DTYPES = {
    "F64": flambeau.float64,
    "F32": flambeau.float32,
    "F16": flambeau.float16,
    "BF16": flambeau.bfloat16,
    "I64": flambeau.int64,
    "I32": flambeau.int32,
    "I16": flambeau.int16,
    "I8": flambeau.int8,
    "U64": flambeau.uint64,
    "U32": flambeau.uint32,
    "U16": flambeau.uint16,
    "U8": flambeau.uint8,
    "BOOL": flambeau.bool,
    "C64": flambeau.complex64,
    "F8_E4M3": flambeau.float8_e4m3fn,
    "F8_E5M2": flambeau.float8_e5m2,
    "F8_E4M3FNUZ": flambeau.float8_e4m3fnuz,
    "F8_E5M2FNUZ": flambeau.float8_e5m2fnuz,
    "F8_E8M0": flambeau.float8_e8m0fnu,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class SafetensorError(RuntimeError):
    """A file that is no valid safetensors file."""


# Writing ------------------------------------------------------------------------------------------
def _described(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> tuple[bytes, list[Tensor]]:
    """The header, and the tensors in the order of their bytes."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor, got {type(tensor)}")
        if tensor.dtype not in _NAMES:
            raise ValueError(f"Key `{name}` is invalid, its dtype {tensor.dtype} has no place here")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. "
                "Call .contiguous() on it first."
            )
        address = tensor.untyped_storage().data_ptr() if tensor.numel() else 0
        if address and owners.setdefault(address, name) != name:
            raise RuntimeError(
                f"Some tensors share memory, this will lead to duplicate memory on disk and "
                f"potential differences when loading them again: {owners[address]}, {name}"
            )
    # Large elements first, so that every tensor begins at a multiple of its element's size.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    position = 0
    for name in order:
        size = tensors[name].numel() * tensors[name].dtype.itemsize
        header[name] = {
            "dtype": _NAMES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [position, position + size],
        }
        position += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, [tensors[name] for name in order]


def _content(tensor: Tensor) -> Any:
    """The bytes of a tensor."""
    flat = tensor.detach().cpu().clone() if tensor.device.type != "cpu" else tensor.detach()
    start = flat.storage_offset() * flat.dtype.itemsize
    size = flat.numel() * flat.dtype.itemsize
    return memoryview(memory_of(flat.untyped_storage()))[start : start + size]


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors.

    Args:
        tensors: contiguous tensors by name, none of which share memory.
        metadata: strings to keep with them.
    """
    header, order = _described(tensors, metadata)
    return b"".join([header, *map(_content, order)])


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a file with these tensors, in the place of an old one at once; see `save`."""
    header, order = _described(tensors, metadata)
    with replaced_file(os.fspath(filename)) as file:
        file.write(header)
        for tensor in order:
            file.write(_content(tensor))


# Reading ------------------------------------------------------------------------------------------
def _no_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise SafetensorError("safetensors: a key is given twice in the header")
    return found


def _checked_header(text: bytes, data_size: int) -> dict[str, Any]:
    """The header, which describes all bytes of the data and no other."""
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_repetitions)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SafetensorError(f"safetensors: the header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise SafetensorError("safetensors: the header is no dictionary")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorError("safetensors: metadata must be strings by name")
    spans = []
    for name, entry in header.items():
        if name != "__metadata__":
            spans.append((*_checked_span(name, entry), name))
    position = 0
    for start, end, name in sorted(spans):
        if start != position:
            raise SafetensorError(f"safetensors: invalid offset of tensor `{name}`")
        position = end
    if position != data_size:
        raise SafetensorError(
            f"safetensors: the header describes {position} bytes, the file has {data_size}"
        )
    return header


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _checked_span(name: str, entry: Any) -> tuple[int, int]:
    """Where the bytes of a tensor begin and end."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorError(f"safetensors: tensor `{name}` is not described completely")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise SafetensorError(f"safetensors: tensor `{name}` has an unknown dtype {dtype!r}")
    if not isinstance(shape, list) or len(shape) > 64 or not all(map(_is_size, shape)):
        raise SafetensorError(f"safetensors: tensor `{name}` has an invalid shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise SafetensorError(f"safetensors: tensor `{name}` has invalid offsets")
    start, end = offsets
    if end - start != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise SafetensorError(f"safetensors: the size of tensor `{name}` is not that of its shape")
    return start, end


def _header_of(file: Any, size: int) -> tuple[dict[str, Any], int]:
    """The header of a file of a size, and where the data begins."""
    head = file.read(8)
    if len(head) < 8:
        raise SafetensorError("safetensors: the file is too short for a header")
    length = int.from_bytes(head, "little")
    if length > _LARGEST_HEADER or 8 + length > size:
        raise SafetensorError(f"safetensors: a header of {length} bytes does not fit")
    return _checked_header(file.read(length), size - 8 - length), 8 + length


def _read(file: Any, size: int, device: Any) -> dict[str, Tensor]:
    header, begin = _header_of(file, size)
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        tensor = flambeau.empty(entry["shape"], dtype=_DTYPES[entry["dtype"]])
        file.seek(begin + entry["data_offsets"][0])
        target = _content(tensor)
        if len(target) and file.readinto(target) != len(target):
            raise SafetensorError(f"safetensors: the file ends within tensor `{name}`")
        tensors[name] = tensor.to(device)
    return tensors


def load(data: bytes, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors in the bytes of a file."""
    import io

    return _read(io.BytesIO(data), len(data), device)


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors in a file."""
    with open(filename, "rb") as file:
        return _read(file, os.fstat(file.fileno()).st_size, device)


def load_metadata(filename: Any) -> dict[str, str]:
    """The strings that a file keeps with its tensors."""
    with open(filename, "rb") as file:
        header, _ = _header_of(file, os.fstat(file.fileno()).st_size)
    return header.get("__metadata__", {})
