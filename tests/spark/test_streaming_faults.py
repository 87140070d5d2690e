"""A stream from a table to a table in which each step fails once: every row arrives once, and cleanup takes what was left."""

from __future__ import annotations

import datetime as dt
import os
import random

import pyarrow as pa
import pytest

import pilum
from pilum.spark.streaming_batches import StreamBatch
from pilum.spark.streaming_sink import BatchPart, Sink
from support.spark_faults import POINTS, arm, faulty_source, is_armed

ROUNDS = len(POINTS) if "PILUM_TEST_SCALE" not in os.environ else 200 * int(os.environ["PILUM_TEST_SCALE"])
SECONDS = 120


def append(uri, first, count):
    table = pa.table({"id": pa.array(range(first, first + count), pa.int64())})
    pilum.write_dataset(table, uri, mode="append", max_rows_per_file=7)


def files(folder):
    return sorted(it.name for it in (folder / "data").iterdir())


@pytest.mark.timeout(300 if "PILUM_TEST_SCALE" not in os.environ else 20_000)
def test_every_row_arrives_once_whatever_step_fails(spark, tmp_path):
    seed = random.randrange(2**32)
    r = random.Random(seed)
    faults = tmp_path / "faults"
    faults.mkdir()
    spark.dataSource.register(faulty_source(str(faults)))
    source, sink = str(tmp_path / "in"), str(tmp_path / "out")
    append(source, 0, 10)
    rows = 10

    messages = []

    def run():
        """Run the stream until it has read everything, and return whether it did."""
        query = None
        try:
            query = (
                spark.readStream.format("pilum_faulty")
                .option("maxFilesPerTrigger", r.choice([1, 2, 100]))
                .load(source)
                .writeStream.format("pilum_faulty")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(sink)
            )
            if not query.awaitTermination(SECONDS):
                messages.append("the stream does not end")
                return False
        except Exception as error:
            messages.append(str(error))
            return False
        finally:
            if query is not None:
                query.stop()
        return True

    passed = failed = 0
    # The first round has the first offset of the stream to ask for.
    for number in range(ROUNDS):
        point = POINTS[number % len(POINTS)]
        mode = ["raise", "exit"][(number + number // len(POINTS)) % 2]
        if point == "source.initial_offset" and number:
            continue
        append(source, rows, n := r.randint(1, 20))
        rows += n
        arm(faults, point, mode)
        if not run():
            failed += 1
            # A fault that waited for its turn may come too.
            assert run() or run(), f"seed {seed}: the stream does not go on after {mode} at {point}: {messages[-1]}"
        passed += not is_armed(faults)
        found = sorted(pilum.dataset(sink).to_table()["id"].to_pylist())
        assert found == list(range(rows)), f"seed {seed}: {mode} at {point}"
    # Faults in tasks are repeated by Spark; those on the driver end the query.
    assert passed >= len(POINTS) - 2
    assert failed >= 5
    # Attempts left files that no version has. A cleanup takes them, and nothing else.
    ds = pilum.dataset(sink)
    left = len(files(tmp_path / "out"))
    named = {file for it in ds.fragments for file in it.files}
    assert left > len(named)
    ds.cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    assert len(files(tmp_path / "out")) == len(named)
    assert ds.verify().ok
    assert sorted(pilum.dataset(sink).to_table()["id"].to_pylist()) == list(range(rows))


def test_a_version_that_is_newer_than_the_target_is_read_whole_by_the_next_query(tmp_path):
    from pyspark.sql import types as t

    from pilum.spark.source import DefaultSource

    uri = str(tmp_path / "t")
    append(uri, 0, 7)
    schema = t.StructType([t.StructField("id", t.LongType())])
    reader = DefaultSource({"path": uri}).streamReader(schema)
    append(uri, 7, 7)
    start = reader.initialOffset()
    # A second query of the same stream recorded version 1 as its target, before the version that this query reads existed.
    reader._target = 1
    assert reader.latestOffset(start, None) == start
    assert (start["version"], start["index"], start["snapshot"]) == (2, 0, True)
    reader._target = None
    end = reader.latestOffset(start, None)
    rows = [row for it in reader.partitions(start, end) for batch in reader.read(it) for row in batch["id"].to_pylist()]
    assert rows == list(range(14))


def part(uri, batch, checkpoint, run, first):
    """Return what a task of a batch hands to the driver."""
    columns = pa.schema([("id", pa.int64())])
    sink = Sink(uri, columns, app_id="app")
    task = sink.task(("app", batch, run))
    done = task.write(iter([pa.record_batch({"id": pa.array([first], pa.int64())})]))
    named = StreamBatch("app", batch, checkpoint, f"{checkpoint}.{run}")
    return sink, BatchPart(done.pieces, done.rows, named, done.is_repeated)


def test_a_driver_that_was_thought_dead_cannot_commit_its_batch_again(tmp_path):
    uri = str(tmp_path / "t")
    # Two drivers have the same batch in their hands; both have written files, neither has committed.
    first, from_first = part(uri, 0, "c", "run-1", 10)
    second, from_second = part(uri, 0, "c", "run-2", 10)
    second.commit([from_second])
    with pytest.raises(pilum.ConflictError, match="another run committed batch 0 of stream 'app'") as caught:
        first.commit([from_first])
    assert not caught.value.retryable
    assert pilum.dataset(uri).to_table()["id"].to_pylist() == [10]
    going_on, from_going_on = part(uri, 1, "c", "run-2", 11)
    going_on.commit([from_going_on])
    assert pilum.dataset(uri).to_table()["id"].to_pylist() == [10, 11]


def test_a_run_that_another_one_followed_cannot_commit(tmp_path):
    uri = str(tmp_path / "t")
    for run in ("run-1", "run-2"):
        # The second run repeats the batch of the first, as after a crash.
        sink, done = part(uri, 0, "c", run, 10)
        sink.commit([done])
    assert pilum.dataset(uri).config == {"pilum.stream.app": "0 c.run-2 c.run-1"}
    late, from_late = part(uri, 1, "c", "run-1", 11)
    with pytest.raises(pilum.ConflictError, match=r"run c\.run-2 of stream app committed after this run") as caught:
        late.commit([from_late])
    assert not caught.value.retryable
    sink, done = part(uri, 1, "c", "run-2", 11)
    sink.commit([done])
    assert pilum.dataset(uri).to_table()["id"].to_pylist() == [10, 11]


def test_another_checkpoint_is_refused_even_if_both_looked_before_either_committed(tmp_path):
    uri = str(tmp_path / "t")
    first, from_first = part(uri, 0, "c", "run-1", 10)
    second, from_second = part(uri, 0, "d", "run-2", 99)
    first.commit([from_first])
    with pytest.raises(pilum.ConflictError, match="belongs to a stream with another checkpoint"):
        second.commit([from_second])
    assert pilum.dataset(uri).to_table()["id"].to_pylist() == [10]


def test_batches_without_rows_and_batches_that_were_done_write_nothing(tmp_path):
    uri = str(tmp_path / "t")
    sink, done = part(uri, 0, "c", "run-1", 10)
    sink.commit([done])
    sink, done = part(uri, 0, "c", "run-1", 10)
    assert done.is_repeated
    assert done.pieces == []
    sink.commit([done])
    sink.commit([])
    nothing = Sink(uri, pa.schema([("id", pa.int64())]), app_id="app")
    nothing.commit([BatchPart([], 0, StreamBatch("app", 1, "c", "c.run-1"), is_repeated=False)])
    assert pilum.dataset(uri).version == 1
    with pytest.raises(pilum.InvalidInputError, match="tasks of several batches"):
        sink.commit([done, done._replace(batch=done.batch._replace(batch=5))])
