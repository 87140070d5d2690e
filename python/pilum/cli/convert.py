"""`pilum convert` without Skiff: tables, Parquet files and Arrow files into each other, reference sets into reference sets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pilum import dataset, parquet, references, write_dataset
from pilum.cli import kartothek, rows
from pilum.cli.kinds import NAMES, Kind, kind_of
from pilum.cli.shell import bar, settings
from pilum.exceptions import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedError


def convert(
    uri: str,
    target: str,
    options: tuple[str, ...],
    as_json: bool,
    partition_on: tuple[str, ...] = (),
    indices: tuple[str, ...] = (),
) -> int:
    """Convert what is at one address to another one, and return the number of rows, or of keys of a reference set.

    `partition_on` and `indices` are the partition keys and indexed columns of a new Kartothek dataset.

    Raises:
        InvalidInputError: There is no such conversion.
        AlreadyExistsError: The target exists.
    """
    kinds = kind_of(uri), kind_of(target)
    given = settings(options)
    if (kinds[1] == "arrow" or "references" in kinds) and Path(target).exists():
        raise AlreadyExistsError(f"{target}: it exists; remove it or choose another name")
    if "kartothek" in kinds:
        num_rows = kartothek.convert(uri, target, options, as_json, partition_on, indices)
        if num_rows is None:
            raise InvalidInputError(
                f"{uri} to {target}: pilum converts a Kartothek dataset to a table or a Parquet file, and back"
            )
        return num_rows
    if partition_on or indices:
        raise InvalidInputError(
            f"{target}: --partition-on and --index need a Kartothek dataset as target, STORE/NAME.by-dataset-metadata.json"
        )
    if "references" in kinds:
        return _set(uri, target, kinds, given)
    if "file" in kinds:
        raise InvalidInputError(f"{uri} to {target}: rows of one data file are read through its table")
    with bar("converting", as_json) as progress:
        if kinds == ("parquet", "table"):
            return parquet.import_(uri, target, storage_options=given, progress=progress).rows
        source = _source(uri, kinds[0], options)
        if kinds[1] == "parquet":
            return parquet.export(source, target, storage_options=given, progress=progress).rows
        if kinds[1] == "table":
            return write_dataset(source, target, storage_options=given, progress=progress).rows
        return _arrow(source, target)


def _source(uri: str, kind: Kind, options: tuple[str, ...]) -> Any:
    """Return the rows of an address as something that is read batch by batch."""
    if kind == "parquet":
        return parquet.dataset(uri, storage_options=settings(options))
    if kind == "table":
        return dataset(uri, storage_options=settings(options))
    return rows.reader(uri, kind, options)


def _set(uri: str, target: str, kinds: tuple[Kind, Kind], given: dict[str, str] | None) -> int:
    if kinds[0] != "references" or kinds[1] not in {"references", "parquet"}:
        raise InvalidInputError(
            f"{uri} to {target}: {NAMES[kinds[0]]} does not become {NAMES[kinds[1]]}; `pilum refs TABLE --to` makes "
            "references of a table"
        )
    opened = references.open(uri, storage_options=given)
    if target.endswith(".json"):
        opened.to_json(target, storage_options=given)
    elif target.endswith((".parq", ".parquet")):
        opened.to_parquet(target, storage_options=given)
    else:
        raise InvalidInputError(f"{target}: name it .json or .parq")
    return len(opened)


def _arrow(source: Any, target: str) -> int:
    """Write an Arrow file, which appears when it is complete; one that ends in .arrows is a stream."""
    import pyarrow as pa

    reader = source if isinstance(source, pa.RecordBatchReader) else source.to_reader()
    path = Path(os.path.expanduser(target))  # noqa: PTH111 - unlike `Path.expanduser`, it answers for any text
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    num_rows = 0
    try:
        new = pa.ipc.new_stream if target.endswith(".arrows") else pa.ipc.new_file
        with part.open("xb") as file:
            with new(file, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    num_rows += batch.num_rows
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)
    except FileNotFoundError as error:
        raise NotFoundError(f"{target}: {error.strerror}: {path.parent}") from error
    except FileExistsError:
        raise AlreadyExistsError(f"{target}: it exists; remove it or choose another name") from None
    except pa.ArrowException as error:
        raise UnsupportedError(f"{target}: an Arrow file does not hold these columns: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return num_rows
