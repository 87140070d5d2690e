"""Statements over a table that Spark's tasks execute together: count, delete, update, compact; and its upkeep.

Each statement reads one version, and its tasks return small descriptions: sets of row addresses, and staged fragments. The
driver commits them as one version, or not at all. A task that is repeated, or that runs twice at the same time, does no harm:
only what one attempt of it returned is committed. After a conflict that a retry can solve, the statement is executed again on
the newest version.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import pyarrow as pa

from pilum import _pilum
from pilum.arguments import ExpectingArguments, ExpectingValueArguments, checked, flag, text
from pilum.conditions import condition, expected, expression
from pilum.dataset import CompactionResult, Dataset, Written, dataset
from pilum.exceptions import ConflictError, InvalidInputError
from pilum.location import Location, StorageOptions
from pilum.scanner import ScanOptions, ScanTask, contiguous
from pilum.spark import staging
from pilum.spark import tasks as core
from pilum.spark.jobs import Parts, run
from pilum.spark.read import read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

T = TypeVar("T")

DRIVER_BYTES = 1 << 30
"""A statement over a table of at most so many bytes is executed by the driver, which is quicker than a job."""

DEFAULT_RETRIES = 10
"""How often a statement is executed again after a conflict that a retry can solve."""

CHANGES_SCHEMA = "task int, removed binary, rows bigint, pieces array<binary>"


class CleanupArguments(TypedDict, total=False):
    """Options of `cleanup`; see `Dataset.cleanup`."""

    older_than: dt.timedelta
    keep_versions: int | None
    unverified_older_than: dt.timedelta
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """The version that a distributed statement made, with its counts, as `Written` reads them."""

    dataset: _pilum.Dataset
    version: int
    rows: int
    bytes: int
    attempts: int
    was_committed_before: bool


def again(attempt: Callable[[], T], retries: int | None) -> T:
    """Call a function, and call it again after a conflict that a retry can solve, at most so many times.

    Raises:
        ConflictError: A conflict that a retry cannot solve, or one too many.
    """
    left = DEFAULT_RETRIES if retries is None else retries
    while True:
        try:
            return attempt()
        except ConflictError as conflict:
            if not conflict.retryable or left <= 0:
                raise
            left -= 1


def numbers(values: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return row numbers of several batches as one batch of one column, as the engine takes them."""
    column = pa.concat_arrays([it.cast(pa.uint64()) for it in values]) if values else pa.array([], pa.uint64())
    return pa.record_batch({"rows": column})


def done_before(where: Location, commit_id: str | None) -> Written | None:
    """Return the version that a commit id made, if it was committed."""
    return None if commit_id is None else staging.committed_before(where, commit_id)


def opened(version: int, uri: str, storage_options: StorageOptions | None) -> _pilum.Dataset:
    """Open a version in a worker, which keeps it for its next tasks."""
    return ScanTask(uri, version, (), ScanOptions(), storage_options).opened()


def is_large(ds: Dataset, distributed: bool | None) -> bool:
    """Return whether tasks execute a statement over the table, and not the driver alone."""
    if distributed is not None:
        return distributed
    return sum(it.bytes or it.physical_rows * 64 for it in ds.fragments) > DRIVER_BYTES


@checked(distributed=flag)
def count(
    spark: SparkSession,
    uri: str,
    filter: Any = None,  # noqa: A002 - the word that users know
    *,
    version: int | str | None = None,
    asof: dt.datetime | None = None,
    distributed: bool | None = None,
    storage_options: StorageOptions | None = None,
) -> int:
    """Return the number of rows, or of those for which a condition is true.

    Spark pushes no count into Python: `ps.read(..).count()` hands every row to the JVM. This asks the engine, which answers
    from the manifest where there is no filter, and reads only the columns of the filter where there is one.

    Args:
        spark: The session, classic or Connect.
        uri: The table.
        filter: A condition, as in `read`.
        version: The number of a version, or the name of a tag.
        asof: Count in the newest version that is not younger than this moment.
        distributed: Whether tasks count; by default for tables of more than 1 GiB.
        storage_options: Credentials and settings of the store.
    """
    ds = dataset(uri, version=version, asof=asof, storage_options=storage_options)
    if filter is None or not is_large(ds, distributed):
        return ds.count_rows(filter)
    scan, splits = _scan(ds, [], filter, storage_options)

    def pilum_count(number: int) -> Iterator[pa.RecordBatch]:
        counted = _task(scan, splits[number]).scanner().count_rows()
        yield pa.record_batch({"rows": pa.array([counted], pa.int64())})

    return sum(row.rows for row in run(spark, len(splits), pilum_count, "rows bigint"))


