"""PyTorch's files as archives: zip files whose records are stored as they are, each beginning at a
multiple of 64 bytes so that it can be mapped.

The zip format checks the bytes of records. What lies between them (headers, padding, the directory)
is checked by a number of ours in the archive's comment, so that no flipped bit goes unnoticed;
PyTorch's own files have none and are read all the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import zipfile
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ALIGNMENT = 64
_COMMENT = re.compile(rb"flambeau frame ([0-9a-f]{8})")
_COMMENT_SIZE = len(b"flambeau frame ") + 8
_LARGE = 0xFFFFFFFF
_CHUNK = 1 << 20
_LARGEST_PROGRAM = 1 << 24  # bytes of text in one record
# 1980-01-01: files of the same content have the same bytes.
_DATE = 0x21


class ArchiveWriter:
    """Writes records, one after the other, to an object that has `write`."""

    def __init__(self, file: Any, name: str) -> None:
        self.file, self.name = file, name
        self.position = 0
        self.frame = 0
        self.directory: list[tuple[bytes, int, int, int]] = []

    def _write(self, data: bytes) -> None:
        """Writes bytes of the frame: all that is not content."""
        self.file.write(data)
        self.frame = zlib.crc32(data, self.frame)
        self.position += len(data)

    def write(self, record: str, data: Any) -> None:
        """Writes a record."""
        name = f"{self.name}/{record}".encode()
        size, crc, start = len(data), zlib.crc32(data), self.position
        wide = struct.pack("<HHQQ", 1, 16, size, size) if size >= _LARGE else b""
        begin = start + 30 + len(name) + len(wide) + 4
        padding = -begin % ALIGNMENT
        extra = wide + struct.pack("<HH", 0x4246, padding) + b"Z" * padding
        shown = min(size, _LARGE)
        sizes = struct.pack("<IIIHH", crc, shown, shown, len(name), len(extra))
        self._write(
            struct.pack("<IHHHHH", 0x04034B50, 45, 0x800, 0, 0, _DATE) + sizes + name + extra
        )
        self.file.write(data)
        self.position += size
        self.directory.append((name, crc, size, start))

    def close(self) -> None:
        """Writes the directory and the end."""
        begin = self.position
        for name, crc, size, start in self.directory:
            large = [value for value in (size, size, start) if value >= _LARGE]
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            shown, place = min(size, _LARGE), min(start, _LARGE)
            head = struct.pack("<IHHHHHH", 0x02014B50, 45, 45, 0x800, 0, 0, _DATE)
            sizes = struct.pack(
                "<IIIHHHHHII", crc, shown, shown, len(name), len(extra), 0, 0, 0, 0, place
            )
            self._write(head + sizes + name + extra)
        size, count = self.position - begin, len(self.directory)
        if begin >= _LARGE or count >= 0xFFFF:
            locator = self.position
            self._write(
                struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, begin)
            )
            self._write(struct.pack("<IIQI", 0x07064B50, 0, locator, 1))
        few, place = min(count, 0xFFFF), min(begin, _LARGE)
        self._write(
            struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, few, few, size, place, _COMMENT_SIZE)
        )
        self.file.write(b"flambeau frame %08x" % self.frame)


@contextlib.contextmanager
def replaced_file(path: str) -> Iterator[Any]:
    """A file to write in the place of another, which stays until all is written and safe on disk.

    Whatever happens on the way, under the name is the whole old file or the whole new one.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    folder = os.path.dirname(target)
    temporary = f"{target}.{os.getpid()}.tmp"
    file = os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666), "wb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError, PermissionError):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ArchiveError(RuntimeError):
    """A file that is no whole archive."""

    def __init__(self, reason: object) -> None:
        super().__init__(
            f"PytorchStreamReader failed reading zip archive: {reason}. The file is truncated, "
            "damaged, or no archive of PyTorch's kind."
        )


def _is_program(info: zipfile.ZipInfo) -> bool:
    """Whether a record is TorchScript, compressed text that is read only on request."""
    name = info.filename.partition("/")[2]
    return name.startswith("code/") and info.file_size < _LARGEST_PROGRAM


