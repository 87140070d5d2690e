"""The streaming sink: each batch of a stream becomes one version, exactly once, whatever fails and is repeated.

    task     looks whether the batch was committed; else writes data files          (nothing is visible)
    driver   commits all files of the batch with its number                          (the engine compares numbers again)
    Spark    notes in the checkpoint that the batch is done

A failure before the commit leaves data files that no version names; `cleanup` removes them. A failure after it makes Spark
repeat the batch, and the repetition commits nothing.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from pilum.arguments import checked
from pilum.dataset import Written, dataset
from pilum.exceptions import InvalidInputError
from pilum.spark import staging
from pilum.spark.staging import WriteOptions
from pilum.spark.streaming_batches import (
    ID_DIGITS,
    PREFIX,
    StreamBatch,
    as_mapping,
    check_app_id,
    check_checkpoint,
    check_run,
    claim,
    of_task,
    recorded,
)
from pilum.spark.types import from_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from pilum.location import StorageOptions


class BatchPart(NamedTuple):
    """What a task of a batch did."""

    pieces: list[bytes]
    rows: int
    batch: StreamBatch
    is_repeated: bool
    """The batch was committed before, so the task wrote nothing."""


class Sink:
    """One batch of a stream: `prepare` on the driver, `write` in each task, `commit` on the driver."""

    def __init__(
        self,
        uri: str,
        columns: pa.Schema,
        *,
        mode: Literal["append", "overwrite"] = "append",
        app_id: str | None = None,
        storage_options: StorageOptions | None = None,
        options: WriteOptions | None = None,
    ) -> None:
        if app_id is not None:
            check_app_id(app_id)
        given: WriteOptions = {} if options is None else options
        self._plan = staging.prepare(columns, uri, mode, storage_options=storage_options, options=given)
        self._properties = as_mapping(given.get("properties"))
        self._app_id = app_id

    def task(self, fallback: tuple[str, int, str] | None = None) -> Task:
        """Return what a task needs: it can be pickled."""
        return Task(self._plan.spec, self._app_id, fallback)

    def commit(self, results: Sequence[BatchPart]) -> None:
        """Commit what the tasks of a batch wrote, unless the batch was committed before.

        Raises:
            ConflictError: Another stream uses this application id, or another run of this stream has taken over.
        """
        if not results:
            return
        batch = results[0].batch
        spec = self._plan.spec
        if any(it.batch != batch for it in results):
            raise InvalidInputError(
                f"{spec.uri}: tasks of several batches were handed over together: {results[0].batch}"
            )
        check_checkpoint(batch, recorded(spec.uri, spec.storage_options, batch.app), spec.uri)
        pieces = [piece for it in results for piece in it.pieces]
        if any(it.is_repeated for it in results):
            # A restarted stream repeats its last batch.
            there = recorded(spec.uri, spec.storage_options, batch.app)
            if there.runs[:1] != (batch.run,):
                claim(batch, spec.uri, spec.storage_options)
            return
        options: WriteOptions = {**self._plan.options, "properties": {**self._properties, **batch.properties()}}
        made = staging.commit(replace(self._plan, options=options), pieces)
        if isinstance(made, Written) and made.was_committed_before:
            there = recorded(spec.uri, spec.storage_options, batch.app)
            check_checkpoint(batch, there, spec.uri)
            check_run(batch, there, spec.uri)


class Task:
    """Writes the rows of one task of a batch."""

    def __init__(self, spec: staging.WriteSpec, app_id: str | None, fallback: tuple[str, int, str] | None) -> None:
        self._spec = spec
        self._app_id = app_id
        self._fallback = fallback

    def write(self, batches: Iterable[pa.RecordBatch]) -> BatchPart:
        """Write data files, unless the batch was committed before."""
        batch = of_task(self._app_id, self._fallback)
        there = recorded(self._spec.uri, self._spec.storage_options, batch.app)
        if batch.batch <= there.batch:
            return BatchPart([], 0, batch, is_repeated=True)
        staged = staging.write_task(batches, self._spec)
        return BatchPart(staged.pieces, staged.rows, batch, is_repeated=False)


@checked(WriteOptions)
def foreach_batch(
    uri: str,
    app_id: str | None = None,
    mode: Literal["append", "overwrite"] = "append",
    storage_options: StorageOptions | None = None,
    **options: Unpack[WriteOptions],
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch exactly once. It works where the Data Source does not.

        stream.writeStream.foreachBatch(ps.foreach_batch(uri)).option("checkpointLocation", c).start()

    Args:
        uri: The table; the first batch makes it if there is none.
        app_id: The id of the stream, the same after each restart. None takes that of the checkpoint; Connect needs one.
        mode: `"append"`, or `"overwrite"` for `outputMode("complete")`.
        storage_options: Credentials and settings of the store, sent to the workers.
        **options: As in `pilum.spark.write`.
    """
    if app_id is not None:
        check_app_id(app_id)
    start = str(uuid.uuid4())[:ID_DIGITS]

    def write_batch(df: DataFrame, batch_id: int) -> None:
        columns = from_spark_schema(df.schema)
        sink = Sink(uri, columns, mode=mode, app_id=app_id, storage_options=storage_options, options=options)
        task = sink.task(None if app_id is None else (app_id, batch_id, start))
        # One action, and only one: a second would write everything again.
        rows = df.mapInArrow(_write_of(task), "result binary").collect()
        sink.commit([pickle.loads(bytes(row.result)) for row in rows])  # noqa: S301 - our own tasks wrote it

    return write_batch


def _write_of(task: Task) -> Any:
    def pilum_write_batch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = pickle.dumps(task.write(batches))
        yield pa.record_batch({"result": pa.array([done], pa.binary())})

    return pilum_write_batch


@checked()
def forget_stream(uri: str, app_id: str, storage_options: StorageOptions | None = None) -> None:
    """Remove what a table records of a stream, so that its application id can be used from batch 0 on.

    Args:
        uri: The table.
        app_id: The id of the stream: that of its checkpoint, unless it was chosen. `Dataset.config` has the ids behind
            `pilum.stream.`.
        storage_options: Credentials and settings of the store.

    Raises:
        InvalidInputError: No stream of this id has written to the table.
    """
    table = dataset(uri, storage_options=storage_options)
    key = PREFIX + app_id
    if key not in table.config:
        known = [it.removeprefix(PREFIX) for it in table.config if it.startswith(PREFIX)]
        raise InvalidInputError(f"{table.uri}: no stream {app_id!r} has written to this table; there are {known}")
    table.update_config(delete=[key])
