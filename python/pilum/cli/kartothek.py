"""What the commands do with a Kartothek dataset: its address is that of its metadata document, or of its folder beside it."""

from __future__ import annotations

import os
from pathlib import Path

from pilum import dataset, kartothek, parquet
from pilum.cli import show
from pilum.cli.parquet import is_parquet
from pilum.cli.shell import bar, console, grid, row, settings, write_json
from pilum.exceptions import InvalidInputError
from pilum.skiff.convert import kind_of

SUFFIXES = (".by-dataset-metadata.json", ".by-dataset-metadata.msgpack.zstd")


def address(uri: str) -> tuple[str, str] | None:
    """Return store and name of the dataset at an address; None if it is something else."""
    plain = uri.rstrip("/")
    store, _, name = plain.rpartition("/")
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return store or ".", name.removesuffix(suffix)
    folder = os.path.expanduser(plain)  # noqa: PTH111 - unlike `Path.expanduser`, it answers for any text
    if name and any(Path(folder + suffix).is_file() for suffix in SUFFIXES):
        return store or ".", name
    return None


def is_kartothek(uri: str) -> bool:
    """Return whether an address is a Kartothek dataset."""
    return address(uri) is not None


def _open(uri: str, options: tuple[str, ...]) -> kartothek.Dataset:
    store, name = address(uri) or (uri, "")
    return kartothek.dataset(store, name, storage_options=settings(options))


def inspect(uri: str, options: tuple[str, ...], as_json: bool) -> None:
    """Show what a dataset consists of, from its metadata alone."""
    k = _open(uri, options)
    indices = {column: index.key for column, index in k.indices.items()}
    if as_json:
        every = {
            label: {"keys": {name: str(value) for name, value in it.keys.items()}, "files": dict(it.files)}
            for label, it in k.partitions.items()
        }
        described = {
            "uuid": k.uuid,
            "store": k.uri,
            "form": k.engine.form,
            "is_explicit": k.engine.is_explicit,
            "tables": k.tables,
            "partition_keys": k.partition_keys,
            "indices": indices,
            "metadata": k.metadata,
            "partitions": every,
        }
        write_json({"kind": "kartothek", "kartothek": described})
        return
    show.facts(
        {
            "dataset": k.uuid,
            "store": k.uri,
            "document": k.engine.form,
            "tables": ", ".join(k.tables) or "none",
            "partition keys": ", ".join(k.partition_keys) or "none",
            "partitions": f"{len(k.labels)}{'' if k.engine.is_explicit else ', found by listing'}",
            "indices": ", ".join(indices) or "none",
            "created": k.metadata.get("creation_time", "unknown"),
        }
    )
    labels = k.labels
    partitions = grid("partition", title="Partitions")
    for label in labels[:20]:
        row(partitions, label)
    if len(labels) > 20:
        row(partitions, f"… and {len(labels) - 20} more")
    console().print(partitions)


def schema(uri: str, options: tuple[str, ...], as_json: bool) -> None:
    """Show the columns of each table."""
    k = _open(uri, options)
    for table in k.tables:
        found = [
            {"id": place, "name": field.name, "data_type": str(field.type), "nullable": field.nullable}
            for place, field in enumerate(k.schema(table))
        ]
        if as_json and len(k.tables) == 1:
            write_json({"columns": found})
        elif not as_json:
            show.facts({"table": table})
            show.columns(found)
    if as_json and len(k.tables) != 1:
        every = {table: [{"name": it.name, "data_type": str(it.type)} for it in k.schema(table)] for table in k.tables}
        write_json({"tables": every})


def scanner(
    uri: str, options: tuple[str, ...], names: list[str] | None, condition: str | None, limit: int
) -> kartothek.Scanner:
    """Plan a read of the first rows."""
    return _open(uri, options).scanner(None, condition, names, limit=limit)


def count(uri: str, options: tuple[str, ...], condition: str | None) -> int:
    """Return the number of rows."""
    return _open(uri, options).count_rows(None, condition)


def convert(
    uri: str,
    target: str,
    options: tuple[str, ...],
    as_json: bool,
    partition_on: tuple[str, ...] = (),
    indices: tuple[str, ...] = (),
) -> int | None:
    """Convert a dataset to a table or to Parquet, or one of these to a dataset, and return the number of rows.

    Returns None, and converts nothing, if the addresses are of other kinds. If both addresses are datasets, the files are
    copied byte by byte, with the indices.
    """
    made = address(target)
    if made is not None:
        return _to_dataset(uri, made, options, as_json, partition_on, indices)
    kind = kind_of(target)
    if kind not in {"table", "parquet"}:
        return None
    k = _open(uri, options)
    with bar("converting", as_json) as progress:
        if kind == "table":
            return kartothek.to_pilum(k, target, table_storage_options=settings(options), progress=progress).rows
        return parquet.export(k.scanner(), target, storage_options=settings(options), progress=progress).rows


def _to_dataset(
    uri: str,
    made: tuple[str, str],
    options: tuple[str, ...],
    as_json: bool,
    partition_on: tuple[str, ...],
    indices: tuple[str, ...],
) -> int | None:
    given = settings(options)
    if is_kartothek(uri):
        if partition_on or indices:
            raise InvalidInputError(
                f"{uri}: a dataset is copied with its partition keys and indices; leave out --partition-on and --index"
            )
        k = _open(uri, options)
        copy = k.copy_to(*made, storage_options=given)
        return sum(copy.count_rows(table) for table in copy.tables)
    kind = "parquet" if is_parquet(uri) else kind_of(uri)
    if kind not in {"table", "parquet"}:
        return None
    source = dataset(uri, storage_options=given) if kind == "table" else parquet.dataset(uri, storage_options=given)
    with bar("converting", as_json) as progress:
        copied = kartothek.from_pilum(
            source,
            *made,
            partition_on=partition_on,
            secondary_indices=indices,
            storage_options=given,
            progress=progress,
        )
    return copied.rows
