"""A table as a DataFrame: the driver pins one version and plans tasks, the workers scan."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pilum.arguments import checked, names, positive
from pilum.spark import tasks as core
from pilum.spark.jobs import Parts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pilum.location import StorageOptions
    from pilum.spark.types import Vectors


@checked(columns=names, task_bytes=positive)
def read(
    spark: SparkSession,
    uri: str,
    columns: Sequence[str] | None = None,
    filter: Any = None,  # noqa: A002 - the word that users know
    version: int | str | None = None,
    tasks: int | None = None,
    storage_options: StorageOptions | None = None,
    *,
    asof: dt.datetime | None = None,
    limit: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    vectors: Vectors = "list",
    batch_rows: int = core.BATCH_ROWS,
    task_bytes: int | None = None,
    verify_checksums: bool = True,
) -> DataFrame:
    """Return a table, or a part of one, as a DataFrame.

    Spark cannot push a projection or a filter through `mapInArrow`, so pass them here: rows and columns that are left out are
    neither read nor handed to the JVM, which costs more than reading them. The version is pinned when this is called, so every
    action on the DataFrame sees the same rows.

    Args:
        spark: The session, classic or Connect.
        uri: The table, reachable from the driver and the workers.
        columns: Names to read, in this order. None reads all columns.
        filter: SQL text, `pilum.col(..)`, a list of (column, operator, value) tuples, or an expression of pyarrow.
        version: The number of a version, or the name of a tag. None reads the newest version.
        tasks: The number of Spark tasks at most. By default one for each 128 MiB that is read, and for each 32 MiB of a scan
            that has up to 8 tasks.
        storage_options: Credentials and settings of the store, sent to the workers. A function that returns them is called in
            each process.
        asof: Read the newest version that is not younger than this moment.
        limit: Rows at most. Tasks that the limit does not need are not started.
        with_row_id: Add the column `_rowid` (bigint).
        with_row_address: Add the column `_rowaddr` (bigint): fragment id times 2^32, plus the row's place in it.
        vectors: `"binary"` hands fixed-size lists of numbers over as little-endian bytes, which takes a quarter less time;
            `"list"` or `"array"` as `array<float>`.
        batch_rows: Rows of a batch at most.
        task_bytes: Bytes on disk that a task reads, where `tasks` is not given.
        verify_checksums: Whether the driver and the workers compare what they read with its checksums.

    Raises:
        NotFoundError: There is no table, or no such version or tag.
        UnsupportedError: A column has no lossless way into Spark; the message names it.
        InvalidInputError: There is no such column, or the condition does not fit the schema.
    """
    planned = core.plan(
        uri,
        columns,
        filter,
        version=version,
        asof=asof,
        limit=limit,
        tasks=tasks,
        task_bytes=task_bytes,
        with_row_id=with_row_id,
        with_row_address=with_row_address,
        vectors="binary" if vectors == "binary" else "list",
        batch_rows=batch_rows,
        storage_options=storage_options,
        verify_checksums=verify_checksums,
    )
    rows = of_plan(spark, planned)
    return rows if limit is None or len(planned.splits) <= 1 else rows.limit(limit)


def of_plan(spark: SparkSession, planned: core.ScanPlan) -> DataFrame:
    """Return the rows of a planned scan as a DataFrame with one partition for each split."""
    if not planned.splits:
        return spark.createDataFrame([], planned.spark_schema())
    # One id in each partition; the descriptions travel with the function.
    count = len(planned.splits)
    return spark.range(0, count, 1, count).mapInArrow(_scan_of(planned.scan, planned.splits), planned.spark_schema())


def _scan_of(scan: core.SharedScan, splits: Sequence[core.Split]) -> Any:
    parts = Parts(splits, core.Split._make)

    def pilum_scan(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for number in batch.column(0).to_pylist():
                yield from core.read_task(scan, parts[number])

    return pilum_scan
