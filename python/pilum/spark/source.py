"""The Data Source `format("pilum")` of PySpark 4.0 and newer: tables read and written through the DataFrame API.

Spark finds it by itself through the module `pyspark_pilum`; `pilum.spark.register` registers it in a session. Scans and
writes are those of `pilum.spark.read` and `write`. This module only says to Spark what there is: options, schema, partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from pilum.dataset import dataset
from pilum.exceptions import InvalidInputError
from pilum.expr import Expr
from pilum.spark.source_filters import condition
from pilum.spark.source_options import CHANGE_COLUMNS, READ, STREAM_READ, STREAM_WRITE, WRITE, Given, parse
from pilum.spark.tasks import BATCH_ROWS, Split, plan, read_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from pilum.spark.tasks import ScanPlan, SharedScan


class DefaultSource(DataSource):
    """Tables of pilum. Options are in `docs/guide/spark-source.md`."""

    _version: int | None = None
    """The version that `schema` pinned. Spark pickles the source after it has asked for the schema."""

    @classmethod
    def name(cls) -> str:
        """Return the word for `format`."""
        return "pilum"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options

    def schema(self) -> StructType:
        """Return the columns to read, and pin the version that has them.

        Spark asks batch reads and streaming reads in the same way; `reader` and `streamReader` refuse the options of the other.
        """
        given = parse(self.options, {**STREAM_READ, **READ}, "read")
        planned = _planned(given, None)
        self._version = planned.version
        schema = planned.spark_schema()
        return with_change_columns(schema) if given.values.get("onChange") == "changes" else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        given = parse(self.options, READ, "batch read")
        kind = PushingReader if given.values.get("pushFilters") else BatchReader
        return kind(given, self._version, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        from pilum.spark.source_writer import BatchWriter

        return BatchWriter(parse(self.options, WRITE, "write"), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        from pilum.spark.streaming_source import StreamReader

        return StreamReader(parse(self.options, STREAM_READ, "streaming read"), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a stream."""
        from pilum.spark.source_writer import stream_writer

        return stream_writer(parse(self.options, STREAM_WRITE, "streaming write"), schema, overwrite=overwrite)


def _planned(
    given: Given, version: int | None, pushed: Expr | None = None, columns: list[str] | None = None
) -> ScanPlan:
    values = given.values
    is_pinned = version is not None
    if not is_pinned and "version" in values and "asof" in values:
        raise InvalidInputError("options 'version' and 'asof' both choose a version: pass one of them")
    return plan(
        given.uri,
        columns or values.get("columns"),
        pushed if pushed is not None else values.get("filter"),
        version=version if is_pinned else values.get("version"),
        asof=None if is_pinned else values.get("asof"),
        limit=values.get("limit"),
        # Tasks cannot count together: a limit behind a filter is one task.
        tasks=1 if "limit" in values and "filter" in values else values.get("tasks"),
        task_bytes=values.get("taskBytes"),
        vectors="binary" if values.get("vectors") == "binary" else "list",
        batch_rows=values.get("batchRows", BATCH_ROWS),
        storage_options=given.storage_options,
        verify_checksums=values.get("verifyChecksums", True),
    )


def with_change_columns(schema: StructType) -> StructType:
    """Return the columns with those of `onChange=changes` behind them."""
    from pyspark.sql import types as t

    taken = [name for name in CHANGE_COLUMNS if name in schema.names]
    if taken:
        raise InvalidInputError(
            f"onChange='changes' adds columns {', '.join(CHANGE_COLUMNS)}, and the table has {taken[0]!r}: "
            f"leave it out with columns"
        )
    kinds = (t.StringType(), t.LongType(), t.TimestampType())
    added = [t.StructField(name, kind, True) for name, kind in zip(CHANGE_COLUMNS, kinds, strict=True)]
    return t.StructType([*schema.fields, *added])


class SplitPartition(InputPartition):
    """What one task reads."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickle the values of the split without their names: a scan has thousands of splits."""
        return _partition, tuple(self.value)


def _partition(*split: Any) -> SplitPartition:
    return SplitPartition(Split(*split))


class BatchReader(DataSourceReader):
    """Reads one version."""

    def __init__(self, given: Given, version: int | None, schema: StructType) -> None:
        self._given = given
        self._schema = schema
        # Spark does not ask for the schema if the user gave one: its names are the columns to read.
        self._is_own = version is None
        planned = _planned(given, version, columns=schema.names if version is None else None)
        if version is None:
            check_schema(schema, planned.spark_schema(), given.uri)
        self._version = planned.version
        self._scan: SharedScan = planned.scan
        self._condition: Expr | None = None

    def partitions(self) -> list[InputPartition]:
        """Cut the scan into tasks by bytes."""
        columns = self._schema.names if self._is_own else None
        planned = _planned(self._given, self._version, self._condition, columns)
        return [SplitPartition(split) for split in planned.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        # Spark turns an empty list of partitions into one partition of None.
        if not isinstance(partition, SplitPartition):
            return
        scan = self._scan
        if self._condition is not None:
            scan = replace(scan, options=replace(scan.options, filter=self._condition))
        yield from read_task(scan, partition.value)


class PushingReader(BatchReader):
    """Reads one version, and takes the filters that it can apply exactly.

    Spark refuses readers that have `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is true. Spark 4.3 keeps the
    plan with pushed filters in the relation: another query of the same DataFrame whose filters cannot be pushed, or a join of
    the DataFrame with itself, is answered with the filters of the first. The source cannot see that, so users say that they
    use a DataFrame once.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that the engine applies exactly, and yield the others."""
        given = self._given
        if "limit" in given.values:
            # The limit counts rows before Spark's filters.
            yield from filters
            return
        schema = dataset(given.uri, version=self._version, storage_options=given.storage_options).schema
        own = given.values.get("filter")
        taken = None if own is None else Expr(own)
        for filter_ in filters:
            exact = condition(filter_, schema)
            if exact is None:
                yield filter_
            else:
                taken = exact if taken is None else taken & exact
        self._condition = taken


def check_schema(given: StructType, there: StructType, uri: str) -> None:
    """Refuse a schema given by the user whose types are not those of the table.

    Raises:
        InvalidInputError: The message names the column.
    """
    types = {it.name: it.dataType for it in there.fields}
    for field in given.fields:
        if field.dataType != types[field.name]:
            raise InvalidInputError(
                f"{uri}: column {field.name!r} is {types[field.name].simpleString()}, and the schema that was given says "
                f"{field.dataType.simpleString()}: leave the schema out, and cast the column after reading"
            )
