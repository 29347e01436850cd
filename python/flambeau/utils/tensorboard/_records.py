"""The bytes of event files: protocol-buffer fields, and records with checksums.

A record is its length, a checksum of the length, the data, and a checksum of the data; checksums
are CRC-32C, masked, as TensorFlow defined them.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "RecordWriter",
    "crc32c",
    "doubles",
    "fixed32",
    "fixed64",
    "integer",
    "message",
    "text",
    "varint",
]


def _table() -> tuple[int, ...]:
    """The checksums of single bytes, for the reversed polynomial of Castagnoli."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_CRC_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The CRC-32C of some bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked(crc: int) -> int:
    """A checksum rotated so that data which holds checksums itself is still checked well."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# Fields of a message: a key (number and kind of the field), and the value.
def integer(value: int) -> bytes:
    """An integer in as few bytes as it needs."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(field: int, value: int) -> bytes:
    """An integer."""
    return integer(field << 3) + integer(int(value))


def fixed64(field: int, value: float) -> bytes:
    """A double."""
    return integer(field << 3 | 1) + struct.pack("<d", value)


def fixed32(field: int, value: float) -> bytes:
    """A float."""
    return integer(field << 3 | 5) + struct.pack("<f", value)


def message(field: int, content: bytes) -> bytes:
    """Bytes, or another message."""
    return integer(field << 3 | 2) + integer(len(content)) + content


def text(field: int, content: str) -> bytes:
    """A string."""
    return message(field, content.encode())


def doubles(field: int, values: Iterable[float]) -> bytes:
    """A list of doubles as one block."""
    numbers = list(values)
    return message(field, struct.pack(f"<{len(numbers)}d", *numbers))


class RecordWriter:
    """Appends records to a file object."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        """Appends one record."""
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", _masked(crc32c(length))))
        self._file.write(data + struct.pack("<I", _masked(crc32c(data))))

    def flush(self) -> None:
        """Hands what was written to the system."""
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
