"""PyTorch's files as archives of records, which the core reads and writes, and files that take the
place of others when all of them is written.
"""

from __future__ import annotations

import contextlib
import os
import zlib

from flambeau import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ops: Any = _C
ArchiveWriter = _ops._ArchiveWriter


@contextlib.contextmanager
def replaced_file(path: str) -> Iterator[Any]:
    """A file to write in the place of another, which stays until all is written and safe on disk.

    Whatever happens on the way, under the name is the whole old file or the whole new one.
    """
    file = _ops._ReplacedFile(os.fsdecode(path))
    yield file
    file.commit()


class ArchiveReader(_ops._ArchiveReader):  # type: ignore[misc, name-defined]
    """Reads records of an archive and checks all of it that it reads: see flambeau/io/zip.h.

    Its arguments are a path or a seekable file object, where in it the archive begins, and 1 to map
    storages, 2 to map them so that writes reach the file.
    """

    has: Any
    records: Any

    def read(self, record: str) -> bytes:
        """The bytes of a record."""
        data, packed, size = self._read(record)
        if not packed:
            return data
        unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
        if len(unpacked) != size:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: record {record} is damaged"
            )
        return unpacked

    def storage(self, record: str, skips_data: bool = False) -> Any:
        """The bytes of a record in a new storage, or mapped."""
        from flambeau.storage import UntypedStorage

        return UntypedStorage._of(self._storage(record, skips_data))
