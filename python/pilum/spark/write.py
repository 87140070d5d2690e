"""A DataFrame as the next version of a table: the workers write data files, the driver commits once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pilum import _pilum
from pilum.arguments import DEFAULTS, checked
from pilum.exceptions import InvalidInputError
from pilum.location import Location
from pilum.spark import replacing, staging
from pilum.spark.jobs import run
from pilum.spark.staging import Mode, WriteOptions, WritePlan, WriteSpec
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

    from pilum.dataset import Dataset
    from pilum.location import StorageOptions

STAGED_SCHEMA = "partition int, attempt bigint, rows bigint, pieces array<binary>"

SMALL_BYTES = 16 << 20
"""A task's file with fewer bytes is joined with those of its neighbours, if `partitions` is None."""

COMBINED_BYTES = 128 << 20
"""Bytes of small files that are joined at most."""

DRIVER_BYTES = 64 << 20
"""Up to so many bytes of small files are joined by the driver, which is quicker than a job."""

REPEATS = 3
"""How often a write is computed again because the columns of the table changed under it."""


def _partitions(name: str, value: Any) -> None:
    if value is not None and value != "keep" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidInputError(f"{name}: pass 'keep' or a number from 1 on, not {value!r}")


@checked(WriteOptions, partitions=_partitions)
def write(
    df: DataFrame,
    uri: str,
    mode: Mode = "append",
    commit_id: str | None = None,
    storage_options: StorageOptions | None = None,
    *,
    partitions: int | Literal["keep"] | None = None,
    replace_where: Any = None,
    **options: Unpack[WriteOptions],
) -> Dataset:
    """Write the rows of a DataFrame as one new version of a table, and return it.

    The DataFrame is computed exactly once, unless another writer changed the columns of the table meanwhile. Spark may repeat
    tasks that fail: the files of failed attempts never become part of a version. Nothing is visible before the one commit at
    the end.

    Args:
        df: The rows.
        uri: The table, reachable from the driver and the workers.
        mode: `"append"` adds rows, and makes the table if there is none; columns are matched by name and brought to the types
            of the table, as in `pilum.write_dataset`. `"overwrite"` replaces rows and schema. `"create"` refuses an existing
            table.
        commit_id: An id chosen by the caller. The same id commits once, so a job may run again after an unclear end. The id is
            looked up before a task runs: a repeated call answers with the version of the first, and computes nothing.
        storage_options: Credentials and settings of the store, sent to the workers.
        partitions: None makes few large files: every partition is written by a task, and files of less than 16 MiB are joined
            with those of neighbours before the commit, up to `max_rows_per_file`. `"keep"` leaves each partition its own
            files. A number brings the rows to at most so many partitions first, without a shuffle, and then keeps them.
        replace_where: With `mode="overwrite"`, a condition in any of its forms over the columns of the table. Only rows for
            which it is true are replaced, and the columns of the table stay. New rows for which it is not true are refused.
            Removal and new rows are one version. The commit also replaces matching rows that another writer adds meanwhile.
        schema: As in `pilum.write_dataset`.
        cast: As in `pilum.write_dataset`.
        missing: As in `pilum.write_dataset`.
        extra: As in `pilum.write_dataset`.
        compat: As in `pilum.write_dataset`.
        max_rows_per_file: As in `pilum.write_dataset`.
        max_rows_per_page: As in `pilum.write_dataset`.
        max_bytes_per_file: As in `pilum.write_dataset`.
        durability: As in `pilum.write_dataset`.
        properties: As in `pilum.write_dataset`.
        stable_row_ids: As in `pilum.write_dataset`.
        expect: As in `pilum.write_dataset`.

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: The columns do not fit those of the table, or a value has no lossless way into them.
        UnsupportedError: A column's type cannot be stored.
        ConflictError: Another writer committed a version that conflicts with this write.
        CommitUnknownError: The store did not say whether it took the commit: repeat the call with the same `commit_id`.
    """
    columns = from_spark_schema(df.schema)
    rows = df.coalesce(partitions) if isinstance(partitions, int) else df
    for repeat in range(REPEATS):
        plan = staging.prepare(
            columns,
            uri,
            mode,
            commit_id=commit_id,
            storage_options=storage_options,
            options=options,
            replace_where=replace_where,
        )
        if plan.done is not None:
            return plan.done
        pieces = stage(rows, plan)
        where = Location.of(plan.spec.uri, plan.spec.storage_options)
        try:
            if partitions is None:
                pieces = combine(df.sparkSession, plan, pieces)
            return replacing.commit(plan, pieces, df.sparkSession)
        except BaseException as error:
            staging.discard_after(where, pieces, error)
            if repeat + 1 == REPEATS or not staging.is_outdated(plan, error):
                raise
    raise AssertionError("unreachable")


