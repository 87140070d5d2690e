"""A table of a Kartothek dataset as a DataFrame: partitions are tasks, and keys and indices leave some out beforehand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pilum.arguments import checked, names, positive
from pilum.exceptions import InvalidInputError
from pilum.kartothek.dataset import Dataset, dataset
from pilum.kartothek.opened import open_engine
from pilum.spark.conform import conform_batches
from pilum.spark.types import spark_safe, to_spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pilum.location import Location, StorageOptions

MOST_TASKS = 256
"""Tasks at most, unless the caller says how many: each of them costs some 50 ms whatever it does."""

BATCH_ROWS = 8192
"""Rows in a batch handed to Spark."""


@dataclass(frozen=True, slots=True)
class SharedRead:
    """What all tasks of a read have in common."""

    where: Location
    uuid: str
    table: str
    options: dict[str, Any]
    columns: tuple[str, ...] | None
    filter: Any
    schema: pa.Schema
    batch_rows: int
    limit: int | None
    documents: tuple[bytes, ...] = field(repr=False)
    """For each task, a metadata document with its partitions."""


@checked(store_uri=None, dataset_uuid=None, columns=names, tasks=positive)
def read_kartothek(
    spark: SparkSession,
    store_uri: str | os.PathLike[str],
    dataset_uuid: str,
    table: str | None = None,
    predicates: Any = None,
    columns: Sequence[str] | None = None,
    tasks: int | None = None,
    *,
    limit: int | None = None,
    slashes: Literal["join", "ignore"] | None = None,
    batch_rows: int = BATCH_ROWS,
    storage_options: StorageOptions | None = None,
) -> DataFrame:
    """Return a table of a Kartothek dataset, or a part of it, as a DataFrame.

    The driver reads the metadata document and the indices of the columns that the predicates name. Partitions that cannot have
    a row that passes become no task. All actions on the DataFrame see the partitions of the moment of this call.

    Args:
        spark: The session, classic or Connect.
        store_uri: The store, reachable from the driver and the workers.
        dataset_uuid: The name of the dataset.
        table: The table; None stands for the table `table`, or for the only one.
        predicates: As in `pilum.kartothek.Dataset.scanner`.
        columns: Names to read, in this order. None reads all columns.
        tasks: The number of Spark tasks at most. By default one for each partition, up to 256.
        limit: Rows at most.
        slashes: As in `pilum.kartothek.dataset`.
        batch_rows: Rows of a batch at most.
        storage_options: Credentials and settings of the store, sent to the workers.

    Raises:
        NotFoundError: There is no such dataset.
        UnsupportedError: A column has no lossless way into Spark; the message names it.
        InvalidInputError: There is no such table or column, or the predicates do not fit the columns.
    """
    # Spark has microseconds, as the files have.
    k = dataset(store_uri, dataset_uuid, slashes=slashes, timestamp_unit="us", storage_options=storage_options)
    read = _planned(k, table, predicates, columns, tasks, limit, batch_rows)
    spark_schema = to_spark_schema(read.schema)
    count = len(read.documents)
    if count == 0 or limit == 0:
        return spark.createDataFrame([], spark_schema)
    rows = spark.range(0, count, 1, count).mapInArrow(_scan_of(read), spark_schema)
    return rows if limit is None else rows.limit(limit)


def _planned(
    k: Dataset,
    table: str | None,
    predicates: Any,
    columns: Sequence[str] | None,
    tasks: int | None,
    limit: int | None,
    batch_rows: int,
) -> SharedRead:
    if columns is not None and not columns:
        raise InvalidInputError("columns: Spark has no rows without columns; name at least one")
    table = k.table(table)
    condition = k.filter(predicates, table)
    labels = k.engine.dispatch(table, condition, exact=False)
    source = k.scanner(table, condition, columns).schema
    most = min(len(labels), MOST_TASKS if tasks is None else tasks)
    groups = [labels[len(labels) * i // most : len(labels) * (i + 1) // most] for i in range(most)]
    return SharedRead(
        k._where,  # noqa: SLF001 - the same package of datasets
        k.uuid,
        table,
        {**k._options, "slashes": k._options["slashes"] or "join"},  # noqa: SLF001
        None if columns is None else tuple(columns),
        condition,
        spark_safe(source),
        batch_rows,
        limit,
        tuple(bytes(k.engine.document_of(group)) for group in groups),
    )


def read_task(read: SharedRead, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task as record batches in `read.schema`."""
    engine = open_engine(read.where, read.uuid, read.options, read.documents[number])
    part = Dataset(engine, read.where, read.options)
    columns = None if read.columns is None else list(read.columns)
    scanner = part.scanner(read.table, read.filter, columns, limit=read.limit, batch_rows=read.batch_rows)
    batches = scanner.to_batches()
    try:
        yield from conform_batches(batches, read.schema, f"dataset {read.uuid} in {read.where.shown}")
    finally:
        batches.close()  # type: ignore[attr-defined]


def _scan_of(read: SharedRead) -> Any:
    def pilum_scan(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for number in batch.column(0).to_pylist():
                yield from read_task(read, number)

    return pilum_scan
