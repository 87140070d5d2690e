"""A DataFrame as the next version of a table: the workers write data files, the driver commits once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pilum.arguments import checked
from pilum.exceptions import InvalidInputError
from pilum.spark import staging
from pilum.spark.staging import Mode, WriteOptions, WritePlan, WriteSpec
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from pilum.dataset import Dataset
    from pilum.location import StorageOptions

STAGED_SCHEMA = "partition int, attempt bigint, rows bigint, pieces array<binary>"

REPEATS = 3
"""How often a write is computed again because the columns of the table changed under it."""


def _partitions(name: str, value: Any) -> None:
    if value != "keep" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidInputError(f"{name}: pass 'keep' or a number from 1 on, not {value!r}")


@checked(WriteOptions, partitions=_partitions)
def write(
    df: DataFrame,
    uri: str,
    mode: Mode = "append",
    commit_id: str | None = None,
    storage_options: StorageOptions | None = None,
    *,
    partitions: int | str = "keep",
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
        partitions: `"keep"` writes the partitions that the DataFrame has, each to files of its own; a number brings them to at
            most so many first, without a shuffle.
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
        ConflictError: Another writer committed something that this write cannot follow.
        CommitUnknownError: The store did not say whether it took the commit: repeat the call with the same `commit_id`.
    """
    columns = from_spark_schema(df.schema)
    rows = df if partitions == "keep" else df.coalesce(int(partitions))
    for repeat in range(REPEATS):
        plan = staging.prepare(
            columns, uri, mode, commit_id=commit_id, storage_options=storage_options, options=options
        )
        if plan.done is not None:
            return plan.done
        pieces = stage(rows, plan)
        try:
            return staging.commit(plan, pieces)
        except InvalidInputError:
            if repeat + 1 == REPEATS or not staging.columns_changed(plan):
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
