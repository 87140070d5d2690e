"""The streaming source: first the rows that are there, then what each version adds.

An offset is `{"version", "index", "snapshot", "after"}`: the next rows to read are those of the unit `index` of `version`,
counted in all rows of that version (`snapshot`) or in what it added. The units of a version never change, so a batch that Spark
repeats after a failure has the same rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pilum import _pilum
from pilum.dataset import dataset
from pilum.exceptions import InvalidInputError, NotFoundError
from pilum.scanner import ScanOptions
from pilum.spark.conform import conform_batches
from pilum.spark.source_options import CHANGE_COLUMNS
from pilum.spark.streaming_changes import History, Unit
from pilum.spark.tasks import BATCH_BYTES, BATCH_ROWS, SharedScan, Split, read_task
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pilum.spark.source_options import Given

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark 4.0 and 4.1 ask for no limits.
    ReadAllAvailable = ReadMaxBytes = ReadMaxFiles = None  # type: ignore[assignment,misc]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for the class that this release of PySpark lacks."""


TASK_BYTES = 64 << 20
"""Bytes on disk that one task of a batch reads."""

ADDRESS = "_rowaddr"


class Offset(TypedDict):
    """Where a stream stands."""

    version: int
    index: int
    snapshot: bool
    after: int
    """When the last version that was read was committed, in microseconds since 1970: it tells one table from another."""


class Work(NamedTuple):
    """What one task reads: rows of one version."""

    units: tuple[Unit, ...]
    columns: tuple[str, ...]
    """The columns that the version has; the others are null."""
    commit_version: int
    committed_at: dt.datetime


