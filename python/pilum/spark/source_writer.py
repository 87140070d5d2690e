"""Writers of `format("pilum")`: tasks write data files, the driver commits them once.

`abort` removes nothing. Spark calls it after a commit that failed too, and the outcome of that commit may be unknown: a
file that a version names must stay. `cleanup` removes files that no version names.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from pilum.dataset import Dataset, dataset
from pilum.exceptions import AlreadyExistsError, CommitUnknownError, InvalidInputError, NotFoundError
from pilum.spark import replacing, staging
from pilum.spark.source_options import WRITE_ARGUMENTS, Given
from pilum.spark.source_rows import batches_of
from pilum.spark.streaming_sink import BatchPart, Sink
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

    from pilum.spark.staging import Mode, Staged, WriteOptions

COMMITS = 5
"""Attempts to commit while the store does not say whether it took the commit."""

WIDENINGS = 10
"""Attempts to add columns while other writers add some too."""


class PiecesMessage(WriterCommitMessage):
    """What a task of a batch write wrote."""

    def __init__(self, staged: Staged | None) -> None:
        self.staged = staged


class BatchMessage(WriterCommitMessage):
    """What a task of a batch of a stream did."""

    def __init__(self, part: BatchPart) -> None:
        self.part = part


def write_options(given: Given) -> WriteOptions:
    """Return the options of a write as `prepare` takes them."""
    named = {argument: given.values[name] for name, argument in WRITE_ARGUMENTS.items() if name in given.values}
    return cast("WriteOptions", named)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame as one version.

    Spark pickles the writer when it plans the write: tasks and commit get a copy of the state that `__init__` left.
    """

    def __init__(self, given: Given, schema: StructType, *, overwrite: bool) -> None:
        values = given.values
        existing = values.get("ifExists", "append")
        condition = values.get("replaceWhere")
        if condition is not None and not overwrite:
            raise InvalidInputError("option 'replaceWhere' needs mode('overwrite')")
        if overwrite and (existing != "append" or (values.get("mergeSchema") and condition is None)):
            raise InvalidInputError(
                "mode('overwrite') replaces rows and columns: ifExists needs mode('append'), and mergeSchema needs "
                "mode('append') or option 'replaceWhere'"
            )
        self._given = given
        self._is_ignored = existing == "ignore" and _exists(given)
        # `create` refuses a table that another writer makes meanwhile.
        mode: Mode = "overwrite" if overwrite else "append" if existing == "append" else "create"
        columns = from_spark_schema(schema)
        commit_id = values.get("commitId") or f"spark-{uuid.uuid4()}"
        self._is_done = self._is_ignored
        if self._is_ignored:
            return
        if values.get("mergeSchema"):
            widen(given, columns)
        plan = staging.prepare(
            columns,
            given.uri,
            mode,
            commit_id=commit_id,
            storage_options=given.storage_options,
            options=write_options(given),
            replace_where=condition,
        )
        self._is_done = plan.done is not None
        self._read_version = None if plan.before is None else plan.before.version
        # A pickled version would be opened by every task.
        self._plan = replace(plan, before=None, done=None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task to data files."""
        return PiecesMessage(None if self._is_done else staging.write_task(iterator, self._plan.spec))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the files of all tasks one version."""
        if self._is_done:
            return
        given = self._given
        before: Dataset | None = None
        if self._read_version is not None:
            before = dataset(given.uri, version=self._read_version, storage_options=given.storage_options)
        plan = replace(self._plan, before=before)
        parts = [it.staged for it in messages if isinstance(it, PiecesMessage) and it.staged is not None]
        pieces = [piece for part in parts for piece in part.pieces]
        for attempt in range(1, COMMITS + 1):
            try:
                replacing.commit(plan, pieces)
            except CommitUnknownError:
                # The same id commits once.
                if attempt == COMMITS:
                    raise
            except AlreadyExistsError:
                if given.values.get("ifExists") == "ignore":
                    return
                raise
            else:
                return

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave the files of a failed write to `cleanup`."""


class _StreamWriter(DataSourceStreamWriter):
    """What both stream writers do. Spark makes one for each batch, and another one for its commit."""

    def __init__(self, given: Given, schema: StructType, *, overwrite: bool) -> None:
        columns = from_spark_schema(schema)
        if given.values.get("mergeSchema"):
            if overwrite:
                raise InvalidInputError("outputMode('complete') replaces rows and columns: mergeSchema needs 'append'")
            widen(given, columns)
        sink = Sink(
            given.uri,
            columns,
            mode="overwrite" if overwrite else "append",
            app_id=given.values.get("appId"),
            storage_options=given.storage_options,
            options=write_options(given),
        )
        self._task = sink.task()
        self._columns = columns
        self._sink: Sink | None = sink

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only the driver needs: a version, which every task would open."""
        return {**self.__dict__, "_sink": None}

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Make the files of all tasks one version, unless the batch was committed before."""
        parts = [it.part for it in messages if isinstance(it, BatchMessage)]
        if self._sink is None or any(part.batch.batch != batchId for part in parts):
            raise InvalidInputError(f"batch {batchId} of a stream was handed over with tasks of another batch")
        self._sink.commit(parts)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Leave the files of a failed batch to `cleanup`."""


class RowStreamWriter(_StreamWriter):
    """Writes the batches of a stream where Spark hands rows over: PySpark 4.0."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Write the rows of one task to data files."""
        return BatchMessage(self._task.write(batches_of(iterator, self._columns)))


_ArrowBase: Any = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)


class ArrowStreamWriter(_StreamWriter, _ArrowBase):  # type: ignore[misc]
    """Writes the batches of a stream where Spark hands record batches over: PySpark 4.1 and newer."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task to data files."""
        return BatchMessage(self._task.write(iterator))


def stream_writer(given: Given, schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    """Return the writer that this release of PySpark can use."""
    takes_arrow = hasattr(datasource, "DataSourceStreamArrowWriter")
    kind = ArrowStreamWriter if takes_arrow else RowStreamWriter
    return kind(given, schema, overwrite=overwrite)


def widen(given: Given, columns: pa.Schema) -> None:
    """Add the columns that the rows have and the table has not, as one version of nulls. Without a table, do nothing."""
    for attempt in range(WIDENINGS):
        if not _exists(given):
            return
        table = dataset(given.uri, storage_options=given.storage_options)
        missing = pa.schema([field for field in columns if field.name not in table.schema.names])
        if not len(missing):
            return
        try:
            table.add_columns(_nulls(missing), read_columns=table.schema.names[:1], schema=missing)
        except InvalidInputError:
            # Another writer may have added one of them.
            newest = dataset(given.uri, storage_options=given.storage_options)
            if attempt + 1 == WIDENINGS or newest.version == table.version:
                raise


def _nulls(columns: pa.Schema) -> Any:
    def nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, it.type) for it in columns], schema=columns)

    return nulls


def _exists(given: Given) -> bool:
    try:
        dataset(given.uri, storage_options=given.storage_options)
    except NotFoundError:
        return False
    return True
