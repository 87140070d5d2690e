"""Jobs of Spark that run a function in numbered tasks and bring small rows to the driver."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

T = TypeVar("T")

_END = struct.Struct("<Q")


class Parts(Generic[T]):
    """Descriptions of the tasks of a job, of which each task needs one.

    Spark ships the function of a job to every task, with all that the function refers to. Here each description is bytes of its
    own, so a task of 10,000 unpickles one of them, and not all.
    """

    __slots__ = ("_ends", "_make", "_packed")

    def __init__(self, parts: Iterable[Iterable[Any]], make: Callable[[tuple[Any, ...]], T]) -> None:
        """Pack named tuples or lists. `make` makes one from its items."""
        # Protocol 2 has no frames: a description of one fragment takes about 13 bytes.
        packed = [pickle.dumps(tuple(part), protocol=2) for part in parts]
        end, ends = 0, bytearray(_END.pack(0))
        for part in packed:
            end += len(part)
            ends += _END.pack(end)
        self._packed, self._ends, self._make = b"".join(packed), bytes(ends), make

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._ends) // _END.size - 1

    def __getitem__(self, number: int) -> T:
        """Return the description of one task."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        first, last = (_END.unpack_from(self._ends, at * _END.size)[0] for at in (number, number + 1))
        return self._make(pickle.loads(self._packed[first:last]))  # noqa: S301 - packed by the driver of this job


def run(spark: SparkSession, count: int, task: Callable[[int], Iterator[pa.RecordBatch]], schema: str) -> list[Any]:
    """Run a function in `count` tasks of Spark, which get the numbers from 0, and return the rows of all."""

    def pilum_task(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for number in batch.column(0).to_pylist():
                yield from task(number)

    if not count:
        return []
    return spark.range(0, count, 1, count).mapInArrow(pilum_task, schema).collect()