class ArchiveReader:
    """Reads records of an archive and checks all of it that it reads.

    Args:
        file: a path or a seekable file object.
        mmap: whether storages are mapped, whose bytes are then not checked.
        shared: whether writes into mapped storages reach the file.
    """

    def __init__(self, file: Any, mmap: bool, shared: bool = False) -> None:
        self.start = file.tell() if hasattr(file, "tell") else 0
        with _as_archive_errors():
            self.zip = zipfile.ZipFile(file)
            infos = self.zip.infolist()
            if not infos:
                raise ArchiveError("the archive is empty")
            if min(info.header_offset for info in infos) != self.start:
                raise ArchiveError("another one stands behind the archive that begins here")
            self._check(infos)
            self.root = infos[0].filename.partition("/")[0]
            self.names = {info.filename for info in infos}
            self.map: Any = self._mapped(file, shared) if mmap else None

    @staticmethod
    def _mapped(path: Any, shared: bool) -> Any:
        import mmap

        # Private pages, unless asked otherwise: tensors may be written into, the file stays.
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        with open(path, "r+b" if shared else "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=access)

    def _check(self, infos: list[zipfile.ZipInfo]) -> None:
        """That records lie within the file and, but for programs, are stored plainly, and the frame
        where it can be checked.
        """
        file: Any = self.zip.fp
        end = file.seek(0, 2)
        spans = []
        for info in sorted(infos, key=lambda info: info.header_offset):
            plain = info.compress_type == zipfile.ZIP_STORED
            if info.flag_bits & 1 or not (plain or _is_program(info)):
                raise ArchiveError(f"record {info.filename} is compressed or encrypted")
            start = self._data_offset(info)
            stop = start + info.compress_size
            if (plain and info.file_size != info.compress_size) or stop > end:
                raise ArchiveError(f"record {info.filename} does not lie within the file")
            spans.append((start, stop))
        if len(self.zip.namelist()) != len(set(self.zip.namelist())):
            raise ArchiveError("two records have one name")
        for info in infos:
            # Storages are checked when they are read; these are small, and some are never read.
            if "/data/" not in info.filename and not _is_program(info):
                self.zip.read(info)
        if not self.zip.comment:
            return
        found = _COMMENT.fullmatch(self.zip.comment)
        begin = min(info.header_offset for info in infos)
        if found is None or int(found[1], 16) != self._frame(begin, spans, end - _COMMENT_SIZE):
            raise ArchiveError("its headers do not have the checksum they were written with")

    def _frame(self, begin: int, spans: list[tuple[int, int]], end: int) -> int:
        """The checksum of all that is not content."""
        file: Any = self.zip.fp
        crc, position = 0, begin
        for start, stop in [*spans, (end, end)]:
            if start < position:
                raise ArchiveError("records overlap")
            file.seek(position)
            left = start - position
            while left:
                data = file.read(min(left, _CHUNK))
                if not data:
                    raise ArchiveError("it ends early")
                crc, left = zlib.crc32(data, crc), left - len(data)
            position = stop
        return crc

    def _data_offset(self, info: zipfile.ZipInfo) -> int:
        """Where the bytes of a record begin."""
        file: Any = self.zip.fp
        file.seek(info.header_offset)
        header = file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise ArchiveError(f"record {info.filename} has no header")
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        return info.header_offset + 30 + name_length + extra_length

    def has(self, record: str) -> bool:
        """Whether there is a record."""
        return f"{self.root}/{record}" in self.names

    def records(self, prefix: str) -> list[str]:
        """The names of all records that begin so."""
        start = f"{self.root}/"
        return [n[len(start) :] for n in sorted(self.names) if n.startswith(start + prefix)]

    def read(self, record: str) -> bytes:
        """The bytes of a record."""
        with _as_archive_errors():
            return self.zip.read(f"{self.root}/{record}")

    def info(self, record: str) -> zipfile.ZipInfo:
        """Where a record is, and how large."""
        try:
            return self.zip.getinfo(f"{self.root}/{record}")
        except KeyError:
            raise RuntimeError(
                f"PytorchStreamReader failed locating file {record}: file not found"
            ) from None

    def read_into(self, record: str, target: Any) -> None:
        """Reads a record into a buffer of its size."""
        info = self.info(record)
        with _as_archive_errors(), self.zip.open(info) as source:
            done = 0
            while done < info.file_size:
                count = source.readinto(target[done:])  # type: ignore[attr-defined]
                if not count:
                    raise ArchiveError(f"record {record} is truncated")
                done += count
            # The checksum is looked at when the end is met.
            source.read(1)

    def window(self, record: str) -> memoryview:
        """The bytes of a record in the file, mapped."""
        info = self.info(record)
        with _as_archive_errors():
            start = self._data_offset(info)
        return memoryview(self.map)[start : start + info.file_size]


@contextlib.contextmanager
def _as_archive_errors() -> Iterator[None]:
    """Turns what reading a damaged zip file raises into one exception."""
    try:
        yield
    except ArchiveError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        OverflowError,
        UnicodeError,
        ValueError,
        KeyError,
        IndexError,
    ) as error:
        raise ArchiveError(error) from error
