"""Jobs of Spark that run a function in numbered tasks and bring small rows to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def run(spark: SparkSession, count: int, task: Callable[[int], Iterator[pa.RecordBatch]], schema: str) -> list[Any]:
    """Run a function in `count` tasks of Spark, which get the numbers from 0, and return the rows of all."""

    def pilum_task(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for number in batch.column(0).to_pylist():
                yield from task(number)

    if not count:
        return []
    return spark.range(0, count, 1, count).mapInArrow(pilum_task, schema).collect()
