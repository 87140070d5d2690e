"""Skiff streams to and from tables, Parquet files and Arrow files, batch by batch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pilum.arguments import checked
from pilum.dataset import dataset, write_dataset
from pilum.exceptions import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError
from pilum.skiff.arguments import text
from pilum.skiff.codec import decode, encode
from pilum.skiff.formats import Format, check_format, table_number

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["skiff", "parquet", "arrow", "table"]

ARROW_MAGIC = b"ARROW1"
"""How an Arrow file begins; an Arrow stream does not."""


OTHER_FILES = re.compile(
    r"\.(avro|bz2|csv|gz|json|jsonl|ndjson|orc|pickle|pkl|sqlite|tar|text|tsv|txt|xls|xlsx|xml|yaml|yson|zip|zst)"
)
"""Endings of files that pilum does not convert. An address with such an ending is not taken for a table."""


def kind_of(uri: str) -> Kind:
    """Return the kind of an address by its ending: a table, if the ending is not known.

    Raises:
        InvalidInputError: The ending is that of another kind of file.
    """
    match Path(uri).suffix.lower():
        case ".skiff":
            return "skiff"
        case ".parquet":
            return "parquet"
        case ".arrow" | ".ipc" | ".feather":
            return "arrow"
    check_table_name(uri)
    return "table"


def check_table_name(uri: str) -> None:
    """Refuse the address of a table whose ending is that of another kind of file.

    Raises:
        InvalidInputError: There is no folder of this name, and its ending is that of another kind of file.
    """
    ending = Path(uri).suffix.lower()
    if OTHER_FILES.fullmatch(ending) and not Path(uri).is_dir():
        raise InvalidInputError(
            f"{uri}: {ending} files are neither read nor written; .skiff, .parquet and .arrow (.ipc, .feather) files are; "
            "give a table a name without such an ending"
        )


@checked()
def convert(
    source: str,
    target: str,
    format: Format | None = None,
    *,
    table: int = 0,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Convert between a Skiff stream and a table, a Parquet file or an Arrow file, and return the number of rows.

    The ending of an address tells its kind: `.skiff`, `.parquet`, `.arrow` (also `.ipc`, `.feather`). Endings of other kinds of
    files, such as `.csv`, are refused. Any other address is a table. A target that exists is not replaced, and one
    that could not be finished is removed.

    Args:
        source: Where the rows are.
        target: Where they go.
        format: The format of the Skiff stream. Without it, a stream is written in the format that `Format.from_arrow` gives.
        table: The table of the format. Rows of other tables in a stream are an error.
        storage_options: Settings of the store of a table.

    Raises:
        InvalidInputError: Neither side is a Skiff stream, an ending is that of another kind of file, a stream is to be read
            without its format, or it has rows of another table.
        UnsupportedError: The target cannot hold a column.
        AlreadyExistsError: The target exists.
        CorruptError: The stream is malformed.
    """
    source, target = text("source", source), text("target", target)
    kinds = kind_of(source), kind_of(target)
    if "skiff" not in kinds:
        raise InvalidInputError(f"{source} to {target}: one of them must be a .skiff file")
    if kinds[1] != "table" and Path(target).exists():
        raise AlreadyExistsError(f"{target}: it exists; remove it or choose another name")
    if format is not None:
        table = table_number(table, check_format(format))
    if kinds[0] == "skiff":
        if format is None:
            raise InvalidInputError(
                f"{source}: a Skiff stream is read by its format only; pass format, or --format FILE"
            )
        schema = format.schemas[table]
        with existing(source).open("rb", buffering=0) as file:
            batches = _one_table(file.fileno(), format, table)
            return _write(target, kinds[1], schema, batches, format, table, storage_options)
    schema, batches = _read(source, kinds[0], storage_options)
    format = Format.from_arrow(schema) if format is None else format
    return _write(target, "skiff", schema, batches, format, table, storage_options)


def existing(path: str) -> Path:
    """Return the path of a local file.

    Raises:
        NotFoundError: There is none.
    """
    if not Path(path).is_file():
        raise NotFoundError(f"{path}: there is no such local file")
    return Path(path)


def _one_table(descriptor: int, format: Format, table: int) -> Iterator[pa.RecordBatch]:
    for number, batch in decode(descriptor, format):
        if number != table:
            raise InvalidInputError(
                f"the stream has rows of table {number}; those of table {table} alone can be converted; `table` chooses"
            )
        yield batch


def _read(
    source: str, kind: Kind, storage_options: Mapping[str, str] | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "table":
        reader = dataset(source, storage_options=storage_options).to_reader()
        return reader.schema, iter(reader)
    path = existing(source)
    try:
        if kind == "parquet":
            parquet = pq.ParquetFile(path)
            return parquet.schema_arrow, parquet.iter_batches()
        mapped = pa.memory_map(str(path))
        if mapped.read(len(ARROW_MAGIC)) == ARROW_MAGIC:
            arrow = pa.ipc.open_file(mapped)
            return arrow.schema, (arrow.get_batch(number) for number in range(arrow.num_record_batches))
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{source}: it is no {kind} file: {error}") from error
    return stream.schema, iter(stream)


def _write(
    target: str,
    kind: Kind,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    format: Format,
    table: int,
    storage_options: Mapping[str, str] | None,
) -> int:
    import pyarrow as pa

    if kind == "table":
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return write_dataset(reader, target, storage_options=storage_options).rows
    # The target appears when it is complete: a fault of the source leaves nothing behind.
    path = Path(target)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if kind == "skiff":
            with part.open("xb", buffering=0) as file:
                rows = encode(batches, file, format, table)
        else:
            rows = _write_columns(part, kind, schema, batches, target)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        _publish(part, path)
    except FileNotFoundError as error:
        raise NotFoundError(f"{target}: {error.strerror}: {path.parent}") from error
    finally:
        part.unlink(missing_ok=True)
    return rows


def _publish(part: Path, path: Path) -> None:
    """Give a complete file its name, if no other has it."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise AlreadyExistsError(f"{path}: it exists; remove it or choose another name") from None
    except OSError:
        # This file system has no links.
        part.rename(path)


def _write_columns(part: Path, kind: Kind, schema: pa.Schema, batches: Iterator[pa.RecordBatch], target: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    try:
        writer = pq.ParquetWriter(part, schema) if kind == "parquet" else pa.ipc.new_file(str(part), schema)
        with writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
    except pa.ArrowException as error:
        raise UnsupportedError(f"{target}: a {kind} file does not hold these columns: {error}") from error
    return rows
