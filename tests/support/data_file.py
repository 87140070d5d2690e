"""One data file taken apart, as far as comparing two writers needs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

SCHEMA = 1
FIELD_ID = 3
PARENT_ID = 4
WRITER_VERSION = 13
MANIFEST_POSITION = 1
BATCH_OFFSETS = 2
PAGE_TABLE_POSITION = 3
STATISTICS = 5


@dataclass(frozen=True)
class DataFile:
    """The blocks of a data file. What lies before the embedded manifest is pages, tables and dictionaries."""

    content: bytes
    pages: bytes
    manifest: list[tuple[int, bytes]]
    metadata: bytes
    versions: bytes

    @classmethod
    def of(cls, path: Path) -> DataFile:
        content = path.read_bytes()
        (metadata_at,) = struct.unpack("<Q", content[-16:-8])
        metadata = prefixed(content, metadata_at)
        (manifest_at,) = [varint(value, 0)[0] for number, value in fields(metadata) if number == MANIFEST_POSITION]
        return cls(content, content[:manifest_at], fields(prefixed(content, manifest_at)), metadata, content[-8:])

    def without_writer(self) -> list[tuple[int, bytes]]:
        """Return the embedded manifest's fields but for the name and version of the writer."""
        return [(number, value) for number, value in self.manifest if number != WRITER_VERSION]

    @property
    def field_ids(self) -> list[list[tuple[int, bytes]]]:
        """Return ids and parents of the fields, in order, as they are stored."""
        columns = [fields(value) for number, value in self.manifest if number == SCHEMA]
        return [[part for part in column if part[0] in {FIELD_ID, PARENT_ID}] for column in columns]

    @property
    def page_table_at(self) -> int:
        """Return where the page table begins."""
        (position,) = [varint(value, 0)[0] for number, value in fields(self.metadata) if number == PAGE_TABLE_POSITION]
        return position

    @property
    def batch_offsets(self) -> list[bytes]:
        """Return the rows at which batches begin, as they are stored."""
        return [value for number, value in fields(self.metadata) if number == BATCH_OFFSETS]

    @property
    def page_table(self) -> bytes:
        """Return the positions and lengths of all pages: 16 bytes for each batch of each field id."""
        ids = [dict(column).get(FIELD_ID, b"\0") for column in self.field_ids]
        numbers = [varint(value, 0)[0] for value in ids]
        at, count = 0, -1
        offsets = b"".join(self.batch_offsets)
        while at < len(offsets):
            _, at = varint(offsets, at)
            count += 1
        length = 16 * count * (max(numbers) - min(numbers) + 1)
        return self.content[self.page_table_at : self.page_table_at + length]


def prefixed(content: bytes, at: int) -> bytes:
    """Return a block that begins with its length."""
    (length,) = struct.unpack("<I", content[at : at + 4])
    return content[at + 4 : at + 4 + length]


def fields(message: bytes) -> list[tuple[int, bytes]]:
    """Return the top-level fields of a protobuf message as (number, raw bytes)."""
    found = []
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        match key & 7:
            case 0:
                _, end = varint(message, at)
            case 1:
                end = at + 8
            case 2:
                length, at = varint(message, at)
                end = at + length
            case 5:
                end = at + 4
            case other:
                raise ValueError(f"wire type {other} at byte {at}")
        found.append((key >> 3, message[at:end]))
        at = end
    return found


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer and the place behind it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def without_statistics(path: Path) -> None:
    """Take the statistics of pages from a data file: its last message again, behind the old one, without their field.

    Its checksum is that of the old message, so the file must be read without checking.
    """
    content = path.read_bytes()
    (metadata_at,) = struct.unpack("<Q", content[-16:-8])
    metadata = prefixed(content, metadata_at)
    kept, at = b"", 0
    while at < len(metadata):
        key, end = varint(metadata, at)
        if key & 7 == 2:
            length, end = varint(metadata, end)
            end += length
        else:
            _, end = varint(metadata, end)
        if key >> 3 != STATISTICS:
            kept += metadata[at:end]
        at = end
    block = struct.pack("<I", len(kept)) + kept
    path.write_bytes(content + block + struct.pack("<Q", len(content)) + content[-8:])
