"""One data file without its table: describe it, verify it."""

from __future__ import annotations

import json
import os
from typing import Any

from pilum import _pilum
from pilum.arguments import checked
from pilum.location import Location, StorageOptions


@checked()
def describe_file(uri: str | os.PathLike[str], *, storage_options: StorageOptions | None = None) -> dict[str, Any]:
    """Return the layout of one `.lance` file: sections, columns, pages, validity, statistics, checksums.

    Pages are not read. Sizes and positions are in bytes; the keys are those of `pilum inspect --json` below `file`.

    Args:
        uri: A path or URL of the file.
        storage_options: Credentials and settings of the store; never shown in a message.

    Raises:
        NotFoundError: There is no such file.
        CorruptError: The file is damaged, or of another format.
        UnsupportedError: The file has a later format, or does not contain its schema.

    Example:
        `layout = pilum.describe_file(f"{uri}/{ds.fragments[0].files[0]}")`
    """
    where = Location.of(uri, storage_options)
    described: dict[str, Any] = json.loads(_pilum.describe_file(where.uri, storage_options=where.options()))
    return described


@checked()
def verify_file(uri: str | os.PathLike[str], *, storage_options: StorageOptions | None = None) -> _pilum.VerifyReport:
    """Read one `.lance` file and check it against the schema in it; the arguments are those of `describe_file`.

    What only the table records, such as deleted rows and the checksum of the page table, is not checked.

    Example:
        `assert pilum.verify_file(f"{uri}/{ds.fragments[0].files[0]}")`
    """
    where = Location.of(uri, storage_options)
    return _pilum.verify_file(where.uri, storage_options=where.options())
