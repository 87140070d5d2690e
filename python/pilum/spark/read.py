"""A table as a DataFrame: the driver pins one version and plans tasks, the workers scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilum.arguments import checked, names
from pilum.dataset import dataset
from pilum.spark.conform import conform_batches
from pilum.spark.types import Vectors, spark_safe, to_spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pilum.scanner import ScanTask

BATCH_ROWS = 8192
"""Rows in a batch handed to Spark: its throughput is flat from 2,000 up, and larger ones make LIMIT waste more."""

BATCH_BYTES = 8 << 20
"""Bytes in a batch, for rows that are wide: both processes hold a few of them."""


@checked(columns=names)
def read(
    spark: SparkSession,
    uri: str,
    columns: Sequence[str] | None = None,
    filter: Any = None,  # noqa: A002 - the word that users know
    version: int | str | None = None,
    tasks: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    vectors: Vectors = "list",
    batch_rows: int = BATCH_ROWS,
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
        tasks: The number of Spark tasks at most; by default one for each 64 MiB of files.
        storage_options: Credentials and settings of the store, sent to the workers.
        vectors: `"binary"` hands fixed-size lists of numbers over as little-endian bytes, which takes a quarter less time.
        batch_rows: Rows of a batch at most.
        verify_checksums: Whether the driver and the workers compare what they read with its checksums.

    Raises:
        NotFoundError: There is no table, or no such version or tag.
        UnsupportedError: A column has no lossless way into Spark; the message names it.
        InvalidInputError: There is no such column, or the condition does not fit the schema.
    """
    pinned = dataset(uri, version=version, storage_options=storage_options, verify_checksums=verify_checksums)
    scanner = pinned.scanner(columns, filter, batch_rows=batch_rows, batch_bytes=BATCH_BYTES)
    schema = spark_safe(scanner.schema, vectors)
    spark_schema = to_spark_schema(scanner.schema, vectors=vectors)
    shares = scanner.tasks(tasks)
    if not shares:
        return spark.createDataFrame([], spark_schema)
    # One id in each partition; the descriptions travel with the function.
    ids = spark.range(0, len(shares), 1, len(shares))
    return ids.mapInArrow(_scan_of(shares, schema), spark_schema)


def _scan_of(shares: Sequence[ScanTask], schema: pa.Schema) -> Any:
    def pilum_scan(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for share in batch.column(0).to_pylist():
                task = shares[share]
                yield from conform_batches(task.to_batches(), schema, task.uri)

    return pilum_scan
