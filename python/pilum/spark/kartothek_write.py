"""A DataFrame as partitions of a Kartothek dataset: the workers write data files, the driver commits once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pilum import _pilum
from pilum.arguments import checked
from pilum.exceptions import InvalidInputError
from pilum.kartothek import writing
from pilum.kartothek.dataset import Dataset
from pilum.kartothek.opened import open_engine
from pilum.kartothek.writing import LayoutArguments
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from pilum.location import Location, StorageOptions

STAGED_SCHEMA = "partition int, staged array<string>"


@dataclass(frozen=True, slots=True)
class SharedWrite:
    """What all tasks of a write have in common."""

    where: Location
    uuid: str
    table: str
    schema: pa.Schema
    partition_on: tuple[str, ...]
    indices: tuple[str, ...]
    layout: LayoutArguments
    marker: str


@checked(
    LayoutArguments,
    store_uri=None,
    dataset_uuid=None,
    partition_on=None,
    secondary_indices=None,
    delete_scope=None,
    metadata=None,
)
def write_kartothek(
    df: DataFrame,
    store_uri: str | os.PathLike[str],
    dataset_uuid: str,
    mode: Literal["append", "create", "overwrite"] = "append",
    *,
    table: str = writing.TABLE,
    partition_on: str | Sequence[str] | None = None,
    secondary_indices: str | Sequence[str] | None = None,
    delete_scope: Iterable[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    **layout: Unpack[LayoutArguments],
) -> Dataset:
    """Write the rows of a DataFrame to a Kartothek dataset, as one commit, and return the dataset.

    Each task writes its rows, one file for each value of the partition keys; group the rows by these first if files would be
    small. Files of attempts that Spark repeats never become part of the dataset.

    Args:
        df: The rows.
        store_uri: The store, reachable from the driver and the workers.
        dataset_uuid: The name of the dataset.
        mode: `"append"` adds rows, and makes the dataset if there is none; `"create"` refuses an existing one; `"overwrite"`
            replaces it.
        table: The table.
        partition_on: As in `pilum.kartothek.write`; by default those of the dataset.
        secondary_indices: As in `pilum.kartothek.write`; by default those of the dataset.
        delete_scope: As in `pilum.kartothek.Dataset.update`; for `"append"` only.
        metadata: User metadata to set.
        storage_options: Credentials and settings of the store, sent to the workers.
        **layout: As in `pilum.kartothek.write`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a dataset.
        InvalidInputError: The rows do not fit the dataset; the message names the column.
        ConflictError: Another writer removed a partition that this write removes.
    """
    if mode not in ("append", "create", "overwrite"):
        raise InvalidInputError(f"mode is 'append', 'create' or 'overwrite', not {mode!r}")
    if delete_scope is not None and mode != "append":
        raise InvalidInputError("delete_scope: only a write with mode='append' removes some partitions")
    where = writing.place_of(store_uri, storage_options)
    writer = writing.writer_of(where, dataset_uuid)
    members = writing.json_members(metadata)
    found = None if mode == "overwrite" else writer.layout()
    if found is not None and mode == "create":
        raise _pilum.AlreadyExistsError(f"{where.shown}: there is a dataset {dataset_uuid!r}; use another mode")
    keys = writing.names_of(partition_on) if found is None or partition_on is not None else found[0]
    indices = writing.names_of(secondary_indices) if found is None else found[1]
    removed = writer.in_scope(writing.scope_of(delete_scope))
    shared = SharedWrite(
        where,
        dataset_uuid,
        table,
        from_spark_schema(df.schema),
        tuple(keys),
        tuple(indices),
        layout,
        writer.new_marker(),
    )
    staged = _staged(df, shared, writer)
    existing = {"append": "update", "create": "refuse", "overwrite": "replace"}[mode]
    with writing.committing(writer, staged):
        writer.update(
            staged,
            removed=removed,
            metadata=members,
            partition_on=keys,
            indices=indices if found is None else None,
            existing=existing,
        )
    options: dict[str, Any] = {"slashes": None, "timestamp_unit": "ns"}
    return Dataset(open_engine(where, dataset_uuid, options), where, options)


def _staged(df: DataFrame, shared: SharedWrite, writer: _pilum.KartothekWriter) -> list[str]:
    """Run the tasks, and return the partitions of one attempt of each; those of a write without rows tell its columns."""
    # Stage the columns first: this refuses columns that do not fit before any task runs.
    empty = writing.Frame({shared.table: shared.schema.empty_table()})
    columns = writing.stage(
        writer, empty, list(shared.partition_on), list(shared.indices), shared.layout, shared.marker, schema_only=True
    )
    # Run one action only: a second action would write all rows again.
    results = df.mapInArrow(_write_of(shared), STAGED_SCHEMA).collect()
    staged = [text for one in sorted(results, key=lambda it: it.partition) for text in one.staged]
    return staged + columns


def write_task(batches: Iterator[pa.RecordBatch], shared: SharedWrite) -> list[str]:
    """Write the rows of one task."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return []

    def rows() -> Iterator[pa.RecordBatch]:
        yield first.cast(shared.schema)
        for batch in batches:
            if batch.num_rows:
                yield batch.cast(shared.schema)

    writer = writing.writer_of(shared.where, shared.uuid)
    reader = pa.RecordBatchReader.from_batches(shared.schema, rows())
    frame = writing.Frame({shared.table: reader})
    return writing.stage(writer, frame, list(shared.partition_on), list(shared.indices), shared.layout, shared.marker)


def _write_of(shared: SharedWrite) -> Any:
    def pilum_write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        staged = write_task(batches, shared)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([context.partitionId() if context else 0], pa.int32()),
                pa.array([staged], pa.list_(pa.string())),
            ],
            names=["partition", "staged"],
        )

    return pilum_write