class WorkPartition(InputPartition):
    """What one task reads."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table as a stream."""

    def __init__(self, given: Given, schema: StructType) -> None:
        values = given.values
        if "startingVersion" in values and "startingTimestamp" in values:
            raise InvalidInputError(
                "options 'startingVersion' and 'startingTimestamp' both choose the start: pass one of them"
            )
        self._given = given
        self._with_changes = values.get("onChange") == "changes"
        columns = from_spark_schema(schema)
        added = CHANGE_COLUMNS if self._with_changes else ()
        self._columns = pa.schema([field for field in columns if field.name not in added])
        self._max_files: int | None = values.get("maxFilesPerTrigger")
        self._max_bytes: int | None = values.get("maxBytesPerTrigger")
        self._history = self._new_history()
        self._last: Offset | None = None
        self._target: int | None = None

    def _new_history(self) -> History:
        return History(self._given.uri, self._given.storage_options, self._given.values.get("onChange", "fail"))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out opened versions: tasks get the reader too."""
        return {**self.__dict__, "_history": None}

    # -- Offsets -------------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new stream begins."""
        values = self._given.values
        latest = self._latest()
        if "startingTimestamp" in values:
            return self._place(self._first_after(values["startingTimestamp"], latest))
        start = values.get("startingVersion")
        if start is None:
            return self._place(latest, is_snapshot=True)
        if start == "latest":
            return self._place(latest + 1)
        if isinstance(start, str):
            start = dataset(self._given.uri, version=start, storage_options=self._given.storage_options).version
        if not 1 <= start <= latest + 1:
            raise InvalidInputError(
                f"{self._history.shown}: startingVersion={start}: versions count from 1, and the newest is {latest}"
            )
        return self._place(start)

    def _place(self, version: int, index: int = 0, *, is_snapshot: bool = False) -> dict[str, Any]:
        """Return an offset."""
        last = version if is_snapshot else version - 1
        after = self._history.committed_at(last) if last > 0 else 0
        return {"version": version, "index": index, "snapshot": is_snapshot, "after": after}

    def _verified(self, offset: dict[str, Any]) -> Offset:
        """Return an offset whose version is still the one that the stream has read.

        Raises:
            InvalidInputError: Another table is at this address now.
        """
        known = _checked(offset)
        last = known["version"] if known["snapshot"] else known["version"] - 1
        is_newer = last > self._history.latest()
        if is_newer or (last > 0 and self._history.committed_at(last) != known["after"]):
            raise InvalidInputError(
                f"{self._history.shown}: version {last}, the last that the stream has read, is not there or is another one: "
                f"another table is at this address now. Start with a new checkpoint"
            )
        return known

    def _latest(self) -> int:
        """Return the newest version that this query reads."""
        return self._history.latest() if self._target is None else self._target

    def _first_after(self, moment: dt.datetime, latest: int) -> int:
        """Return the first version that was committed at a moment or after it."""
        before = moment - dt.timedelta(microseconds=1)
        try:
            found = dataset(self._given.uri, asof=before, storage_options=self._given.storage_options)
        except NotFoundError:
            oldest = self._history.oldest()
            if oldest > 1:
                raise NotFoundError(
                    f"{self._history.shown}: startingTimestamp={moment.isoformat()} is older than version {oldest}, the oldest "
                    f"that cleanup left: pass startingVersion={oldest + 1}, or neither to begin with all rows"
                ) from None
            return 1
        return min(found.version, latest) + 1

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return the limit that the options ask for."""
        if self._max_files is not None:
            return ReadMaxFiles(self._max_files)
        if self._max_bytes is not None:
            return ReadMaxBytes(self._max_bytes)
        return ReadAllAvailable()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return where the next batch ends.

        PySpark 4.0 and 4.1 do not say where it begins: then the first batch after a restart has no limits.
        """
        latest = self._latest()
        known: Any = start if start is not None else self._last
        if known is None:
            end = self._place(latest + 1)
        else:
            has_limits = ReadAllAvailable is None or not isinstance(limit, ReadAllAvailable)
            end = self._end(self._verified(known), latest, has_limits=has_limits)
        self._last = _checked(end)
        return end

    def _end(self, start: Offset, latest: int, *, has_limits: bool) -> dict[str, Any]:
        version, index, is_snapshot = start["version"], start["index"], start["snapshot"]
        if version > latest:
            # The offset is as it was: that of a version to read whole says more than its number.
            return dict(start)
        files = size = 0
        while version <= latest:
            units = self._history.snapshot(version) if is_snapshot else self._history.added(version)
            for unit in units[index:]:
                is_full = files and (
                    (self._max_files is not None and files >= self._max_files)
                    or (self._max_bytes is not None and size + unit.bytes > self._max_bytes)
                )
                if has_limits and is_full:
                    return self._place(version, index, is_snapshot=is_snapshot)
                files, size, index = files + 1, size + unit.bytes, index + 1
            version, index, is_snapshot = version + 1, 0, False
        return self._place(version)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the table, for the progress of the query."""
        return self._place(self._history.latest() + 1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note the newest version: the query ends with it."""
        self._target = self._history.latest()

    # -- Rows ----------------------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Cut what lies between two offsets into tasks by bytes."""
        begin, stop = self._verified(start), _checked(end)
        version, index, is_snapshot = begin["version"], begin["index"], begin["snapshot"]
        works: list[Work] = []
        while (version, index) < (stop["version"], stop["index"]):
            units = self._history.snapshot(version) if is_snapshot else self._history.added(version)
            is_last = version == stop["version"]
            works += self._works(units[index : stop["index"] if is_last else None], version)
            if is_last:
                break
            version, index, is_snapshot = version + 1, 0, False
        self._last = stop
        return [WorkPartition(work) for work in works]

    def _works(self, units: list[Unit], version: int) -> Iterator[Work]:
        committed_at = self._history.version(version).summary().timestamp if units else None
        for key, alike in groupby(units, key=lambda it: (it.kind, it.version, it.without)):
            there = set(pa.schema(self._history.version(key[1]).schema).names)
            columns = tuple(it.name for it in self._columns if it.name in there)
            run: list[Unit] = []
            size = 0
            for unit in alike:
                if run and size + unit.bytes > TASK_BYTES:
                    yield Work(tuple(run), columns, version, committed_at)  # type: ignore[arg-type]
                    run, size = [], 0
                run.append(unit)
                size += unit.bytes
            yield Work(tuple(run), columns, version, committed_at)  # type: ignore[arg-type]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        if not isinstance(partition, WorkPartition):
            return
        work: Work = partition.value
        first = work.units[0]
        fragments = tuple(it.fragment for it in work.units)
        left_out = None if first.without is None else self._addresses(first.without, fragments)
        origin = f"{self._given.uri} version {first.version}"
        for batch in self._rows(first.version, fragments, work.columns, with_address=left_out is not None):
            if left_out is not None:
                import pyarrow.compute as pc

                is_in = pc.is_in(batch.column(ADDRESS), value_set=left_out)
                kept = batch.filter(pc.invert(is_in)).drop_columns([ADDRESS])
            else:
                kept = batch
            if kept.num_rows:
                yield self._complete(kept, work, first.kind, origin)

    def _rows(
        self, version: int, fragments: tuple[int, ...], columns: tuple[str, ...], *, with_address: bool
    ) -> Iterator[pa.RecordBatch]:
        given = self._given
        options = ScanOptions.of(
            list(columns),
            given.values.get("filter"),
            batch_rows=given.values.get("batchRows", BATCH_ROWS),
            batch_bytes=BATCH_BYTES,
            with_row_address=with_address,
        )
        fields = [self._columns.field(name) for name in columns]
        if with_address:
            fields.append(pa.field(ADDRESS, pa.uint64()))
        verifies = given.values.get("verifyChecksums", True)
        scan = SharedScan(given.uri, version, options, pa.schema(fields), given.storage_options, verifies)
        yield from read_task(scan, Split(fragments))

    def _addresses(self, version: int, fragments: tuple[int, ...]) -> pa.Array:
        """Return the addresses of the rows that fragments have in a version; a fragment may be gone there."""
        given = self._given
        opened = _pilum.open(given.uri, version=version, storage_options=given.storage_options)
        there = {it.id for it in opened.fragments()}
        left = tuple(it for it in fragments if it in there)
        options = ScanOptions.of([ADDRESS])
        scan = SharedScan(
            given.uri, version, options, pa.schema([pa.field(ADDRESS, pa.uint64())]), given.storage_options
        )
        parts = [batch.column(0) for batch in read_task(scan, Split(left))] if left else []
        return pa.concat_arrays(parts) if parts else pa.array([], pa.uint64())

    def _complete(self, batch: pa.RecordBatch, work: Work, kind: str, origin: str) -> pa.RecordBatch:
        """Return rows with the columns that their version lacks, and with those of `onChange=changes`."""
        rows = batch.num_rows
        names = set(batch.schema.names)
        arrays = [batch.column(it.name) if it.name in names else pa.nulls(rows, it.type) for it in self._columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self._columns)
        (whole,) = conform_batches(iter([whole]), self._columns, origin)
        if not self._with_changes:
            return whole
        at = pa.scalar(work.committed_at, pa.timestamp("us", "UTC"))
        added = [pa.scalar(kind), pa.scalar(work.commit_version, pa.int64()), at]
        arrays = [*whole.columns, *(pa.repeat(value, rows) for value in added)]
        fields = [*self._columns, *(pa.field(name, it.type) for name, it in zip(CHANGE_COLUMNS, added, strict=True))]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _checked(offset: dict[str, Any]) -> Offset:
    """Return an offset from a checkpoint.

    Raises:
        InvalidInputError: Another source wrote the checkpoint.
    """
    version, index, is_snapshot, after = (offset.get(key) for key in ("version", "index", "snapshot", "after"))
    if not (
        isinstance(version, int) and isinstance(index, int) and isinstance(is_snapshot, bool) and isinstance(after, int)
    ):
        raise InvalidInputError(
            f"the checkpoint has an offset of another source: {offset}: start with a new checkpoint"
        )
    return Offset(version=version, index=index, snapshot=is_snapshot, after=after)
