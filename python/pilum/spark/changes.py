"""The rows that versions of a table added, removed and changed, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pilum.arguments import checked, count
from pilum.dataset import Dataset, dataset
from pilum.exceptions import InvalidInputError
from pilum.location import Location, StorageOptions
from pilum.scanner import ScanOptions, ScanTask
from pilum.spark import tasks as core
from pilum.spark.conform import conform_batch
from pilum.spark.jobs import Parts
from pilum.spark.types import spark_safe, to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"

SAME_ROWS = frozenset({"Rewrite", "Backfill", "Project", "UpdateConfig", "CreateIndex", "ReserveFragments"})
"""Operations that leave the rows as they are: they move them, or change columns."""


class _Change(NamedTuple):
    """A fragment whose rows one version added or removed."""

    version: int
    timestamp_micros: int
    fragment: int
    is_insert: bool
    is_whole: bool
    """All rows; else those that are not in the other version."""


@checked(from_version=count, to_version=count)
def read_changes(
    spark: SparkSession,
    uri: str,
    from_version: int,
    to_version: int | None = None,
    *,
    storage_options: StorageOptions | None = None,
) -> DataFrame:
    """Return the rows that the versions after `from_version`, up to `to_version`, added and removed.

    Columns are those of `to_version`, and `_change_type` (`"insert"`, `"delete"`, and in tables with stable row ids
    `"update_preimage"` and `"update_postimage"`; without them an update is a delete and an insert), `_commit_version` and
    `_commit_timestamp`. Compactions and added columns change no row. An overwrite removes all rows and adds others.

    Args:
        spark: The session, classic or Connect.
        uri: The table.
        from_version: The version whose rows the caller knows.
        to_version: The last version to look at; by default the newest.
        storage_options: Credentials and settings of the store, sent to the workers.

    Raises:
        NotFoundError: One of the versions was cleaned up.
        InvalidInputError: `from_version` is newer than `to_version`.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    where = Location.of(uri, storage_options)
    last = dataset(where.uri, version=to_version, storage_options=where.storage_options)
    if from_version > last.version:
        raise InvalidInputError(f"{where.shown}: from_version {from_version} is newer than version {last.version}")
    stable = bool(last.describe()["has_stable_row_ids"])
    changes = Parts(_planned(last, from_version), _Change._make)
    source = pa.schema(
        [
            *last.schema,
            pa.field(CHANGE_TYPE, pa.string()),
            pa.field(COMMIT_VERSION, pa.int64()),
            pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC")),
            *([pa.field("_rowid", pa.int64())] if stable else []),
        ]
    )
    schema, spark_schema = spark_safe(source), to_spark_schema(source)
    if not changes:
        return spark.createDataFrame([], spark_schema).drop("_rowid")
    shared = core.SharedScan(where.uri, last.version, ScanOptions(), schema, where.storage_options)

    def pilum_changes(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for number in batch.column(0).to_pylist():
                yield from _rows(shared, changes[number], stable)

    rows = spark.range(0, len(changes), 1, len(changes)).mapInArrow(pilum_changes, spark_schema)
    if not stable:
        return rows
    both = f.count(f.lit(1)).over(Window.partitionBy(COMMIT_VERSION, "_rowid")) > 1
    kind = f.when(
        both & f.col(CHANGE_TYPE).isin("delete", "insert"),
        f.when(f.col(CHANGE_TYPE) == "delete", "update_preimage").otherwise("update_postimage"),
    ).otherwise(f.col(CHANGE_TYPE))
    return rows.withColumn(CHANGE_TYPE, kind).drop("_rowid")


def _planned(last: Dataset, from_version: int) -> list[_Change]:
    """Return the fragments that changed, version by version: only manifests are read."""
    if from_version == last.version:
        return []
    summaries = {it.version: it for it in last.versions() if from_version < it.version <= last.version}
    before = last.checkout(from_version) if from_version else None
    changes: list[_Change] = []
    for version in range(from_version + 1, last.version + 1):
        after = last.checkout(version)
        summary = summaries[version]
        if summary.operation not in SAME_ROWS:
            micros = int(summary.timestamp.timestamp() * 1_000_000)
            changes += _between(before, after, micros)
        before = after
    return changes


def _between(before: Dataset | None, after: Dataset, micros: int) -> list[_Change]:
    old = {it.id: it for it in before.fragments} if before is not None else {}
    new = {it.id: it for it in after.fragments}
    changes: list[_Change] = []

    def add(fragment: int, *, is_insert: bool, is_whole: bool) -> None:
        changes.append(_Change(after.version, micros, fragment, is_insert, is_whole))

    for fragment, it in old.items():
        now = new.get(fragment)
        if now is None or now.files != it.files:
            add(fragment, is_insert=False, is_whole=True)
        elif now.num_deleted != it.num_deleted:
            # Rows of a fragment are removed, or come back in a restore.
            add(fragment, is_insert=now.num_deleted < it.num_deleted, is_whole=False)
    for fragment, it in new.items():
        if fragment not in old or old[fragment].files != it.files:
            add(fragment, is_insert=True, is_whole=True)
    return changes


def _rows(shared: core.SharedScan, change: _Change, stable: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one changed fragment."""
    there, other = (change.version, change.version - 1) if change.is_insert else (change.version - 1, change.version)

    def scan(version: int, options: ScanOptions) -> Iterator[pa.RecordBatch]:
        return ScanTask(shared.uri, version, (change.fragment,), options, shared.storage_options).to_batches()

    left = None
    if not change.is_whole:
        left = pa.chunked_array(
            [batch.column(0) for batch in scan(other, ScanOptions(columns=("_rowaddr",)))], pa.uint64()
        )
    options = ScanOptions(
        batch_rows=core.BATCH_ROWS, batch_bytes=core.BATCH_BYTES, with_row_id=stable, with_row_address=True
    )
    for batch in scan(there, options):
        rows = batch
        if left is not None:
            rows = batch.filter(pc.invert(pc.is_in(batch.column("_rowaddr"), left)))
        if rows.num_rows:
            yield _with_change(rows, shared, change)


def _with_change(rows: pa.RecordBatch, shared: core.SharedScan, change: _Change) -> pa.RecordBatch:
    count = rows.num_rows
    told: dict[str, Any] = {
        CHANGE_TYPE: pa.array(["insert" if change.is_insert else "delete"] * count, pa.string()),
        COMMIT_VERSION: pa.array([change.version] * count, pa.int64()),
        COMMIT_TIMESTAMP: pa.array([change.timestamp_micros] * count, pa.timestamp("us", "UTC")),
    }
    columns = {name: rows.column(name) for name in rows.schema.names if name != "_rowaddr"}
    columns.update(told)
    for field in shared.schema:
        # A version from before the column was added has no values of it.
        columns.setdefault(field.name, pa.nulls(count, field.type))
    return conform_batch(
        pa.record_batch(columns), shared.schema, f"{Location.of(shared.uri).shown} version {change.version}"
    )