def stage(rows: DataFrame, plan: WritePlan) -> list[bytes]:
    """Run the tasks that write the rows, and return the pieces of one attempt of each, in the order of the partitions."""
    # One action, and only one: a second would write everything again.
    results = rows.mapInArrow(_write_of(plan.spec), STAGED_SCHEMA).collect()
    numbers = [it.partition for it in results]
    if len(set(numbers)) != len(numbers):
        raise InvalidInputError(f"{plan.spec.uri}: Spark returned the result of a partition twice: {sorted(numbers)}")
    return [bytes(piece) for it in sorted(results, key=lambda it: it.partition) for piece in it.pieces]


def combine(spark: SparkSession, plan: WritePlan, pieces: list[bytes]) -> list[bytes]:
    """Join the small files of neighbouring tasks, and return the pieces to commit. The files that were joined are removed."""
    spec, groups = plan.spec, _groups(pieces, plan.options.get("max_rows_per_file", DEFAULTS["max_rows_per_file"]))
    small = [group for group in groups if len(group) > 1]
    if not small:
        return pieces
    layout: dict[str, Any] = {
        key: spec.files[key]
        for key in ("max_rows_per_file", "max_rows_per_page", "max_bytes_per_file", "durability")
        if key in spec.files
    }
    where = Location.of(spec.uri, spec.storage_options)

    def joined(number: int) -> bytes:
        there = Location.of(spec.uri, spec.storage_options)
        return _pilum.combine_fragments(there.uri, small[number], storage_options=there.options(), **layout)

    if sum(_pilum.piece_size(piece)[1] for group in small for piece in group) <= DRIVER_BYTES:
        made = [joined(number) for number in range(len(small))]
    else:

        def pilum_join(number: int) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch(
                {"task": pa.array([number], pa.int32()), "piece": pa.array([joined(number)], pa.binary())}
            )

        results = run(spark, len(small), pilum_join, "task int, piece binary")
        made = [bytes(it.piece) for it in sorted(results, key=lambda it: it.task)]
    staging.discard(where, [piece for group in small for piece in group])
    following = iter(made)
    return [group[0] if len(group) == 1 else next(following) for group in groups]


def _groups(pieces: Sequence[bytes], max_rows: int) -> list[list[bytes]]:
    """Return runs of neighbouring pieces whose files belong together."""
    groups: list[list[bytes]] = []
    rows_left = bytes_left = -1
    for piece in pieces:
        rows, size, combines = _pilum.piece_size(piece)
        is_small = combines and size < SMALL_BYTES and rows < max_rows
        if is_small and rows <= rows_left and size <= bytes_left:
            groups[-1].append(piece)
        else:
            groups.append([piece])
            rows_left, bytes_left = (max_rows, COMBINED_BYTES) if is_small else (-1, -1)
        rows_left, bytes_left = rows_left - rows, bytes_left - size
    return groups


def _write_of(spec: WriteSpec) -> Any:
    def pilum_write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        staged = staging.write_task(batches, spec)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([context.partitionId() if context else 0], pa.int32()),
                pa.array([context.taskAttemptId() if context else 0], pa.int64()),
                pa.array([staged.rows], pa.int64()),
                pa.array([staged.pieces], pa.list_(pa.binary())),
            ],
            names=["partition", "attempt", "rows", "pieces"],
        )

    return pilum_write
