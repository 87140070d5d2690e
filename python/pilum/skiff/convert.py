"""Skiff streams to and from tables, Parquet files and Arrow files, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pilum.dataset import dataset, write_dataset
from pilum.exceptions import AlreadyExistsError, InvalidInputError, NotFoundError
from pilum.skiff.codec import Format, decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["skiff", "parquet", "arrow", "table"]


def kind_of(uri: str) -> Kind:
    """Return what an address is by its ending; without one that is known, a table."""
    match Path(uri).suffix:
        case ".skiff":
            return "skiff"
        case ".parquet":
            return "parquet"
        case ".arrow" | ".ipc" | ".feather":
            return "arrow"
    return "table"


def convert(
    source: str,
    target: str,
    format: Format | None = None,
    *,
    table: int = 0,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Convert between a Skiff stream and a table, a Parquet file or an Arrow file, and return the number of rows.

    What an address is, its ending tells: `.skiff`, `.parquet`, `.arrow` (also `.ipc`, `.feather`); anything else is a table. A
    target that exists is not replaced.

    Args:
        source: Where the rows are.
        target: Where they go.
        format: The format of the Skiff stream. Without it, a stream is written in the format that `Format.from_arrow` gives.
        table: The table of the format. Rows of other tables in a stream are an error.
        storage_options: Settings of the store of a table.

    Raises:
        InvalidInputError: Neither side is a Skiff stream, or a stream is to be read without its format.
        AlreadyExistsError: The target exists.
        CorruptError: The stream is malformed.
    """
    kinds = kind_of(source), kind_of(target)
    if "skiff" not in kinds:
        raise InvalidInputError(f"{source} to {target}: one of them must be a .skiff file")
    if kinds[1] != "table" and Path(target).exists():
        raise AlreadyExistsError(f"{target}: it exists; remove it or choose another name")
    if kinds[0] == "skiff":
        if format is None:
            raise InvalidInputError(f"{source}: a Skiff stream is read by its format only; pass one")
        schema = format.schemas[table]
        with existing(source).open("rb", buffering=0) as file:
            return _write(target, kinds[1], schema, _one_table(file.fileno(), format, table), format, storage_options)
    schema, batches = _read(source, kinds[0], storage_options)
    return _write(target, "skiff", schema, batches, format or Format.from_arrow(schema), storage_options, table)


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
                f"the stream has rows of table {number}; only those of table {table} can be converted"
            )
        yield batch


def _read(
    source: str, kind: Kind, storage_options: Mapping[str, str] | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "parquet":
        parquet = pq.ParquetFile(existing(source))
        return parquet.schema_arrow, parquet.iter_batches()
    if kind == "arrow":
        arrow = pa.ipc.open_file(pa.memory_map(str(existing(source))))
        return arrow.schema, (arrow.get_batch(number) for number in range(arrow.num_record_batches))
    reader = dataset(source, storage_options=storage_options).to_reader()
    return reader.schema, iter(reader)


def _write(
    target: str,
    kind: Kind,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    format: Format,
    storage_options: Mapping[str, str] | None,
    table: int = 0,
) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if kind == "skiff":
        with Path(target).open("xb", buffering=0) as file:
            return encode(batches, file, format, table)
    if kind == "table":
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return write_dataset(reader, target, storage_options=storage_options).rows
    rows = 0
    writer = pq.ParquetWriter(target, schema) if kind == "parquet" else pa.ipc.new_file(target, schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
