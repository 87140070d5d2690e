"""Rows of the files that the commands take beside tables and Parquet files: Arrow files, Skiff streams, reference sets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilum import references
from pilum.cli.kinds import NAMES, Kind
from pilum.cli.shell import settings
from pilum.exceptions import CorruptError, InvalidInputError, LimitError, NotFoundError
from pilum.skiff.codec import decode
from pilum.skiff.formats import Format, Strings

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_MAGIC = b"ARROW1"
"""How an Arrow file begins; an Arrow stream does not."""


def reader(uri: str, kind: Kind, options: tuple[str, ...], skiff_format: str | None = None) -> pa.RecordBatchReader:
    """Return the rows of an Arrow file, of the first table of a Skiff stream, or of a reference set: a row for each key.

    Raises:
        NotFoundError: There is no such file.
        InvalidInputError: A Skiff stream has no format, or rows of another table.
        CorruptError: The file is damaged.
    """
    import pyarrow as pa

    if kind == "kartothek":
        raise InvalidInputError(
            f"{uri}: it is a Kartothek dataset, which this command does not take: convert it to a table"
        )
    if kind == "references":
        return references.open(uri, storage_options=settings(options)).to_arrow().to_reader()
    path = Path(os.path.expanduser(uri))  # noqa: PTH111 - unlike `Path.expanduser`, it answers for any text
    if not path.is_file():
        raise NotFoundError(f"{uri}: there is no such local file")
    if kind == "arrow":
        return _arrow(path, uri)
    if skiff_format is None:
        raise InvalidInputError(f"{uri}: a Skiff stream is read by its format only; pass --format FILE")
    fmt = format_of(skiff_format)
    return pa.RecordBatchReader.from_batches(fmt.schemas[0], _skiff(path, fmt, uri))


def format_of(given: str, strings: Strings = "binary") -> Format:
    """Return the format that the option `--format` gives.

    Raises:
        InvalidInputError: There is no such file, or it is no format.
    """
    try:
        return Format.load(given, strings=strings)
    except (InvalidInputError, NotFoundError) as error:
        raise InvalidInputError(f"--format: {error}") from error
    except OSError as error:
        raise InvalidInputError(f"--format: {given}: {error.strerror}") from error


def _skiff(path: Path, fmt: Format, uri: str) -> Iterator[pa.RecordBatch]:
    with path.open("rb", buffering=0) as file:
        for number, batch in decode(file.fileno(), fmt):
            if number != 0:
                raise InvalidInputError(f"{uri}: the stream has rows of table {number}; those of table 0 are read")
            yield batch


def _arrow(path: Path, uri: str) -> pa.RecordBatchReader:
    import pyarrow as pa

    mapped = pa.memory_map(str(path))
    try:
        is_file = mapped.read(len(ARROW_MAGIC)) == ARROW_MAGIC
        mapped.seek(0)
        if not is_file:
            opened = pa.ipc.open_stream(mapped)
            return pa.RecordBatchReader.from_batches(opened.schema, _sound(opened, uri))
        file = pa.ipc.open_file(mapped)
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
        return pa.RecordBatchReader.from_batches(file.schema, _sound(batches, uri))
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{uri}: it is no Arrow file, or damaged: {error}") from error


def _sound(batches: Any, uri: str) -> Iterator[pa.RecordBatch]:
    """Yield batches whose offsets and texts are as they must be."""
    import pyarrow as pa

    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)
            yield batch
            number += 1
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{uri}: batch {number}: {error}") from error


def first(
    uri: str,
    kind: Kind,
    options: tuple[str, ...],
    skiff_format: str | None,
    names: list[str] | None,
    condition: str | None,
    n: int,
) -> pa.Table:
    """Return the first rows.

    Raises:
        InvalidInputError: There is a filter, or no such column.
    """
    import pyarrow as pa

    if condition is not None:
        raise InvalidInputError(f"{uri}: --filter is for tables and Parquet files; convert {NAMES[kind]} first")
    source = reader(uri, kind, options, skiff_format)
    for name in names or []:
        if name not in source.schema.names:
            raise InvalidInputError(f"{uri}: there is no column {name!r}; there are {', '.join(source.schema.names)}")
    taken, rows = [], 0
    for batch in source:
        if rows >= n:
            break
        taken.append(batch.slice(0, n - rows))
        rows += taken[-1].num_rows
    table = pa.Table.from_batches(taken, source.schema)
    return table if names is None else table.select(names)


def count(uri: str, kind: Kind, options: tuple[str, ...], skiff_format: str | None, condition: str | None) -> int:
    """Return the number of rows."""
    if condition is not None:
        raise InvalidInputError(f"{uri}: --filter is for tables and Parquet files; convert {NAMES[kind]} first")
    if kind == "references":
        return len(references.open(uri, storage_options=settings(options)))
    return sum(batch.num_rows for batch in reader(uri, kind, options, skiff_format))


def columns(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return columns as `pilum schema` shows them."""
    return [
        {"id": place, "name": field.name, "data_type": str(field.type), "nullable": field.nullable}
        for place, field in enumerate(schema)
    ]


def verify(uri: str, kind: Kind, options: tuple[str, ...], skiff_format: str | None) -> dict[str, Any]:
    """Read every row of a file, and every reference of a set; return what `Dataset.verify` returns."""
    report: dict[str, Any] = {
        "ok": True,
        "version": None,
        "problems": [],
        "uncovered": [],
        "orphans": [],
        "num_files": 1,
    }
    if kind == "references":
        opened = references.open(uri, storage_options=settings(options))
        found = opened.validate(reachable=True)
        report["problems"] = [{"path": key, "check": "references", "reason": reason} for key, reason in found]
        report["num_rows"] = len(opened)
    else:
        report["uncovered"] = [{"path": uri, "reason": f"{NAMES[kind]} has no checksums"}]
        report["num_rows"] = 0
        try:
            for batch in reader(uri, kind, options, skiff_format):
                report["num_rows"] += batch.num_rows
        except (CorruptError, LimitError) as error:
            check = "stream" if kind == "skiff" else "batches"
            report["problems"] = [{"path": uri, "check": check, "reason": " ".join(str(error).split())}]
    report["ok"] = not report["problems"]
    return report
