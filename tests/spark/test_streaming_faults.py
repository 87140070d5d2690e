"""A stream from a table to a table in which each step fails once: every row arrives once, and cleanup takes what was left."""

from __future__ import annotations

import datetime as dt
import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.spark.streaming_batches import StreamBatch
from pilum.spark.streaming_sink import BatchPart, Sink
from support.spark_faults import POINTS, arm, faulty_source

SCALE = int(os.environ.get("PILUM_TEST_SCALE", "0"))

GROUPS = (
    # A fault on the driver ends the query, so the test starts the query again; the start after the last fault succeeds.
    ("source.initial_offset", "source.before_partitions", "sink.plan"),
    ("source.latest_offset", "source.after_partitions", "sink.before_commit"),
    ("source.commit", "sink.after_commit"),
    # Spark runs a failed task again, and gives up when it has failed four times: no group has more than three faults.
    ("source.before_read", "source.during_read", "sink.before_write"),
    ("sink.during_write", "sink.after_write"),
)
"""The faults of each round of the short run. The long run, `PILUM_TEST_SCALE=1` or more, has 200 rounds of one fault."""

SECONDS = 120


def append(uri, first, count):
    table = pa.table({"id": pa.array(range(first, first + count), pa.int64())})
    pilum.write_dataset(table, uri, mode="append", max_rows_per_file=7)


def files(folder):
    return sorted(it.name for it in (folder / "data").iterdir())


def rounds():
    """Return the faults of each round: pairs of a point, and of how the code fails there (`raise` or `exit`)."""
    if not SCALE:
        assert sorted(point for group in GROUPS for point in group) == sorted(POINTS)
        return [[(point, ["raise", "exit"][POINTS.index(point) % 2]) for point in group] for group in GROUPS]
    count = len(POINTS)
    plain = [(POINTS[it % count], ["raise", "exit"][(it + it // count) % 2]) for it in range(200 * SCALE)]
    # A stream requests its initial offset only in the first round, so later rounds cannot fail there.
    return [[it] for number, it in enumerate(plain) if not number or it[0] != "source.initial_offset"]


class Copy:
    """A stream that copies one table to another. Tests make it fail, and start it again from its checkpoint."""

    def __init__(self, spark, folder, seed):
        self.spark, self.folder, self.r = spark, folder, random.Random(seed)
        self.source, self.sink = str(folder / "in"), str(folder / "out")
        self.rows = self.failed = 0
        self.message = ""

    def grow(self, count):
        """Append rows to the source."""
        append(self.source, self.rows, count)
        self.rows += count

    def ends_well(self):
        """Run the stream until it has read everything, and return whether it did."""
        query = None
        try:
            query = (
                self.spark.readStream.format("pilum_faulty")
                .option("maxFilesPerTrigger", self.r.choice([1, 2, 100]))
                .load(self.source)
                .writeStream.format("pilum_faulty")
                .option("checkpointLocation", str(self.folder / "checkpoint"))
                .trigger(availableNow=True)
                .start(self.sink)
            )
            if query.awaitTermination(SECONDS):
                return True
            self.message = "the stream does not end"
        except Exception as error:
            self.message = str(error)
        finally:
            if query is not None:
                query.stop()
        self.failed += 1
        return False

    def arrived(self):
        """Return the ids in the sink, sorted; none if the sink has no version yet."""
        if not list(Path(self.sink, "_versions").glob("*.manifest")):
            return []
        return sorted(pilum.dataset(self.sink).to_table()["id"].to_pylist())


@pytest.mark.timeout(20_000 if SCALE else 300)
def test_every_row_arrives_once_whatever_step_fails(spark, tmp_path):
    seed = random.randrange(2**32)
    faults = tmp_path / "faults"
    faults.mkdir()
    spark.dataSource.register(faulty_source(str(faults)))
    copy = Copy(spark, tmp_path, seed)
    copy.grow(10)
    for group in rounds():
        copy.grow(copy.r.randint(1, 20))
        for point, mode in group:
            arm(faults, point, mode)
        # Each fault of the group may end a query. So may a fault of an earlier group whose point was not reached before.
        for _ in range(len(group) + 2):
            is_done = copy.ends_well()
            found = copy.arrived()
            assert found == list(range(len(found))), f"seed {seed}: {group}"
            if is_done:
                break
        else:
            raise AssertionError(f"seed {seed}: the stream does not go on after {group}: {copy.message}")
        assert len(found) == copy.rows, f"seed {seed}: {group}"
    # Spark runs a failed task again, so only faults on the driver end the query.
    assert len(list(faults.glob("*.passed"))) >= len(POINTS) - 2
    assert copy.failed >= 5
    # Failed attempts left files that no version names. A cleanup removes these files, and no others.
    ds = pilum.dataset(copy.sink)
    left = len(files(tmp_path / "out"))
    named = {file for it in ds.fragments for file in it.files}
    assert left > len(named)
    ds.cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    assert len(files(tmp_path / "out")) == len(named)
    assert ds.verify().ok
    assert copy.arrived() == list(range(copy.rows))


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
