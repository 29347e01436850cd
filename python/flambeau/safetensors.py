"""The safetensors format, read and written natively: a header of JSON and the bytes of tensors,
nothing that could run.

The functions are those of `safetensors.torch`. A file whose header does not describe exactly the
bytes that follow is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from flambeau import _C, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["SafetensorError", "load", "load_file", "load_metadata", "save", "save_file"]

_ops: Any = _C


class SafetensorError(RuntimeError):
    """A file that is no valid safetensors file."""


def _save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None, file: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor, got {type(tensor)}")
    plain = {name: tensor.detach().as_subclass(Tensor) for name, tensor in tensors.items()}
    _ops._save_safetensors(plain, dict(metadata or {}), file)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors.

    Args:
        tensors: contiguous tensors by name, none of which share memory.
        metadata: strings to keep with them.
    """
    import io

    file = io.BytesIO()
    _save(tensors, metadata, file)
    return file.getvalue()


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a file with these tensors, in the place of an old one at once; see `save`."""
    _save(tensors, metadata, os.fsdecode(filename))


def _load(read: Any, source: Any) -> Any:
    try:
        return read(source)
    except UnicodeDecodeError as error:
        name = source if isinstance(source, str) else "of a buffer"
        raise SafetensorError(f"safetensors: {error}. File {name}, record (header)") from None
    except RuntimeError as error:
        raise SafetensorError(str(error)) from None


def _on_device(tensors: dict[str, Tensor], device: Any) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _path(filename: Any) -> str:
    """The path of a file that is there."""
    os.stat(filename)
    return os.fsdecode(filename)


def load(data: bytes, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors in the bytes of a file."""
    import io

    return _on_device(_load(_ops._load_safetensors, io.BytesIO(data))[0], device)


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors in a file."""
    return _on_device(_load(_ops._load_safetensors, _path(filename))[0], device)


def load_metadata(filename: Any) -> dict[str, str]:
    """The strings that a file keeps with its tensors."""
    return _load(_ops._safetensors_metadata, _path(filename))
