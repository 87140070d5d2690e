"""A DataFrame as the next version of a table: the workers write data files, the driver commits once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pilum import _pilum, fragments
from pilum.arguments import AdaptArguments, FileArguments, checked
from pilum.dataset import Dataset, Written, dataset, write_dataset
from pilum.exceptions import AlreadyExistsError, InvalidInputError, NotFoundError
from pilum.location import Location
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

Mode = Literal["create", "append", "overwrite"]

_OPERATIONS: dict[Mode, type[fragments.Append | fragments.Overwrite | fragments.Create]] = {
    "append": fragments.Append,
    "overwrite": fragments.Overwrite,
    "create": fragments.Create,
}

PIECES_SCHEMA = "partition int, attempt bigint, rows bigint, pieces array<binary>"


class SparkWriteArguments(FileArguments, total=False):
    """Options of a write from Spark; see `pilum.write_dataset`."""

    properties: Mapping[str, str] | None
    stable_row_ids: bool


@checked(SparkWriteArguments)
def write(
    df: DataFrame,
    uri: str,
    mode: Mode = "append",
    commit_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[SparkWriteArguments],
) -> Dataset:
    """Write the rows of a DataFrame as one new version of a table, and return it.

    The DataFrame is computed exactly once. Spark may repeat tasks that fail: the files of failed attempts never become part of
    a version. Nothing is visible before the one commit at the end.

    Args:
        df: The rows.
        uri: The table, reachable from the driver and the workers.
        mode: `"append"` adds rows, and makes the table if there is none; columns are matched by name and brought to the types
            of the table, as in `pilum.write_dataset`. `"overwrite"` replaces rows and schema. `"create"` refuses an existing
            table.
        commit_id: An id chosen by the caller. The same id commits once, so a job may run again after an unclear end.
        storage_options: Credentials and settings of the store, sent to the workers.
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

    Raises:
        AlreadyExistsError: `mode="create"` and there is a table.
        InvalidInputError: The columns do not fit those of the table, or a value has no lossless way into them.
        UnsupportedError: A column's type cannot be stored.
    """
    uri = Location.of(uri).uri
    before = _existing(uri, storage_options)
    if before is None:
        mode = "create"
    elif mode == "create":
        raise AlreadyExistsError(f"{uri}: there is a table, at version {before.version}: append to it or overwrite it")
    schema = from_spark_schema(df.schema)
    declared: pa.Schema | None = schema
    if mode == "append" and before is not None:
        # The workers bring the rows to the columns of the table; what cannot go together is told before they start.
        _check_columns(schema, before.schema, uri, options)
        declared = None
    file_options: FileArguments = {key: options[key] for key in FileArguments.__annotations__ if key in options}  # type: ignore[literal-required,assignment]

    # One action, and only one: a second would write everything again.
    rows = df.mapInArrow(_write_of(uri, mode, declared, file_options, storage_options), PIECES_SCHEMA).collect()
    partitions = [row.partition for row in rows]
    if len(set(partitions)) != len(partitions):
        raise InvalidInputError(f"{uri}: Spark returned the result of a partition twice: {sorted(partitions)}")
    pieces = [bytes(piece) for row in sorted(rows, key=lambda row: row.partition) for piece in row.pieces]

    if not pieces:
        return _without_rows(schema, uri, mode, before, commit_id, storage_options, options)
    return fragments.commit(
        uri,
        _OPERATIONS[mode](pieces),
        read_version=None if before is None else before.version,
        commit_id=commit_id,
        properties=options.get("properties"),
        stable_row_ids=options.get("stable_row_ids", False),
        durability=options.get("durability", "full"),
        compat=options.get("compat"),
        storage_options=storage_options,
    )


def _write_of(
    uri: str,
    mode: Mode,
    schema: pa.Schema | None,
    file_options: FileArguments,
    storage_options: Mapping[str, str] | None,
) -> Any:
    def pilum_write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        counted = [0]

        def counting() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                counted[0] += batch.num_rows
                if batch.num_rows:
                    yield batch

        stream = counting()
        first = next(stream, None)
        pieces: list[bytes] = []
        if first is not None:
            pieces = fragments.write(
                chain([first], stream), uri, mode=mode, schema=schema, storage_options=storage_options, **file_options
            )
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([context.partitionId() if context else 0], pa.int32()),
                pa.array([context.taskAttemptId() if context else 0], pa.int64()),
                pa.array([counted[0]], pa.int64()),
                pa.array([pieces], pa.list_(pa.binary())),
            ],
            names=["partition", "attempt", "rows", "pieces"],
        )

    return pilum_write


def _existing(uri: str, storage_options: Mapping[str, str] | None) -> Dataset | None:
    try:
        return dataset(uri, storage_options=storage_options)
    except NotFoundError:
        return None


def _check_columns(new: pa.Schema, there: pa.Schema, uri: str, options: SparkWriteArguments) -> None:
    adapt: AdaptArguments = {key: options[key] for key in AdaptArguments.__annotations__ if key in options}  # type: ignore[literal-required,assignment]
    try:
        _pilum.check_fits(new, there, **adapt)
    except InvalidInputError as error:
        raise InvalidInputError(f"{uri}: {error}") from None


def _without_rows(
    schema: pa.Schema,
    uri: str,
    mode: Mode,
    before: Dataset | None,
    commit_id: str | None,
    storage_options: Mapping[str, str] | None,
    options: SparkWriteArguments,
) -> Dataset:
    """Commit a write that has no rows: an empty table for a new schema, nothing at all for an append."""
    if mode == "append" and before is not None:
        return before
    made: Written = write_dataset(
        schema.empty_table(), uri, mode=mode, commit_id=commit_id, storage_options=storage_options, **options
    )
    return made