def _scan(
    ds: Dataset, columns: Any, where: Any, storage_options: StorageOptions | None
) -> tuple[core.SharedScan, Parts[core.Split]]:
    """Return a scan of a version that yields the types of the table, cut into tasks of whole fragments."""
    planned = core.plan(
        ds.uri if storage_options is None else Location.of(ds.uri, storage_options).uri,
        [],
        where,
        version=ds.version,
        task_bytes=core.TASK_BYTES,
        storage_options=storage_options,
    )
    options = ScanOptions.of(columns, where, batch_bytes=core.BATCH_BYTES, schema=lambda: ds.schema)
    scan = core.SharedScan(planned.scan.uri, ds.version, options, planned.schema, planned.scan.storage_options)
    ids = [it for split in planned.splits for it in split.fragments]
    weights = {it.id: max(1, it.bytes or it.physical_rows) for it in ds.fragments}
    total = sum(weights[it] for it in ids)
    runs = contiguous([(it, weights[it]) for it in dict.fromkeys(ids)], max(1, -(-total // core.TASK_BYTES)))
    return scan, Parts((core.Split(it) for it in runs), core.Split._make)


def _task(scan: core.SharedScan, split: core.Split) -> ScanTask:
    return ScanTask(scan.uri, scan.version, split.fragments, scan.options, scan.storage_options, scan.verify_checksums)


def matching(base: Dataset, where: Location, predicate: Any, spark: SparkSession | None) -> list[bytes]:
    """Return sets of the addresses of the rows for which a condition is true.

    Tasks of the session `spark` look for the rows; without a session, this process does.
    """
    scan, splits = _scan(base, ("_rowaddr",), predicate, where.storage_options)

    def found(number: int) -> bytes | None:
        rows = numbers([batch.column(0) for batch in _task(scan, splits[number]).to_batches()])
        return _pilum.row_set(rows) if rows.num_rows else None

    if spark is None:
        sets = [found(number) for number in range(len(splits))]
        return [one for one in sets if one is not None]

    def pilum_match(number: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"removed": pa.array([found(number)], pa.binary())})

    results = run(spark, len(splits), pilum_match, "removed binary")
    return [bytes(it.removed) for it in results if it.removed is not None]


@checked(ExpectingArguments, distributed=flag)
def delete(
    spark: SparkSession,
    uri: str,
    predicate: Any,
    *,
    distributed: bool | None = None,
    storage_options: StorageOptions | None = None,
    **options: Unpack[ExpectingArguments],
) -> Written:
    """Delete the rows for which a condition is true, as `Dataset.delete`. Rows for which it is false or null stay.

    Args:
        spark: The session, classic or Connect.
        uri: The table.
        predicate: A condition in any of its forms.
        distributed: Whether tasks look for the rows; by default for tables of more than 1 GiB.
        storage_options: Credentials and settings of the store.
        commit_id: As in `pilum.write_dataset`.
        properties: As in `pilum.write_dataset`.
        durability: As in `pilum.write_dataset`.
        retries: How often the statement is executed again if another commit changed the same rows; 10 by default.
        expect: As in `pilum.write_dataset`.

    Returns:
        The version without the rows; the newest version if no row matched.
    """
    where = Location.of(uri, storage_options)
    ds = dataset(uri, storage_options=storage_options)
    if not is_large(ds, distributed):
        return ds.delete(predicate, **options)

    def attempt() -> Written:
        before = done_before(where, options.get("commit_id"))
        if before is not None:
            return before
        base = dataset(uri, storage_options=storage_options)
        text = condition(predicate, lambda: base.schema)
        if text is None:
            raise InvalidInputError("delete needs a condition; to delete all rows write delete('true')")
        scan, splits = _scan(base, ("_rowaddr",), text, storage_options)

        def pilum_delete(number: int) -> Iterator[pa.RecordBatch]:
            rows = [batch.column(0) for batch in _task(scan, splits[number]).to_batches()]
            yield changes(number, rows, [])

        results = run(spark, len(splits), pilum_delete, CHANGES_SCHEMA)
        return commit(base, where, results, options, predicate=str(text))

    return again(attempt, options.get("retries"))


@checked(ExpectingValueArguments, distributed=flag)
def update(
    spark: SparkSession,
    uri: str,
    assignments: Mapping[str, Any],
    where: Any = None,
    *,
    distributed: bool | None = None,
    storage_options: StorageOptions | None = None,
    **options: Unpack[ExpectingValueArguments],
) -> Written:
    """Give columns new values in the rows for which a condition is true, as `Dataset.update`.

    Args:
        spark: The session, classic or Connect.
        uri: The table.
        assignments: By column, SQL text or an expression over the old values.
        where: A condition in any of its forms. None updates every row.
        distributed: Whether tasks compute the values; by default for tables of more than 1 GiB. Tasks assign whole columns:
            members of structs (`"a.b"`) are assigned by the driver.
        storage_options: Credentials and settings of the store.
        commit_id: As in `pilum.write_dataset`.
        properties: As in `pilum.write_dataset`.
        durability: As in `pilum.write_dataset`.
        retries: As in `delete`.
        expect: As in `pilum.write_dataset`.
        compat: As in `Dataset.update`.

    Returns:
        The new version; `.rows` is the number of updated rows. They come last in row order.
    """
    ds = dataset(uri, storage_options=storage_options)
    names = set(ds.schema.names)
    members = [name for name in assignments if name not in names]
    if distributed and members:
        raise InvalidInputError(f"{ds.uri}: column {members[0]!r}: tasks assign whole columns: pass distributed=False")
    if members or not is_large(ds, distributed):
        return ds.update(assignments, where, **options)
    location = Location.of(uri, storage_options)

    def attempt() -> Written:
        before = done_before(location, options.get("commit_id"))
        if before is not None:
            return before
        base = dataset(uri, storage_options=storage_options)
        columns: dict[str, Any] = {name: f"`{name}`" for name in base.schema.names}
        columns.update({name: expression(value) for name, value in assignments.items()})
        columns["_rowaddr"] = "_rowaddr"
        stable = bool(base.describe()["has_stable_row_ids"])
        if stable:
            columns["_rowid"] = "_rowid"
        scan, splits = _scan(base, columns, condition(where, lambda: base.schema), storage_options)
        spec = staging.WriteSpec(location.uri, "append", None, _files(options), location.storage_options)

        def pilum_update(number: int) -> Iterator[pa.RecordBatch]:
            yield write_changes(number, _task(scan, splits[number]).to_batches(), spec)

        results = run(spark, len(splits), pilum_update, CHANGES_SCHEMA)
        return commit(base, location, results, options)

    return again(attempt, options.get("retries"))


def _files(options: Mapping[str, Any]) -> Any:
    return {key: options[key] for key in ("compat", "durability") if options.get(key) is not None}


def changes(task: int, addresses: Sequence[pa.Array], pieces: Sequence[bytes]) -> pa.RecordBatch:
    """Return what a task found and wrote as the row that it hands to the driver."""
    rows = numbers(addresses)
    removed = _pilum.row_set(rows) if rows.num_rows else None
    return pa.record_batch(
        {
            "task": pa.array([task], pa.int32()),
            "removed": pa.array([removed], pa.binary()),
            "rows": pa.array([rows.num_rows], pa.int64()),
            "pieces": pa.array([list(pieces)], pa.list_(pa.binary())),
        }
    )


def write_changes(task: int, batches: Iterator[pa.RecordBatch], spec: staging.WriteSpec) -> pa.RecordBatch:
    """Write rows that replace others, whose addresses and ids are in `_rowaddr` and `_rowid`, and return the task's row."""
    addresses: list[pa.Array] = []
    row_ids: list[pa.Array] = []

    def values() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            addresses.append(batch.column("_rowaddr"))
            if "_rowid" in batch.schema.names:
                row_ids.append(batch.column("_rowid"))
            yield batch.drop_columns([name for name in ("_rowaddr", "_rowid") if name in batch.schema.names])

    pieces = staging.write_task(values(), spec).pieces
    if pieces and row_ids:
        pieces = [_pilum.with_row_ids(pieces[0], numbers(row_ids)), *pieces[1:]]
    return changes(task, addresses, pieces)


def commit_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a statement as the commit takes them."""
    properties = options.get("properties")
    return {
        "commit_id": options.get("commit_id"),
        "properties": None if properties is None else dict(properties),
        "durability": options.get("durability", "full"),
        "expect": expected(options.get("expect")),
        "compat": options.get("compat"),
    }


def commit(
    base: Dataset,
    where: Location,
    results: Sequence[Any],
    options: Mapping[str, Any],
    *,
    predicate: str | None = None,
) -> Written:
    """Commit what tasks returned as one version.

    After an error that leaves no doubt, and when an earlier call with the same id committed, the staged files are removed.
    """
    pieces = [bytes(piece) for it in results for piece in it.pieces]
    removed = [bytes(it.removed) for it in results if it.removed is not None]
    try:
        outcome, removed_rows = _pilum.commit_changes(
            opened(base.version, where.uri, where.storage_options),
            pieces=pieces,
            removed=removed,
            kept=[],
            predicate=predicate,
            **commit_options(options),
        )
    except BaseException as error:
        staging.discard_after(where, pieces, error)
        raise
    if outcome.was_committed_before:
        staging.discard(where, pieces)
    counts = Counts(
        outcome.dataset,
        outcome.version,
        # A delete adds no row; an update removes as many as it adds.
        removed_rows,
        outcome.bytes,
        outcome.attempts,
        outcome.was_committed_before,
    )
    return Written(counts, where)  # type: ignore[arg-type]


@checked(ExpectingArguments, distributed=flag)
def compact(
    spark: SparkSession,
    uri: str,
    *,
    target_rows: int = 1_048_576,
    target_bytes: int | None = None,
    max_deleted_fraction: float = 0.1,
    distributed: bool | None = None,
    storage_options: StorageOptions | None = None,
    **options: Unpack[ExpectingArguments],
) -> CompactionResult | Dataset:
    """Rewrite small fragments, and those with many deleted rows, into large ones, as `Dataset.compact`.

    Each task rewrites one group of fragments, and the driver commits all groups as one version. No value changes.

    Args:
        spark: The session, classic or Connect.
        uri: The table.
        target_rows: Rows of a large fragment. Smaller neighbours are joined.
        target_bytes: Bytes of a large fragment, where the number of rows is not the right measure.
        max_deleted_fraction: A fragment with a larger share of deleted rows is rewritten, from 0 to 1.
        distributed: Whether tasks rewrite; by default for tables of more than 1 GiB.
        storage_options: Credentials and settings of the store.
        commit_id: As in `pilum.write_dataset`.
        properties: As in `pilum.write_dataset`.
        durability: As in `pilum.write_dataset`.
        retries: As in `delete`.
        expect: As in `pilum.write_dataset`.
    """
    ds = dataset(uri, storage_options=storage_options)
    targets: dict[str, Any] = {"target_rows": target_rows, "target_bytes": target_bytes}
    if not is_large(ds, distributed):
        return ds.compact(**targets, max_deleted_fraction=max_deleted_fraction, **options)
    where = Location.of(uri, storage_options)
    durability = options.get("durability", "full")
    properties = options.get("properties")

    def attempt() -> CompactionResult | Dataset:
        before = done_before(where, options.get("commit_id"))
        if before is not None:
            return before
        base = dataset(uri, storage_options=storage_options)
        table = (base.version, where.uri, where.storage_options)
        planned = _pilum.plan_compaction(opened(*table), **targets, max_deleted_fraction=max_deleted_fraction)
        if not planned:
            return base
        groups = Parts(planned, list)

        def pilum_compact(number: int) -> Iterator[pa.RecordBatch]:
            there = opened(*table)
            piece = _pilum.rewrite_fragments(there, groups[number], **targets, durability=durability)
            yield pa.record_batch({"task": pa.array([number], pa.int32()), "piece": pa.array([piece], pa.binary())})

        rows = run(spark, len(groups), pilum_compact, "task int, piece binary")
        pieces = [(groups[row.task], bytes(row.piece)) for row in rows]
        try:
            outcome = _pilum.commit_rewrite(
                opened(*table),
                pieces,
                commit_id=options.get("commit_id"),
                properties=None if properties is None else dict(properties),
                durability=durability,
                expect=expected(options.get("expect")),
            )
        except BaseException as error:
            staging.discard_after(where, [piece for _, piece in pieces], error)
            raise
        if outcome.was_committed_before:
            staging.discard(where, [piece for _, piece in pieces])
        return CompactionResult(outcome, where)

    return again(attempt, options.get("retries"))


@checked(CleanupArguments)
def cleanup(
    spark: SparkSession,
    uri: str,
    *,
    storage_options: StorageOptions | None = None,
    **options: Unpack[CleanupArguments],
) -> _pilum.CleanupResult:
    """Remove old versions, and files that no version names: those of attempts that did not count among them.

    The driver does it, without a job. Files of a job at work are younger than `unverified_older_than`, which must be longer
    than any job takes.

    Args:
        spark: The session, as for the other statements.
        uri: The table.
        storage_options: Credentials and settings of the store.
        older_than: As in `Dataset.cleanup`.
        keep_versions: As in `Dataset.cleanup`.
        unverified_older_than: As in `Dataset.cleanup`.
        dry_run: As in `Dataset.cleanup`.
    """
    del spark
    return dataset(uri, storage_options=storage_options).cleanup(**options)


@checked(read, name=text)
def register_view(spark: SparkSession, name: str, uri: str, **options: Any) -> DataFrame:
    """Make a table, or a part of one, a temporary view for SQL, and return its DataFrame.

    The view is of the version that was pinned: register it again to see a newer one.

    Args:
        spark: The session, classic or Connect.
        name: The name of the view.
        uri: The table.
        **options: As in `read`.
    """
    df = read(spark, uri, **options)
    df.createOrReplaceTempView(name)
    return df
