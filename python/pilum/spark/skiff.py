"""Partitions of a DataFrame through an external program that reads and writes Skiff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pilum.arguments import checked, pairs
from pilum.exceptions import InvalidInputError
from pilum.skiff.formats import check_format
from pilum.skiff.pipe import pipe_batches
from pilum.spark.conform import conform_batches
from pilum.spark.types import from_spark_schema, to_spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pilum.skiff.formats import Format


@checked(env=pairs)
def pipe_skiff(
    df: DataFrame,
    command: str | Sequence[str],
    format_in: Format,
    format_out: Format,
    *,
    env: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows that an external program makes of every partition.

    The program is started once per partition, also for one without rows, on the machine of its task. It reads Skiff rows from
    stdin and writes Skiff rows to stdout. It is fed no faster than it reads, and read no faster than Spark takes its rows.

    Args:
        df: The rows to give to the program.
        command: The program with its arguments, or a line for `/bin/sh`.
        format_in: The format of its stdin: one table, whose columns are those of `df`.
        format_out: The format of its stdout: one table, whose columns are those of the result.
        env: Environment variables for the program, beside those of the task.

    Raises:
        InvalidInputError: A format has not exactly one table.
        StoreError: In the task: the program failed; the message has its exit code and the end of its stderr.
    """
    for name, given in (("format_in", format_in), ("format_out", format_out)):
        check_format(given, name)
        if len(given) != 1:
            raise InvalidInputError(f"{name} has {len(given)} tables; pipe_skiff needs exactly one")
    spark_schema = to_spark_schema(format_out.schemas[0])
    result_schema = from_spark_schema(spark_schema)
    wanted = format_in.schemas[0]

    def pipe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = conform_batches(batches, wanted, "pipe_skiff: the DataFrame")
        made = pipe_batches(given, command, format_in, format_out, env)
        return conform_batches(made, result_schema, "pipe_skiff: the program")

    return df.mapInArrow(pipe, spark_schema)
