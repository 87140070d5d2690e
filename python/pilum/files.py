"""Data files on their own, outside of their table."""

from __future__ import annotations

import json
import os
from typing import Any

from pilum import _pilum
from pilum.location import Location, StorageOptions


def describe_file(uri: str | os.PathLike[str], *, storage_options: StorageOptions | None = None) -> dict[str, Any]:
    """Return what lies where in one `.lance` file: sections, columns, pages, validity, statistics, checksums.

    No page is read. Sizes and positions are in bytes; the keys are those of `pilum inspect --json` below `file`.

    Args:
        uri: A path or URL of the file.
        storage_options: Credentials and settings of the store; never shown in a message.

    Raises:
        NotFoundError: There is no such file.
        CorruptError: The file is damaged, or of another format.
        UnsupportedError: It is of a later format, or does not hold the schema that describing takes.
    """
    where = Location.of(uri, storage_options)
    described: dict[str, Any] = json.loads(_pilum.describe_file(where.uri, storage_options=where.options()))
    return described


def verify_file(uri: str | os.PathLike[str], *, storage_options: StorageOptions | None = None) -> _pilum.VerifyReport:
    """Read and check one `.lance` file by the schema that is in it; the arguments are those of `describe_file`.

    What only a table knows, such as deleted rows and the checksum of the file's directory, is not looked at.
    """
    where = Location.of(uri, storage_options)
    return _pilum.verify_file(where.uri, storage_options=where.options())
