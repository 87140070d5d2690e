"""Streams from tables and into tables: every row exactly once, whatever is stopped, repeated or started twice."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import pilum
from pilum import spark as ps

SECONDS = 120


def rows(first, count):
    numbers = range(first, first + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "s": [f"row {n}" for n in numbers]})


def append(uri, first, count=10):
    return pilum.write_dataset(rows(first, count), uri, mode="append", max_rows_per_file=5)


def ids(uri):
    return sorted(pilum.dataset(uri).to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def place(tmp_path):
    """A table to read, a table to write, and a checkpoint."""
    append(str(tmp_path / "in"), 0)
    return tmp_path


def source(spark, place, **options):
    return spark.readStream.format("pilum").options(**options).load(str(place / "in"))


def to_sink(df, place, checkpoint="checkpoint", **options):
    """Run a stream into the table `out` until it has read everything; raise what it raised."""
    query = (
        df.writeStream.format("pilum")
        .option("checkpointLocation", str(place / checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start(str(place / "out"))
    )
    assert query.awaitTermination(SECONDS)
    return query


def repeat_last_batch(place):
    """Do as if Spark had died after the last commit to the table and before it noted that in the checkpoint."""
    commits = place / "checkpoint" / "commits"
    last = max(int(it.name) for it in commits.iterdir() if it.name.isdigit())
    for file in (commits / str(last), commits / f".{last}.crc"):
        file.unlink(missing_ok=True)
    return last


def test_rows_arrive_once_and_a_restarted_stream_goes_on(spark, place):
    out = str(place / "out")
    to_sink(source(spark, place), place)
    assert ids(out) == list(range(10))
    append(str(place / "in"), 10)
    append(str(place / "in"), 20)
    query = to_sink(source(spark, place, maxFilesPerTrigger=1), place)
    assert ids(out) == list(range(30))
    # Each of the four new files is a batch, and each batch is one version.
    assert pilum.dataset(out).version == 1 + 4
    end = query.recentProgress[-1]["sources"][0]["endOffset"]
    end = json.loads(end) if isinstance(end, str) else end
    assert (end["version"], end["index"], end["snapshot"]) == (4, 0, False)
    # What Spark repeats is committed before.
    version = pilum.dataset(out).version
    for _ in range(2):
        last = repeat_last_batch(place)
        to_sink(source(spark, place), place)
        assert ids(out) == list(range(30))
    (key,) = pilum.dataset(out).config
    assert pilum.dataset(out).config[key].split()[0] == str(last)
    # Each restarted run notes itself; no rows were written.
    assert pilum.dataset(out).version == version + 2
    append(str(place / "in"), 30)
    to_sink(source(spark, place), place)
    assert ids(out) == list(range(40))


def test_the_source_reads_what_was_there_and_then_what_comes(spark, place):
    uri = str(place / "in")
    df = source(spark, place, maxBytesPerTrigger="1k", columns="id", filter="id <> 3")
    query = df.writeStream.format("memory").queryName("tail").trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        append(uri, 10)
        pilum.dataset(uri).compact()
        pilum.dataset(uri).add_columns({"z": "id * 2"})
        append_wide = rows(20, 5).append_column("z", pa.array([None] * 5, pa.int64()))
        pilum.dataset(uri).append(append_wide)
        query.processAllAvailable()
    finally:
        query.stop()
    got = sorted(row.id for row in spark.sql("SELECT id FROM tail").collect())
    assert got == [n for n in range(25) if n != 3]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": "2"}, range(10, 30)),
        ({"startingVersion": "latest"}, []),
        ({"startingVersion": "second"}, range(10, 30)),
        ({"startingTimestamp": "2000-01-01"}, range(30)),
        ({"startingTimestamp": "of version 3"}, range(20, 30)),
    ],
)
def test_a_stream_begins_where_it_is_told(spark, place, options, expected):
    uri = str(place / "in")
    append(uri, 10).tags.create("second")
    at = append(uri, 20).versions()[-1].timestamp
    options = {name: value.replace("of version 3", at.isoformat()) for name, value in options.items()}
    to_sink(source(spark, place, **options), place)
    out = place / "out"
    assert (ids(str(out)) if out.exists() else []) == list(expected)


def test_changes_that_are_no_appends_fail_or_are_skipped_or_read(spark, place):
    uri, out = str(place / "in"), str(place / "out")
    to_sink(source(spark, place), place)
    pilum.dataset(uri).delete("id < 3")
    append(uri, 10)
    with pytest.raises(Exception, match=r"version 2 \(Delete\).*onChange='skip'.*startingVersion=3"):
        to_sink(source(spark, place), place)
    to_sink(source(spark, place, onChange="skip"), place)
    assert ids(out) == list(range(20))
    changes = source(spark, place, onChange="changes", startingVersion=1)
    pilum.dataset(uri).update({"s": "'new'"}, "id = 5")
    pilum.dataset(uri).overwrite(rows(100, 1))
    query = changes.writeStream.format("memory").queryName("changes").trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS)
    got = spark.sql("SELECT * FROM changes").collect()
    by_version = {
        version: sorted((row["_change_type"], row.id, row.s) for row in got if row["_commit_version"] == version)
        for version in range(1, 6)
    }
    assert [kind for kind, _, _ in by_version[1]] == ["insert"] * 10
    assert by_version[2] == [("delete", n, f"row {n}") for n in range(3)]
    assert by_version[4] == [("delete", 5, "row 5"), ("insert", 5, "new")]
    assert by_version[5][-1] == ("insert", 100, "row 100")
    # Whoever applies the changes has the table.
    state: set[tuple[int, str]] = set()
    for row in sorted(got, key=lambda row: (row["_commit_version"], row["_change_type"])):
        change = state.add if row["_change_type"] == "insert" else state.remove
        change((row.id, row.s))
    assert state == {(100, "row 100")}
    assert {row["_commit_timestamp"].tzinfo for row in got} == {None}


def test_versions_that_were_cleaned_up_are_an_error_that_says_how_to_go_on(spark, place):
    uri = str(place / "in")
    to_sink(source(spark, place), place)
    append(uri, 10)
    append(uri, 20)
    pilum.dataset(uri).cleanup(older_than=dt.timedelta(0))
    with pytest.raises(Exception, match=r"needs version .*the oldest version is 3.*new checkpoint.*startingVersion=4"):
        to_sink(source(spark, place), place)
    shutil.rmtree(uri)
    append(uri, 0)
    with pytest.raises(Exception, match="another table is at this address"):
        to_sink(source(spark, place), place)


def test_two_streams_cannot_share_an_application_id(spark, place):
    out = str(place / "out")
    to_sink(source(spark, place), place, appId="orders")
    with pytest.raises(Exception, match=r"'orders' belongs to a stream with another checkpoint.*forget_stream"):
        to_sink(source(spark, place), place, checkpoint="other", appId="orders")
    assert ids(out) == list(range(10))
    # Without a chosen id each checkpoint is a stream of its own.
    to_sink(source(spark, place), place, checkpoint="third")
    assert ids(out) == sorted([*range(10)] * 2)
    ps.forget_stream(out, "orders")
    to_sink(source(spark, place), place, checkpoint="other", appId="orders")
    assert len(ids(out)) == 30
    with pytest.raises(pilum.InvalidInputError, match="no stream 'none'"):
        ps.forget_stream(out, "none")


def test_aggregates_in_complete_mode_replace_the_rows(spark, place):
    out = str(place / "out")

    def run():
        counts = source(spark, place).groupBy((F.col("id") % 2).alias("odd")).count()
        query = (
            counts.writeStream.format("pilum")
            .outputMode("complete")
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start(out)
        )
        assert query.awaitTermination(SECONDS)
        return sorted((row["odd"], row["count"]) for row in pilum.dataset(out).to_table().to_pylist())

    assert run() == [(0, 5), (1, 5)]
    append(str(place / "in"), 10)
    assert run() == [(0, 10), (1, 10)]
    repeat_last_batch(place)
    assert run() == [(0, 10), (1, 10)]


def test_foreach_batch_writes_each_batch_once(spark, place):
    out = str(place / "out")

    def run(app_id=None):
        query = (
            source(spark, place)
            .writeStream.foreachBatch(ps.foreach_batch(out, app_id, properties={"job": "copy"}))
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS)

    run()
    append(str(place / "in"), 10)
    run()
    repeat_last_batch(place)
    run()
    assert ids(out) == list(range(20))
    assert pilum.dataset(out).versions()[0].properties["job"] == "copy"
    with pytest.raises(pilum.InvalidInputError, match="without spaces"):
        ps.foreach_batch(out, "a b")
    with pytest.raises(pilum.InvalidInputError, match="castt"):
        ps.foreach_batch(out, castt="exact")


def test_the_sink_takes_rows_where_spark_has_no_arrow_sink(spark, place, monkeypatch):
    from pilum.spark import source_rows
    from pilum.spark.types import from_spark_schema

    df = spark.sql(
        "SELECT TIMESTAMP '2026-03-29 01:30:00' AS at, TIMESTAMP_NTZ '2026-03-29 02:30:00' AS n, array(1, null) AS l, "
        "map('a', named_struct('x', 1.5BD)) AS m, X'00ff' AS y, DATE '1582-10-04' AS d, cast(null as string) AS s"
    )
    columns = from_spark_schema(df.schema)
    monkeypatch.setattr(source_rows, "BATCH_ROWS", 1)
    (batch, again) = source_rows.batches_of([*df.collect(), *df.collect()], columns)
    assert batch.schema == columns
    assert batch == again
    ps.write(df, str(place / "out"))
    assert pilum.dataset(str(place / "out")).to_table().to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxFilesPerTriger": "1"}, "did you mean 'maxFilesPerTrigger'"),
        ({"version": "1"}, "'version' is one of a batch read"),
        ({"onChange": "ignore"}, "'onChange': pass 'fail' or 'skip' or 'changes'"),
        ({"startingVersion": "99"}, "startingVersion=99"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "both choose the start"),
    ],
)
def test_wrong_stream_options_are_refused_by_name(spark, place, options, said):
    with pytest.raises(Exception, match=said):
        to_sink(source(spark, place, **options), place)
    assert not Path(place / "out").exists()


def test_wrong_sink_options_are_refused_by_name(spark, place):
    for options, said in [
        ({"apId": "x"}, "did you mean 'appId'"),
        ({"commitId": "x"}, "'commitId' is one of a write"),
        ({"properties": '{"pilum.stream.app": "x"}'}, "belong to streams"),
        ({"appId": "a b"}, "without spaces"),
    ]:
        with pytest.raises(Exception, match=said):
            to_sink(source(spark, place), place, **options)
    assert not (place / "out").exists()
